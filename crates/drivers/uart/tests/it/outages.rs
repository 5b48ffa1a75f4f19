//! Ports that pause, lose their power, or vanish: every loss is reported.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_devices::{Fault, Faulty, VirtualClock};
use nostall_io::{Clock, Counting, Nanos, Registers};
use nostall_uart::registers::{FCR, IER, IIR, LCR, LSR, MSR, THR, iir, lcr, lsr};
use nostall_uart::{Console, ConsoleSettings, LineSettings, Model, OpenError, PowerLoss, Strategy};

const LINE: LineSettings = LineSettings::baud(115_200);
const TEXT: &[u8] = include_bytes!("../../../../lab/nostall-lab/fixtures/console/linux-boot.log");

/// Rate of the throttled port's reader in bytes per second.
const RATE: u64 = 11_520;

fn plain() -> ConsoleSettings {
    ConsoleSettings::from(LINE)
}

fn recovering() -> ConsoleSettings {
    ConsoleSettings {
        power_loss: PowerLoss::Recover,
        ..plain()
    }
}

fn crlf(text: &[u8]) -> Vec<u8> {
    text.iter().fold(Vec::new(), |mut sent, &byte| {
        if byte == b'\n' {
            sent.push(b'\r');
        }
        sent.push(byte);
        sent
    })
}

/// A virtual machine's port whose reader takes bytes in batches, with pauses between them.
struct Lumpy {
    clock: VirtualClock,
    pause: Nanos,
    lump: Cell<u64>,
    /// Bytes left in the batch.
    budget: Cell<u64>,
    fifo: RefCell<VecDeque<u8>>,
    sink: RefCell<Vec<u8>>,
    latches: RefCell<[u8; 8]>,
}

impl Lumpy {
    fn new(clock: &VirtualClock, pause: Nanos) -> Self {
        Self {
            clock: clock.clone(),
            pause,
            lump: Cell::new(0),
            budget: Cell::new(0),
            fifo: RefCell::default(),
            sink: RefCell::default(),
            latches: RefCell::default(),
        }
    }

    fn access(&self) {
        self.clock.advance(Nanos::from_micros(1));
        let lump = self.clock.now().0 / self.pause.0;
        if self.lump.replace(lump) < lump {
            self.budget.set(RATE * self.pause.0 / 1_000_000_000);
        }
        let mut fifo = self.fifo.borrow_mut();
        let taken = (self.budget.get() as usize).min(fifo.len());
        self.budget.set(self.budget.get() - taken as u64);
        self.sink.borrow_mut().extend(fifo.drain(..taken));
    }

    fn dlab(&self) -> bool {
        self.latches.borrow()[LCR] & lcr::DLAB != 0
    }
}

impl Registers for Lumpy {
    fn read8(&self, offset: usize) -> u8 {
        self.access();
        match offset {
            LSR if self.fifo.borrow().is_empty() => lsr::THRE | lsr::TEMT,
            LSR | MSR => 0,
            IIR => iir::FIFOS | iir::NONE,
            _ => self.latches.borrow()[offset],
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        self.access();
        match offset {
            THR if !self.dlab() => {
                let mut fifo = self.fifo.borrow_mut();
                assert!(fifo.len() < 16, "a byte is lost in a full FIFO");
                fifo.push_back(value);
            }
            IER if self.dlab() => {}
            THR | FCR => {}
            _ => self.latches.borrow_mut()[offset] = value,
        }
    }
}

fn lumpy(pause_ms: u64, settings: ConsoleSettings) -> Console<Lumpy, VirtualClock> {
    let clock = VirtualClock::new();
    let port = Lumpy::new(&clock, Nanos::from_millis(pause_ms));
    let settings = ConsoleSettings {
        model: Some(Model::Uart16550A),
        ..settings
    };
    Console::open(port, clock, settings).unwrap()
}

#[test]
fn a_reader_that_pauses_for_50_or_300_ms_loses_nothing_by_default() {
    for pause_ms in [50, 300] {
        for strategy in Strategy::ALL {
            let mut console = lumpy(pause_ms, plain());
            console.set_strategy(strategy);
            for line in TEXT.split_inclusive(|&byte| byte == b'\n').take(300) {
                let report = console.write(line);
                assert!(report.is_complete(), "{pause_ms} ms, {strategy}");
            }
            console.flush().unwrap();
            let lines = TEXT.split_inclusive(|&byte| byte == b'\n').take(300);
            let expected = crlf(&lines.collect::<Vec<_>>().concat());
            let sent = console.registers().sink.take();
            assert!(sent == expected, "{pause_ms} ms, {strategy}");
            assert_eq!(console.lost(), 0);
        }
    }
}

/// Checks that `sent` is `expected` with the gaps that its reports state. Returns the number of
/// missing bytes.
fn missing(sent: &[u8], expected: &[u8]) -> u64 {
    const WORDS: &[u8] = b" bytes lost]\r\n";
    let (mut sent, mut expected, mut missing) = (sent, expected, 0);
    while let Some(end) = sent.windows(WORDS.len()).position(|part| part == WORDS) {
        let start = sent[..end].iter().rposition(|&byte| byte == b'[').unwrap();
        let count = std::str::from_utf8(&sent[start + 1..end]).unwrap();
        let count: usize = count.parse().unwrap();
        // The report ends a line that was interrupted.
        let before = &sent[..start];
        let before = match expected.starts_with(before) {
            true => before,
            false => before.strip_suffix(b"\r\n").unwrap(),
        };
        expected = expected.strip_prefix(before).unwrap();
        expected = &expected[count..];
        missing += count as u64;
        sent = &sent[end + WORDS.len()..];
    }
    assert!(sent == expected, "the rest is different");
    missing
}

#[test]
fn with_a_short_time_limit_reports_give_the_exact_gaps() {
    for strategy in Strategy::ALL {
        let settings = ConsoleSettings {
            give_up_after: Nanos::from_millis(20),
            ..plain()
        };
        let mut console = lumpy(50, settings);
        console.set_strategy(strategy);
        let (mut written, mut dropped) = (0, 0);
        let text = &TEXT[..20_000];
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let report = console.write(line);
            written += report.written;
            dropped += report.dropped;
            let now = console.clock().now();
            console.clock().wait_until(now + Nanos::from_millis(1));
        }
        // The port takes bytes again.
        let now = console.clock().now();
        console.clock().wait_until(now + Nanos::from_millis(100));
        assert!(console.write(b"the end\n").is_complete(), "{strategy}");
        console.flush().unwrap();
        let expected = crlf(&[text, b"the end\n"].concat());
        assert_eq!(written + dropped + 9, expected.len(), "{strategy}");
        assert!(dropped > 1_000, "{strategy}: {dropped}");
        let sent = console.registers().sink.take();
        assert_eq!(missing(&sent, &expected), dropped as u64, "{strategy}");
        assert_eq!(console.lost(), dropped as u64);
    }
}

#[test]
fn bytes_that_are_lost_while_a_report_is_sent_are_reported_before_later_text() {
    for looks in 0..40 {
        let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
        let port = Faulty::after(u64::MAX, Fault::StuckStatus, port);
        let mut console = Console::open(&port, &clock, LINE).unwrap();
        port.recover_for(0);
        assert_eq!(console.write(b"abcdefghijkl").dropped, 12);
        port.recover_for(looks);
        let second = console.write(b"mnopqrstuvwx").dropped;
        port.recover_for(u64::MAX);
        assert_eq!(console.write(b"yz").dropped, 0);
        console.flush().unwrap();
        let arrived = port.arrived();
        let lost = missing(&arrived, b"abcdefghijklmnopqrstuvwxyz");
        assert_eq!(lost, 12 + second as u64, "{looks} looks");
    }
}

#[test]
fn lost_bytes_are_reported_by_the_next_offer_or_flush_that_finds_the_port_ready() {
    for way in ["offer", "empty offer", "flush"] {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let port = Faulty::after(u64::MAX, Fault::StuckStatus, port);
        let mut console = Console::open(&port, &clock, LINE).unwrap();
        port.recover_for(0);
        assert_eq!(console.write(b"lost\n").dropped, 6);
        assert_eq!(console.write(b"and lost\n").dropped, 10);
        assert_eq!(console.offer(b"later\n").taken, 0);
        port.recover_for(u64::MAX);
        let text: &[u8] = if way == "offer" { b"later\n" } else { b"" };
        let mut rest = text;
        for _ in 0..4 {
            if way != "flush" {
                clock.wait_until(clock.now() + Nanos::from_millis(10));
                rest = &rest[console.offer(rest).taken..];
            }
        }
        console.flush().unwrap();
        assert_eq!(console.lost(), 16);
        let sent = [b"[16 bytes lost]\r\n", &crlf(text)[..]].concat();
        assert_eq!(port.arrived(), sent, "{way}");
    }
}

/// Access to the bytes that arrived from a port behind a fault.
trait Arrived {
    fn arrived(&self) -> Vec<u8>;
}

impl Arrived for Faulty<VirtualPort<Vec<u8>>> {
    fn arrived(&self) -> Vec<u8> {
        self.inner().with(|uart| uart.sink_mut().clone())
    }
}

#[test]
fn a_stuck_port_costs_one_time_limit_for_50_writes() {
    for strategy in Strategy::ALL {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let port = port.with_fault(200, Fault::StuckStatus);
        let mut console = Console::open(&port, &clock, LINE).unwrap();
        console.set_strategy(strategy);
        let start = clock.now();
        while console.write(b"a line of an oops\n").is_complete() {}
        for _ in 0..50 {
            assert!(!console.write(b"a line of an oops\n").is_complete());
        }
        let took = clock.now() - start;
        let bound = console.longest_wait();
        assert_eq!(bound, ConsoleSettings::GIVE_UP_AFTER);
        assert!(took < bound + bound / 10, "{strategy}: {took}");
    }
}

/// A port that takes a load just before the time limit ends.
struct JustInTime<'a> {
    port: &'a VirtualPort<Vec<u8>>,
    clock: VirtualClock,
    busy_until: Cell<Nanos>,
}

impl Registers for JustInTime<'_> {
    fn read8(&self, offset: usize) -> u8 {
        let value = self.port.read8(offset);
        match offset {
            LSR if self.clock.now() < self.busy_until.get() => value & !(lsr::THRE | lsr::TEMT),
            _ => value,
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        self.port.write8(offset, value);
        if offset == THR {
            let busy = Nanos::from_millis(485);
            self.busy_until.set(self.clock.now() + busy);
        }
    }
}

#[test]
fn a_write_takes_at_most_one_time_limit_per_load_and_two() {
    for strategy in Strategy::ALL {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let port = JustInTime {
            port: &port,
            clock: clock.clone(),
            busy_until: Cell::new(Nanos::ZERO),
        };
        let mut console = Console::open(&port, &clock, LINE).unwrap();
        console.set_strategy(strategy);
        let start = clock.now();
        assert!(console.write(&[b'x'; 160]).is_complete(), "{strategy}");
        let took = clock.now() - start;
        let loads = if strategy == Strategy::BytePolled {
            160
        } else {
            10
        };
        let bound = console.longest_wait();
        assert!(took < bound * (loads + 2), "{strategy}: {took}");
        // The write needs nearly this time, so the documentation cannot promise less.
        assert!(took > bound * (loads - 1) * 9 / 10, "{strategy}: {took}");
    }
}

/// A port whose transmitter takes bytes, but does not show that the last one has left.
struct NeverIdle<'a> {
    port: &'a VirtualPort<Vec<u8>>,
    shows_idle: Cell<bool>,
}

impl<'a> NeverIdle<'a> {
    fn new(port: &'a VirtualPort<Vec<u8>>) -> Self {
        Self {
            port,
            shows_idle: Cell::new(false),
        }
    }
}

impl Registers for NeverIdle<'_> {
    fn read8(&self, offset: usize) -> u8 {
        let value = self.port.read8(offset);
        match offset {
            LSR if !self.shows_idle.get() => value & !lsr::TEMT,
            _ => value,
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        self.port.write8(offset, value);
    }
}

#[test]
fn a_port_that_never_appears_idle_costs_one_time_limit() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let mut console = Console::open(NeverIdle::new(&port), &clock, LINE).unwrap();
    let start = clock.now();
    for _ in 0..50 {
        let report = console.write(b"0123456789\n");
        assert_eq!((report.dropped, report.timed_out), (0, true));
    }
    let took = clock.now() - start;
    let bound = console.longest_wait();
    assert!(took < bound + bound / 4, "{took}");
}

#[test]
fn a_port_that_paused_with_its_last_byte_is_waited_for_again() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let pausing = NeverIdle::new(&port);
    let mut console = Console::open(&pausing, &clock, LINE).unwrap();
    assert!(console.write(b"paused\n").timed_out);
    pausing.shows_idle.set(true);
    for _ in 0..3 {
        assert!(console.write(b"goes on\n").is_complete());
        assert!(port.with(|uart| uart.sink_mut().ends_with(b"\r\n")));
    }
}

#[test]
fn a_vanished_designware_that_may_recover_costs_each_write_one_poll() {
    let (port, clock) = Uart::in_virtual_time_as(Model::DesignWare, Profile::PC_16550A, Vec::new());
    let port = Faulty::after(u64::MAX, Fault::AllOnes, port);
    let settings = ConsoleSettings {
        model: Some(Model::DesignWare),
        ..recovering()
    };
    let mut console = Console::open(&port, &clock, settings).unwrap();
    assert!(console.write(b"before\n").is_complete());
    port.recover_for(0);
    for _ in 0..3 {
        let start = clock.now();
        let report = console.write(b"lost\n");
        assert_eq!((report.dropped, report.timed_out), (6, false));
        let took = clock.now() - start;
        assert!(took < Nanos::from_micros(50), "{took}");
    }
    port.recover_for(u64::MAX);
    assert!(console.write(b"after\n").is_complete());
    assert_eq!(port.arrived(), b"before\r\n[18 bytes lost]\r\nafter\r\n");
}

/// A DesignWare that loses its power, and stays busy after the power returns.
struct Busy<'a> {
    port: &'a VirtualPort<Vec<u8>>,
    busy: Cell<bool>,
}

impl Registers for Busy<'_> {
    fn read8(&self, offset: usize) -> u8 {
        self.port.read8(offset)
    }

    fn write8(&self, offset: usize, value: u8) {
        if offset != LCR || !self.busy.get() {
            self.port.write8(offset, value);
        }
    }
}

#[test]
fn a_designware_that_stays_busy_after_a_loss_of_power_costs_one_time_limit() {
    let (port, clock) = Uart::in_virtual_time_as(Model::DesignWare, Profile::PC_16550A, Vec::new());
    let busy = Busy {
        port: &port,
        busy: Cell::new(false),
    };
    let settings = ConsoleSettings {
        model: Some(Model::DesignWare),
        ..recovering()
    };
    let mut console = Console::open(&busy, &clock, settings).unwrap();
    port.with(Uart::reset);
    busy.busy.set(true);
    let took = |console: &mut Console<_, _>| {
        let start = clock.now();
        let report = console.write(b"lost\n");
        assert_eq!((report.dropped, report.timed_out), (6, true));
        clock.now() - start
    };
    let first = took(&mut console);
    assert!(first < Nanos::from_millis(21), "{first}");
    let later = took(&mut console);
    assert!(later < Nanos::from_micros(100), "{later}");
    busy.busy.set(false);
    assert!(console.write(b"after\n").is_complete());
}

/// A port whose power returns slowly. At first every register reads 0, and then its FIFO control
/// ignores writes for a while.
struct SlowPower<'a> {
    port: &'a VirtualPort<Vec<u8>>,
    state: Cell<Power>,
}

#[derive(Clone, Copy, PartialEq)]
enum Power {
    Off,
    WithoutFifo,
    On,
}

impl Registers for SlowPower<'_> {
    fn read8(&self, offset: usize) -> u8 {
        let value = self.port.read8(offset);
        match self.state.get() {
            Power::Off => 0,
            Power::WithoutFifo | Power::On => value,
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        match self.state.get() {
            Power::Off => {}
            Power::WithoutFifo if offset == FCR => {}
            Power::WithoutFifo | Power::On => self.port.write8(offset, value),
        }
    }
}

#[test]
fn after_a_loss_of_power_the_fifo_is_loaded_as_before() {
    for between in [Power::Off, Power::WithoutFifo] {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let power = Counting::new(SlowPower {
            port: &port,
            state: Cell::new(Power::On),
        });
        let settings = ConsoleSettings {
            model: Some(Model::Uart16550A),
            ..recovering()
        };
        let mut console = Console::open(&power, &clock, settings).unwrap();
        assert_eq!(console.transmit_load(), 16);
        port.with(Uart::reset);
        power.inner().state.set(between);
        console.write(b"meanwhile");
        power.inner().state.set(Power::On);
        let before = power.counts();
        assert!(console.write(&[b'x'; 160]).is_complete());
        assert_eq!(console.transmit_load(), 16);
        let counts = power.counts() - before;
        println!("{} reads", counts.reads);
        // One poll per microsecond while ten FIFOs are sent, and the set-up.
        assert!(counts.bursts >= 10);
        console.set_strategy(Strategy::FifoPaced);
        let before = power.counts();
        assert!(console.write(&[b'x'; 160]).is_complete());
        let reads = (power.counts() - before).reads;
        assert!(reads <= 50, "{reads} reads for 160 bytes");
    }
}

#[test]
fn bytes_in_a_port_that_lost_its_power_are_reported_as_possibly_lost() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let mut console = Console::open(&port, &clock, recovering()).unwrap();
    console.set_strategy(Strategy::FifoPaced);
    assert!(console.write(b"in the FIFO").is_complete());
    port.with(Uart::reset);
    assert!(console.write(b"after\n").is_complete());
    console.flush().unwrap();
    let sent = port.into_sink();
    assert!(
        sent.ends_with(b"\r\n[up to 11 bytes lost]\r\nafter\r\n"),
        "{}",
        String::from_utf8_lossy(&sent)
    );
}

#[test]
fn an_8250_is_refused_if_a_loss_of_power_must_be_detected() {
    let (port, clock) = Uart::in_virtual_time_as(Model::Uart8250, Profile::VM, Vec::new());
    for model in [Some(Model::Uart8250), None] {
        let settings = ConsoleSettings {
            model,
            ..recovering()
        };
        let error = Console::open(&port, &clock, settings).unwrap_err();
        assert_eq!(error, OpenError::NoScratch);
    }
}

//! A console with explicit settings for its port.

use std::cell::Cell;

use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_devices::{Fault, VirtualClock};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::{IER, LCR, LSR, MCR, MSR, THR, lcr, lsr, mcr, msr};
use nostall_uart::{
    Console, ConsoleSettings, FlowControl, LineSettings, Model, OpenError, PowerLoss, Rs485,
    Strategy,
};
use proptest::prelude::*;

const TEXT: &[u8] = include_bytes!("../../../../lab/nostall-lab/fixtures/console/linux-boot.log");
const LINE: LineSettings = LineSettings::baud(115_200);

type Port = VirtualPort<Vec<u8>>;

fn crlf(text: &[u8]) -> Vec<u8> {
    text.iter().fold(Vec::new(), |mut sent, &byte| {
        if byte == b'\n' {
            sent.push(b'\r');
        }
        sent.push(byte);
        sent
    })
}

fn plain() -> ConsoleSettings {
    ConsoleSettings::from(LINE)
}

fn sent(port: &Port) -> Vec<u8> {
    assert_eq!(port.with(|uart| uart.lost()), 0);
    port.with(|uart| uart.sink_mut().clone())
}

#[test]
fn every_model_named_or_probed_delivers_every_byte_with_every_strategy() {
    for (model, strategy) in Model::ALL
        .into_iter()
        .flat_map(|model| Strategy::ALL.map(|strategy| (model, strategy)))
    {
        for named in [Some(model), None] {
            if (named, model) == (None, Model::Bcm2835Mini) {
                continue; // it must be named
            }
            let (port, clock) = Uart::in_virtual_time_as(model, Profile::PC_16550A, Vec::new());
            let settings = ConsoleSettings {
                model: named,
                ..plain()
            };
            let mut console = Console::open(&port, &clock, settings).unwrap();
            console.set_strategy(strategy);
            let found = match (named, model) {
                (None, Model::DesignWare) => Model::Uart16550A,
                _ => model,
            };
            assert_eq!(console.model(), found);
            assert!(console.write(&TEXT[..1_000]).is_complete());
            console.flush().unwrap();
            assert!(sent(&port) == crlf(&TEXT[..1_000]), "{model} {strategy}");
        }
    }
}

#[test]
fn a_port_that_was_not_opened_is_set_up_by_its_first_use() {
    for model in Model::ALL {
        for named in [Some(model), None] {
            if matches!(
                (named, model),
                (None, Model::Uart16650 | Model::Bcm2835Mini)
            ) {
                continue; // their FIFOs are not those of a 16550A
            }
            let (port, clock) = Uart::in_virtual_time_as(model, Profile::PC_16550A, Vec::new());
            // Another user was stopped in its set-up.
            port.write8(LCR, lcr::DLAB);
            let settings = ConsoleSettings {
                model: named,
                ..plain()
            };
            let mut console = Console::unopened(&port, &clock, settings).unwrap();
            assert!(console.write(&TEXT[..1_000]).is_complete());
            console.flush().unwrap();
            assert!(sent(&port) == crlf(&TEXT[..1_000]), "{model} {named:?}");
        }
    }
}

#[test]
fn a_transmit_load_of_1_to_128_is_honoured_and_no_other() {
    let open = |load| {
        let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
        let settings = ConsoleSettings {
            transmit_load: Some(load),
            ..plain()
        };
        Console::open(port, clock, settings).map(|console| console.transmit_load())
    };
    for load in 1..=128 {
        assert_eq!(open(load), Ok(load));
    }
    for load in [0, 129, usize::MAX] {
        assert_eq!(open(load), Err(OpenError::TransmitLoad(load)));
    }
}

#[test]
fn a_fifo_of_one_loses_nothing() {
    for strategy in Strategy::ALL {
        let (port, clock) =
            Uart::in_virtual_time_as(Model::Uart16450, Profile::PC_16550A, Vec::new());
        let settings = ConsoleSettings {
            transmit_load: Some(1),
            model: Some(Model::Uart16550A),
            ..plain()
        };
        let mut console = Console::open(&port, &clock, settings).unwrap();
        console.set_strategy(strategy);
        assert!(console.write(&TEXT[..500]).is_complete());
        console.flush().unwrap();
        assert!(sent(&port) == crlf(&TEXT[..500]), "{strategy}");
    }
}

/// A port whose other end withdraws CTS at intervals.
struct Teasing<'a> {
    port: &'a Port,
    clock: &'a VirtualClock,
    written_without_cts: Cell<u32>,
    most: Cell<u32>,
}

impl Teasing<'_> {
    fn look(&self) -> bool {
        let clear = self.clock.now().0 / 700_000 % 3 != 2;
        let lines = if clear { msr::CTS } else { 0 };
        self.port.with(|uart| uart.set_modem_lines(lines));
        if clear {
            self.written_without_cts.set(0);
        }
        clear
    }
}

impl Registers for Teasing<'_> {
    fn read8(&self, offset: usize) -> u8 {
        self.look();
        self.port.read8(offset)
    }

    fn write8(&self, offset: usize, value: u8) {
        let clear = self.look();
        if offset == THR && !clear && self.port.read8(LCR) & lcr::DLAB == 0 {
            self.written_without_cts
                .set(self.written_without_cts.get() + 1);
            self.most
                .set(self.most.get().max(self.written_without_cts.get()));
        }
        self.port.write8(offset, value);
    }
}

#[test]
fn when_cts_changes_every_byte_arrives_and_at_most_one_is_sent_after_its_end() {
    for strategy in Strategy::ALL {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let teasing = Teasing {
            port: &port,
            clock: &clock,
            written_without_cts: Cell::new(0),
            most: Cell::new(0),
        };
        let settings = ConsoleSettings {
            flow_control: FlowControl::Cts,
            ..plain()
        };
        let mut console = Console::open(&teasing, &clock, settings).unwrap();
        console.set_strategy(strategy);
        assert!(console.write(&TEXT[..2_000]).is_complete(), "{strategy}");
        console.flush().unwrap();
        assert_ne!(
            console.take_latched_status().modem_status & msr::DELTA_CTS,
            0
        );
        assert!(sent(&port) == crlf(&TEXT[..2_000]), "{strategy}");
        assert!(teasing.most.get() <= 1, "{strategy}");
    }
}

#[test]
fn a_cts_that_never_comes_costs_a_second_once_and_is_reported() {
    for strategy in Strategy::ALL {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let port = port.with_fault(0, Fault::NoCts);
        let settings = ConsoleSettings {
            flow_control: FlowControl::Cts,
            ..plain()
        };
        let mut console = Console::open(&port, &clock, settings).unwrap();
        console.set_strategy(strategy);
        let start = clock.now();
        let report = console.write(b"held off\n");
        let took = clock.now() - start;
        assert_eq!((report.written, report.dropped), (0, 10));
        assert!(report.timed_out);
        assert!(took >= Nanos::from_secs(1), "{strategy}: {took}");
        assert!(took < Nanos::from_millis(1_010), "{strategy}: {took}");
    }
}

#[test]
fn a_cts_that_did_not_come_costs_the_next_write_one_poll() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let settings = ConsoleSettings {
        flow_control: FlowControl::Cts,
        ..plain()
    };
    let port = port.with_fault(0, Fault::NoCts);
    let mut console = Console::open(&port, &clock, settings).unwrap();
    assert!(console.write(b"held off").timed_out);
    let start = clock.now();
    assert!(console.write(b"again").timed_out);
    assert!(clock.now() - start < Nanos::from_millis(1));
}

/// A window that records changes of RTS, and the times at which the line is in use.
struct Turns<'a> {
    port: &'a Port,
    clock: &'a VirtualClock,
    raised: Cell<Nanos>,
    first: Cell<Option<Nanos>>,
    idle: Cell<Nanos>,
    lowered: Cell<Nanos>,
}

impl Registers for Turns<'_> {
    fn read8(&self, offset: usize) -> u8 {
        let value = self.port.read8(offset);
        if offset == LSR && value & lsr::TEMT != 0 {
            self.idle.set(self.clock.now());
        }
        value
    }

    fn write8(&self, offset: usize, value: u8) {
        if offset == THR && self.first.get().is_none() {
            self.first.set(Some(self.clock.now()));
        }
        if offset == MCR && value & mcr::RTS != 0 {
            self.raised.set(self.clock.now());
            self.first.set(None);
        } else if offset == MCR {
            self.lowered.set(self.clock.now());
        }
        self.port.write8(offset, value);
    }
}

#[test]
fn rs485_takes_the_line_before_a_write_and_releases_it_after() {
    for strategy in Strategy::ALL {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let turn = Rs485 {
            before: Nanos::from_micros(300),
            after: Nanos::from_micros(500),
        };
        let turns = Turns {
            port: &port,
            clock: &clock,
            raised: Cell::default(),
            first: Cell::default(),
            idle: Cell::default(),
            lowered: Cell::default(),
        };
        let settings = ConsoleSettings {
            rs485: Some(turn),
            ..plain()
        };
        let mut console = Console::open(&turns, &clock, settings).unwrap();
        console.set_strategy(strategy);
        assert_eq!(port.read8(MCR) & mcr::RTS, 0, "{strategy}");
        for _ in 0..3 {
            assert!(console.write(&TEXT[..100]).is_complete());
            let first = turns.first.get().unwrap();
            assert!(first >= turns.raised.get() + turn.before, "{strategy}");
            assert!(turns.lowered.get() >= turns.idle.get() + turn.after);
            assert_eq!(port.read8(MCR) & mcr::RTS, 0, "{strategy}");
        }
    }
}

#[test]
fn after_a_loss_of_power_later_writes_arrive_and_the_one_it_met_is_not_complete() {
    for strategy in Strategy::ALL {
        for after in [150, 300, 700] {
            let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
            let port = port.with_fault(after, Fault::PowerLoss);
            let settings = ConsoleSettings {
                power_loss: PowerLoss::Recover,
                ..plain()
            };
            let mut console = Console::open(&port, &clock, settings).unwrap();
            console.set_strategy(strategy);
            let report = console.write(&TEXT[..1_000]);
            assert!(!report.is_complete(), "{strategy} {after}: {report:?}");
            assert!(console.write(b"alive\n").is_complete(), "{strategy}");
            console.flush().unwrap();
            let all = port.with(|uart| uart.sink_mut().clone());
            assert!(all.ends_with(b"alive\r\n"), "{strategy} {after}");
        }
    }
}

thread_local!(static HOOKED: Cell<u32> = const { Cell::new(0) });

#[test]
fn the_watchdog_is_touched_in_long_waits() {
    for strategy in Strategy::ALL {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let settings = ConsoleSettings {
            while_waiting: Some(|| HOOKED.set(HOOKED.get() + 1)),
            ..plain()
        };
        let mut console =
            Console::open(port.with_fault(100, Fault::StuckStatus), clock, settings).unwrap();
        console.set_strategy(strategy);
        HOOKED.set(0);
        assert!(!console.write(&TEXT[..1_000]).is_complete());
        assert!(HOOKED.get() > 10, "{strategy}: {}", HOOKED.get());
    }
}

#[test]
fn errors_and_deltas_that_polls_have_cleared_are_reported_once() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let settings = ConsoleSettings {
        flow_control: FlowControl::Cts,
        ..plain()
    };
    let mut console = Console::open(&port, &clock, settings).unwrap();
    console.take_latched_status();
    port.with(|uart| uart.receive_with(b'?', lsr::PARITY));
    port.with(|uart| uart.set_modem_lines(msr::CTS));
    assert!(console.write(b"x").is_complete());
    let seen = console.take_latched_status();
    assert_eq!(seen.line_status, lsr::PARITY);
    assert_eq!(seen.modem_status, msr::DELTA_DSR | msr::DELTA_DCD);
    assert_eq!(console.take_latched_status(), Default::default());
    assert_eq!(port.read8(MSR) & 0x0f, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn offers_never_wait_and_deliver_every_byte_whenever_they_are_resumed(
        text in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 1..200),
        pauses in prop::collection::vec(0u64..3_000_000, 1..20),
    ) {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let mut console = Console::open(&port, &clock, LINE).unwrap();
        let mut rest = &text[..];
        for pause in pauses.iter().cycle().take(20_000) {
            let start = clock.now();
            let offered = console.offer(rest);
            // The time of a poll and at most one load.
            prop_assert!(clock.now() - start <= Profile::PC_16550A.access * 17);
            rest = &rest[offered.taken..];
            if rest.is_empty() {
                break;
            }
            let ready_at = offered.ready_at.unwrap();
            prop_assert!(ready_at <= clock.now() + console.longest_wait());
            // Half of the callers return at the returned time, the others at any time.
            clock.wait_until(if pause % 2 == 0 { ready_at } else { clock.now() + Nanos(*pause) });
        }
        prop_assert!(rest.is_empty());
        console.flush().unwrap();
        prop_assert_eq!(sent(&port), crlf(&text));
    }
}

/// Returns the duration of a long text, the time slept in it (both in nanoseconds), and the number
/// of bytes.
fn long_text(profile: Profile, strategy: Strategy, copies: usize) -> (u64, u64, u64) {
    let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    console.set_strategy(strategy);
    let text = TEXT.repeat(copies);
    let (start, slept) = (clock.now(), clock.slept());
    assert!(console.write(&text).is_complete());
    console.flush().unwrap();
    assert!(sent(&port) == crlf(&text));
    let took = (clock.now() - start).0;
    (took, (clock.slept() - slept).0, crlf(&text).len() as u64)
}

#[test]
fn pacing_keeps_a_pcs_line_busy_and_sleeps() {
    let (took, slept, bytes) = long_text(Profile::PC_16550A, Strategy::FifoPaced, 4);
    let rate = LINE.frame_time().0 as f64 * bytes as f64 / took as f64;
    let given_away = slept as f64 / took as f64;
    println!("pc-16550a: {rate:.5} of the line's rate, {given_away:.5} slept");
    assert!(rate >= 0.995, "{rate}");
    assert!(given_away >= 0.95, "{given_away}");
}

#[test]
fn pacing_keeps_a_controller_busy_and_sleeps() {
    let (took, slept, bytes) = long_text(Profile::HP_DL380_GEN9, Strategy::FifoPaced, 4);
    // Bytes beyond the buffer's size leave at its rate.
    let rate = (bytes - 2_170) as f64 * 336_700.0 / took as f64;
    let given_away = slept as f64 / took as f64;
    println!("hp-dl380-gen9: {rate:.5} of its drain rate, {given_away:.5} slept");
    assert!(rate >= 0.99, "{rate}");
    assert!(given_away >= 0.90, "{given_away}");
}

#[test]
fn on_a_fast_port_no_strategy_is_slower_than_byte_by_byte() {
    let of = |strategy| long_text(Profile::FAST_16550A, strategy, 1).0;
    let polled = of(Strategy::BytePolled);
    for strategy in Strategy::ALL {
        let took = of(strategy);
        println!(
            "fast-16550a: {strategy} {:.5} of byte-polled",
            took as f64 / polled as f64
        );
        // The write may end at any point of a poll and its pause.
        let pause = match strategy {
            // Pacing knows a load's time to a 128th of it.
            Strategy::FifoPaced => LINE.frame_time() * 16 / 128,
            _ => Nanos::from_micros(1),
        };
        let a_look = (Profile::FAST_16550A.access + pause).0;
        assert!(took <= polled + a_look, "{strategy}: {took} for {polled}");
    }
}

/// QEMU's mini UART: the interrupt enable register has two bits, and line control reads 0.
struct QemusMiniUart(Port);

impl Registers for QemusMiniUart {
    fn read8(&self, offset: usize) -> u8 {
        match (offset, self.0.read8(offset)) {
            (IER, value) => 0xc0 | value & 0b11,
            (LCR, _) => 0,
            (_, value) => value,
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        self.0.write8(offset, value);
    }
}

#[test]
fn qemus_mini_uart_is_opened_and_sends() {
    let (port, clock) =
        Uart::in_virtual_time_as(Model::Bcm2835Mini, Profile::PC_16550A, Vec::new());
    let settings = ConsoleSettings {
        model: Some(Model::Bcm2835Mini),
        ..LineSettings::baud(115_200).into()
    };
    let mut console = Console::open(QemusMiniUart(port), clock, settings).unwrap();
    assert!(console.write(b"one byte at once\n").is_complete());
}

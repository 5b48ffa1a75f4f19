//! Offers: writes that never wait for the port.

use std::cell::{Cell, RefCell};

use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_devices::{Fault, Faulty, VirtualClock};
use nostall_io::{Clock, Counting, Nanos, Registers};
use nostall_uart::registers::{MCR, THR, mcr, msr};
use nostall_uart::{
    Console, ConsoleSettings, FlowControl, LineSettings, Offered, PowerLoss, Rs485, Strategy,
};
use proptest::prelude::*;

const LINE: LineSettings = LineSettings::baud(115_200);
const SECOND: Nanos = Nanos::from_secs(1);

type Port = VirtualPort<Vec<u8>>;

fn plain() -> ConsoleSettings {
    ConsoleSettings::from(LINE)
}

#[test]
fn an_offer_before_the_predicted_time_returns_it_and_leaves_the_port_alone() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let port = Counting::new(port);
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    let ready_at = console.offer(&[b'x'; 100]).ready_at.unwrap();
    let before = port.counts();
    for _ in 0..50 {
        clock.advance(Nanos::from_micros(20));
        let again = Offered {
            taken: 0,
            ready_at: Some(ready_at),
        };
        assert_eq!(console.offer(&[b'x'; 84]), again);
        assert_eq!(port.counts(), before);
    }
    // The prediction is right: after a few polls, the FIFO takes the next load.
    clock.wait_until(ready_at);
    let mut looks = 0;
    loop {
        looks += 1;
        let offered = console.offer(&[b'x'; 84]);
        if offered.taken > 0 {
            break;
        }
        clock.wait_until(offered.ready_at.unwrap());
    }
    assert!(looks <= 4, "the FIFO took the load at look {looks}");
}

#[test]
fn a_slice_after_every_record_costs_at_most_4_wake_ups_for_each_fifo() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    let line = [b'x'; 80];
    let mut backlog = Vec::new();
    let (mut timer, mut wake_ups) = (None::<Nanos>, 0);
    let end = clock.now() + Nanos::from_millis(160);
    let mut next_record = clock.now();
    while clock.now() < end {
        if let Some(at) = timer.filter(|&at| at <= next_record) {
            clock.wait_until(at);
            wake_ups += 1;
        } else {
            clock.wait_until(next_record);
            next_record = next_record + Nanos::from_micros(400);
            backlog.extend(line);
        }
        let offered = console.offer(&backlog);
        backlog.drain(..offered.taken);
        timer = (!backlog.is_empty()).then(|| offered.ready_at.unwrap());
    }
    let fifos = port.with(|uart| uart.sink_mut().len()) / 16;
    assert!(fifos >= 110, "{fifos}");
    assert!(wake_ups <= 4 * fifos, "{wake_ups} for {fifos} FIFOs");
}

#[test]
fn on_a_port_that_empties_at_once_offers_continue_until_the_slice_is_used_up() {
    let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let port = Counting::new(port);
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    // First, the console measures the line's speed.
    for _ in 0..10 {
        let offered = console.offer(&[b'-'; 16]);
        assert_eq!(offered.taken, 16);
        clock.wait_until(offered.ready_at.unwrap());
    }
    let before = port.counts();
    // The slice begins at this time.
    let now = clock.now();
    let mut left = 1_024;
    while left > 0 {
        let offered = console.offer(&[b'x'; 1_024][..left]);
        left -= offered.taken;
        assert!(offered.taken > 0);
        assert!(offered.ready_at.unwrap() <= now);
    }
    // Expects at most one poll per load.
    let counts = port.counts() - before;
    assert_eq!(counts.bus_accesses(), 1_024 + 64);
}

#[test]
fn a_fast_port_is_detected_even_with_a_late_timer() {
    let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    let start = clock.now();
    let mut left = 16 * 1_024;
    while left > 0 {
        let offered = console.offer(&[b'x'; 16 * 1_024][..left]);
        left -= offered.taken;
        let ready_at = offered.ready_at.unwrap();
        if ready_at > clock.now() {
            // The timer's delay is longer than the time by which the prediction is early.
            clock.wait_until(ready_at + Nanos::from_micros(60));
        }
    }
    let took = clock.now() - start;
    let nominal = LINE.frame_time() * 16 * 1_024;
    assert!(took < nominal / 10, "{took} of {nominal}");
}

/// Returns the number of polls by offers during `span`. Each offer is made at the time that the
/// previous one returned.
fn looks(
    console: &mut Console<impl Registers, impl Clock>,
    looked: impl Fn() -> u64,
    span: Nanos,
) -> u64 {
    let start = looked();
    let end = console.clock().now() + span;
    while console.clock().now() < end {
        let offered = console.offer(b"text");
        assert_eq!(offered.taken, 0);
        console.clock().wait_until(offered.ready_at.unwrap());
    }
    looked() - start
}

#[test]
fn a_stuck_port_is_polled_100_times_a_second_and_resumes_within_10_ms() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let port = Counting::new(Faulty::after(u64::MAX, Fault::StuckStatus, port));
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    assert_eq!(console.offer(&[b'x'; 16]).taken, 16);
    port.inner().recover_for(0);
    let reads = || port.counts().reads;
    // The short pauses at the beginning cause additional polls once.
    let first = looks(&mut console, reads, SECOND);
    assert!(first <= 100 + 80, "{first}");
    let later = looks(&mut console, reads, SECOND * 10);
    assert!(later <= 10 * 100, "{later}");

    port.inner().recover_for(u64::MAX);
    let back = clock.now();
    let mut offered = console.offer(b"text");
    while offered.taken == 0 {
        clock.wait_until(offered.ready_at.unwrap());
        offered = console.offer(b"text");
    }
    assert!(clock.now() - back <= Nanos::from_millis(10) + Nanos::from_micros(50));
}

#[test]
fn a_port_held_off_by_cts_is_polled_100_times_a_second_and_resumes_within_10_ms() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let settings = ConsoleSettings {
        flow_control: FlowControl::Cts,
        ..plain()
    };
    let port = Counting::new(port);
    let mut console = Console::open(&port, &clock, settings).unwrap();
    let cts = |lines| port.inner().with(|uart| uart.set_modem_lines(lines));
    cts(0);
    // Each poll reads the line status and the modem status.
    let reads = || port.counts().reads / 2;
    let first = looks(&mut console, reads, SECOND);
    assert!(first <= 100 + 80, "{first}");
    let later = looks(&mut console, reads, SECOND * 10);
    assert!(later <= 10 * 100, "{later}");

    cts(msr::CTS);
    let back = clock.now();
    let mut offered = console.offer(b"text");
    while offered.taken == 0 {
        clock.wait_until(offered.ready_at.unwrap());
        offered = console.offer(b"text");
    }
    assert!(clock.now() - back <= Nanos::from_millis(10) + Nanos::from_micros(50));
}

/// A window that checks the timing of RTS: raised in time before each byte, and lowered in time
/// after the last one.
struct Line485<'a> {
    port: &'a Port,
    clock: &'a VirtualClock,
    times: Rs485,
    opened: Cell<bool>,
    raised: Cell<Option<Nanos>>,
    turns: Cell<u32>,
    /// Time at which the last bit of the last byte was sent.
    last_bit: Cell<Nanos>,
    mistakes: RefCell<Vec<&'static str>>,
}

impl Line485<'_> {
    fn check(&self, right: bool, mistake: &'static str) {
        if !right {
            self.mistakes.borrow_mut().push(mistake);
        }
    }

    fn look(&self) -> bool {
        let event = self.port.with(|uart| uart.next_event());
        event.into_iter().for_each(|at| self.last_bit.set(at));
        event.is_some()
    }
}

impl Registers for Line485<'_> {
    fn read8(&self, offset: usize) -> u8 {
        self.look();
        self.port.read8(offset)
    }

    fn write8(&self, offset: usize, value: u8) {
        let busy = self.look();
        let now = self.clock.now();
        match offset {
            THR if self.opened.get() => {
                let open_at = self.raised.get().map(|at| at + self.times.before);
                self.check(open_at.is_some(), "a byte while RTS is low");
                self.check(open_at.is_none_or(|at| at <= now), "a byte is too early");
            }
            MCR if value & mcr::RTS != 0 => {
                self.turns.set(self.turns.get() + 1);
                self.raised.set(Some(now));
            }
            MCR if self.raised.take().is_some() => {
                let closed_at = self.last_bit.get() + self.times.after;
                self.check(!busy && closed_at <= now, "RTS is lowered too early");
            }
            _ => {}
        }
        self.port.write8(offset, value);
    }
}

#[test]
fn offers_turn_an_rs485_line_around_without_waiting() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let times = Rs485 {
        before: Nanos::from_micros(300),
        after: Nanos::from_micros(500),
    };
    let line = Line485 {
        port: &port,
        clock: &clock,
        times,
        opened: Cell::default(),
        raised: Cell::default(),
        turns: Cell::default(),
        last_bit: Cell::default(),
        mistakes: RefCell::default(),
    };
    let settings = ConsoleSettings {
        rs485: Some(times),
        ..plain()
    };
    let mut console = Console::open(&line, &clock, settings).unwrap();
    line.opened.set(true);
    for turn in 1..=3 {
        // Offers 40 bytes, then nothing.
        let mut rest = &b"forty bytes that go over a shared line.\n"[..];
        let mut steps = 0;
        loop {
            let start = clock.now();
            let offered = console.offer(rest);
            let took = clock.now() - start;
            assert!(took <= Profile::PC_16550A.access * 19, "{took}");
            rest = &rest[offered.taken..];
            let ready_at = offered.ready_at.unwrap();
            if rest.is_empty() && ready_at <= clock.now() && offered.taken == 0 {
                break;
            }
            clock.wait_until(ready_at);
            steps += 1;
            assert!(steps < 50, "the line is never released");
        }
        assert_eq!(port.read8(MCR) & mcr::RTS, 0);
        assert_eq!(line.turns.get(), turn, "one turn for all bytes");
        clock.advance(SECOND);
    }
    assert_eq!(*line.mistakes.borrow(), [""; 0]);
    assert_eq!(port.with(|uart| uart.sink_mut().len()), 3 * 41);
}

#[test]
fn after_offers_flush_releases_an_rs485_line_and_write_uses_it() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let settings = ConsoleSettings {
        rs485: Some(Rs485 {
            before: Nanos::from_micros(300),
            after: Nanos::from_micros(500),
        }),
        ..plain()
    };
    let mut console = Console::open(&port, &clock, settings).unwrap();
    for last in ["flush", "write"] {
        let offered = console.offer(b"text");
        assert_eq!((offered.taken, port.read8(MCR) & mcr::RTS), (0, mcr::RTS));
        clock.wait_until(offered.ready_at.unwrap());
        assert_eq!(console.offer(b"text").taken, 4);
        assert_eq!(port.read8(MCR) & mcr::RTS, mcr::RTS);
        match last {
            "flush" => console.flush().unwrap(),
            _ => assert!(console.write(b", more").is_complete()),
        }
        assert_eq!(port.read8(MCR) & mcr::RTS, 0, "{last}");
    }
    assert_eq!(port.into_sink(), b"texttext, more");
}

#[test]
fn a_stuck_port_releases_an_rs485_line() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let port = Faulty::after(u64::MAX, Fault::StuckStatus, port);
    let settings = ConsoleSettings {
        rs485: Some(Rs485 {
            before: Nanos::ZERO,
            after: Nanos::ZERO,
        }),
        ..plain()
    };
    let mut console = Console::open(&port, &clock, settings).unwrap();
    assert_eq!(console.offer(&[b'x'; 100]).taken, 16);
    port.recover_for(0);
    let end = clock.now() + SECOND;
    while clock.now() < end {
        let offered = console.offer(&[b'x'; 84]);
        clock.wait_until(offered.ready_at.unwrap());
    }
    assert_eq!(port.read8(MCR) & mcr::RTS, 0);
}

#[test]
fn an_offer_sets_up_a_port_again_that_has_lost_its_power() {
    for strategy in Strategy::ALL {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let settings = ConsoleSettings {
            power_loss: PowerLoss::Recover,
            ..plain()
        };
        let mut console = Console::open(&port, &clock, settings).unwrap();
        console.set_strategy(strategy);
        port.with(Uart::reset);
        let mut rest = &b"alive"[..];
        for _ in 0..20 {
            let offered = console.offer(rest);
            rest = &rest[offered.taken..];
            clock.wait_until(offered.ready_at.unwrap());
        }
        assert!(rest.is_empty(), "{strategy}");
        console.flush().unwrap();
        // Without a divisor, no byte would have been sent.
        assert_eq!(port.into_sink(), b"alive", "{strategy}");
    }
}

#[test]
fn without_a_clock_rate_each_offer_polls_the_port_and_calibration_sets_the_clock_back() {
    /// A clock that shows no time before it is calibrated.
    struct Uncalibrated<'c>(&'c VirtualClock, &'c Cell<bool>);
    impl Clock for Uncalibrated<'_> {
        fn now(&self) -> Nanos {
            if self.1.get() {
                self.0.now()
            } else {
                Nanos::UNKNOWN
            }
        }
    }
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let is_calibrated = Cell::new(false);
    let mut console = Console::open(&port, Uncalibrated(&clock, &is_calibrated), LINE).unwrap();
    assert_eq!(console.offer(&[b'a'; 16]).taken, 16);
    let busy = console.offer(&[b'b'; 16]);
    assert_eq!(busy.taken, 0);
    assert!(!busy.ready_at.unwrap().is_known());
    clock.advance(Nanos::from_millis(2));
    assert_eq!(console.offer(&[b'b'; 16]).taken, 16);
    is_calibrated.set(true);
    clock.advance(Nanos::from_millis(2));
    let offered = console.offer(&[b'c'; 16]);
    assert_eq!(offered.taken, 16);
    assert!(offered.ready_at.unwrap() - clock.now() < Nanos::from_millis(2));
}

/// Offers `text` until the console has learned that the port takes it at once.
fn learn(console: &mut Console<impl Registers, &VirtualClock>, text: &[u8]) {
    for _ in 0..1_000 {
        let later = console.clock().now() + SECOND;
        let offered = console.offer_until(text, later);
        if offered.taken == text.len() {
            return;
        }
        console.clock().wait_until(offered.ready_at.unwrap());
    }
    panic!("it does not");
}

#[test]
fn a_port_that_is_ready_at_once_takes_many_fifos_in_one_offer() {
    let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let port = Counting::new(port);
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    let text = [b"fifteen bytes..\n".as_slice(); 32].concat();
    let later = clock.now() + SECOND;
    learn(&mut console, &text);
    let before = port.counts();
    let offered = console.offer_until(&text, later);
    assert_eq!((offered.taken, offered.ready_at), (512, Some(Nanos::ZERO)));
    // 544 bytes with their CRs: 34 loads, each after one look.
    let after = port.counts();
    assert_eq!(after.reads - before.reads, 34);
    assert_eq!(after.bursts - before.bursts, 34);
    assert_eq!(after.burst_values - before.burst_values, 544);
    assert_eq!(after.writes, before.writes);
    // The time ends an offer after the next load.
    let start = clock.now();
    let taken = console
        .offer_until(&text, start + Profile::VM.access * 20)
        .taken;
    assert!((16..48).contains(&taken), "{taken}");
    assert_eq!(console.offer_until(&text, start).taken, 15, "one load");
    // A line with a rate takes one load.
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    assert_eq!(console.offer_until(&text, clock.now() + SECOND).taken, 15);
}

#[test]
fn a_port_that_disappears_within_an_offer_has_taken_the_loads_before() {
    let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let port = Faulty::after(u64::MAX, Fault::AllOnes, port);
    let mut console = Console::open(&port, &clock, LINE).unwrap();
    let text = [b'x'; 160];
    let later = clock.now() + SECOND;
    learn(&mut console, &text);
    let mut least = usize::MAX;
    for good in 0..16 {
        port.recover_for(good);
        let offered = console.offer_until(&text, later);
        assert_eq!((offered.taken % 16, offered.ready_at), (0, None));
        assert!(offered.taken <= 16 * good as usize, "{offered:?}");
        least = least.min(16 * good as usize - offered.taken);
        port.recover_for(u64::MAX);
        learn(&mut console, &text);
    }
    assert_eq!(least, 0);
}

proptest! {
    #[test]
    fn offers_of_any_size_until_any_time_send_each_byte_once(
        parts in prop::collection::vec(("[a-c\n]{0,80}", 0..40u64), 1..20),
        fluent in any::<bool>(),
    ) {
        let profile = if fluent { Profile::VM } else { Profile::PC_16550A };
        let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
        let mut console = Console::open(&port, &clock, LINE).unwrap();
        let mut expected = String::new();
        for (text, micros) in &parts {
            expected += &text.replace('\n', "\r\n");
            let mut rest = text.as_bytes();
            while !rest.is_empty() {
                let until = clock.now() + Nanos::from_micros(*micros);
                let offered = console.offer_until(rest, until);
                rest = &rest[offered.taken..];
                clock.sleep_until(offered.ready_at.unwrap());
            }
        }
        console.flush().unwrap();
        prop_assert_eq!(String::from_utf8(port.into_sink()).unwrap(), expected);
    }
}

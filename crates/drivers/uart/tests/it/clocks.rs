//! Waits with a clock that stops or jumps: each wait ends, and a working port is not given up.

use std::cell::Cell;
use std::fmt::Write as _;

use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_devices::{Fault, VirtualClock};
use nostall_io::{Clock, Counting, Nanos, Registers};
use nostall_uart::registers::{LCR, LSR, lsr};
use nostall_uart::{
    Console, ConsoleSettings, FlowControl, LineSettings, Model, OpenError, PowerLoss, Rs485,
    Strategy, receive_fifo_depth,
};

const LINE: LineSettings = LineSettings::baud(115_200);
const HOUR: Nanos = Nanos::from_secs(3_600);

/// A defect of a clock.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    Stops,
    /// Jumps back by an hour, once.
    JumpsBack,
    /// Goes back at every read.
    RunsBack,
    /// Jumps ahead by an hour, once.
    JumpsAhead,
}

impl Trouble {
    const ALL: [Self; 4] = [
        Self::Stops,
        Self::JumpsBack,
        Self::RunsBack,
        Self::JumpsAhead,
    ];
}

/// A clock that advances with the port's time and with each read, until its defect begins.
///
/// Its waits end like the trait's default methods. If the clock makes no progress, the reads are
/// counted but not made, because there are millions of them.
struct BadClock {
    port: VirtualClock,
    trouble: Cell<Option<(Trouble, Nanos)>>,
}

impl BadClock {
    fn new(port: &VirtualClock) -> Self {
        Self {
            port: port.clone(),
            trouble: Cell::new(None),
        }
    }

    fn has(&self, trouble: Trouble) {
        self.trouble.set(Some((trouble, self.right())));
    }

    fn right(&self) -> Nanos {
        HOUR * 2 + self.port.now()
    }
}

impl Clock for BadClock {
    fn now(&self) -> Nanos {
        // A clock read takes time, in which the port also continues.
        self.port.advance(Nanos(20));
        let now = self.right();
        match self.trouble.get() {
            None => now,
            Some((Trouble::Stops, since)) => since,
            Some((Trouble::JumpsBack, _)) => now - HOUR,
            Some((Trouble::RunsBack, since)) => since - (now - since),
            Some((Trouble::JumpsAhead, _)) => now + HOUR,
        }
    }

    fn wait_until(&self, deadline: Nanos) {
        let now = self.now();
        if matches!(
            self.trouble.get(),
            Some((Trouble::Stops | Trouble::RunsBack, _))
        ) {
            let reads = (deadline - now).0.clamp(1_000, 16_384);
            self.port.advance(Nanos(20) * reads);
            return;
        }
        while self.now() < deadline {}
    }
}

/// The same clock with the trait's default waits.
struct Plain<'a>(&'a BadClock);

impl Clock for Plain<'_> {
    fn now(&self) -> Nanos {
        self.0.now()
    }
}

/// A clock with long steps, like a kernel's tick counter, and with the trait's default waits.
struct Ticks {
    port: VirtualClock,
    step: Nanos,
}

impl Clock for Ticks {
    fn now(&self) -> Nanos {
        self.port.advance(Nanos(100));
        self.step * (self.port.now() / self.step.0).0
    }
}

/// A port that is stuck for a time, measured with the correct clock.
struct Pauses<'a> {
    port: &'a Port,
    clock: VirtualClock,
    until: Cell<Nanos>,
}

impl Registers for Pauses<'_> {
    fn read8(&self, offset: usize) -> u8 {
        let value = self.port.read8(offset);
        match offset {
            LSR if self.clock.now() < self.until.get() => value & !(lsr::THRE | lsr::TEMT),
            _ => value,
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        self.port.write8(offset, value);
    }
}

#[test]
fn a_clock_with_long_steps_does_not_shorten_the_time_limit_of_a_write() {
    for step in [1, 10].map(Nanos::from_millis) {
        for strategy in [Strategy::FifoBurst, Strategy::FifoPaced] {
            let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
            let ticks = Ticks {
                port: clock.clone(),
                step,
            };
            let port = Pauses {
                port: &port,
                clock: clock.clone(),
                until: Cell::new(Nanos::ZERO),
            };
            let mut console = Console::open(&port, &ticks, LINE).unwrap();
            console.set_strategy(strategy);
            assert!(console.write(b"before the pause").is_complete());
            let start = clock.now();
            port.until.set(start + Nanos::from_millis(300));
            assert!(
                console.write(b"after it").is_complete(),
                "{strategy} {step}"
            );
            // A stuck port takes the time limit, and little more.
            port.until.set(Nanos(u64::MAX));
            let start = clock.now();
            assert!(!console.write(&[b'x'; 40]).is_complete());
            let took = clock.now() - start;
            assert!(took < Nanos::from_millis(600), "{strategy} {step}: {took}");
        }
    }
}

#[test]
fn a_clock_with_long_steps_shortens_the_turns_of_an_rs485_line_by_a_step_at_most() {
    let delay = Nanos::from_millis(5);
    let shared = ConsoleSettings {
        rs485: Some(Rs485 {
            before: delay,
            after: delay,
        }),
        ..settings()
    };
    let step = Nanos::from_millis(1);
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let ticks = Ticks {
        port: clock.clone(),
        step,
    };
    let mut console = Console::open(&port, &ticks, shared).unwrap();
    let start = clock.now();
    assert!(console.write(b"x").is_complete());
    let took = clock.now() - start;
    assert!(took >= (delay - step) * 2, "{took}");
    assert!(took < (delay + step) * 2, "{took}");
}

type Port = VirtualPort<Vec<u8>>;

fn settings() -> ConsoleSettings {
    ConsoleSettings {
        // With this value, the limit is twice the time of a FIFO.
        give_up_after: Nanos::ZERO,
        ..LINE.into()
    }
}

/// Runs `act` on one console for each defect of its clock. The defect begins at the start or soon
/// after.
fn each_trouble(
    settings: ConsoleSettings,
    act: impl Fn(Console<&Counting<Port>, &BadClock>, Trouble),
) {
    for trouble in Trouble::ALL {
        for strategy in Strategy::ALL {
            let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
            let port = Counting::new(port);
            let clock = BadClock::new(&clock);
            let mut console = Console::open(&port, &clock, settings).unwrap();
            console.set_strategy(strategy);
            assert!(console.write(b"before\n").is_complete());
            act(console, trouble);
        }
    }
}

/// A port that a test switches between working and stuck.
struct Switch<'a> {
    port: &'a Port,
    stuck: Cell<bool>,
    reads: Cell<u64>,
}

impl<'a> Switch<'a> {
    fn new(port: &'a Port) -> Self {
        Self {
            port,
            stuck: Cell::new(false),
            reads: Cell::new(0),
        }
    }
}

impl Registers for Switch<'_> {
    fn read8(&self, offset: usize) -> u8 {
        self.reads.set(self.reads.get() + 1);
        let value = self.port.read8(offset);
        match offset {
            LSR if self.stuck.get() => value & !(lsr::THRE | lsr::TEMT),
            _ => value,
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        self.port.write8(offset, value);
    }
}

#[test]
fn a_write_and_a_flush_on_a_stuck_port_end_with_any_clock() {
    for trouble in Trouble::ALL {
        for strategy in Strategy::ALL {
            let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
            let (port, clock) = (Switch::new(&port), BadClock::new(&clock));
            let mut console = Console::open(&port, &clock, settings()).unwrap();
            console.set_strategy(strategy);
            assert!(console.write(b"in the FIFO").is_complete());
            port.stuck.set(true);
            clock.has(trouble);
            let report = console.write(b"lost\n");
            assert!(report.timed_out, "{strategy} {trouble:?}");
            assert!(console.flush().is_err(), "{strategy} {trouble:?}");
            assert!(writeln!(console, "lost").is_err());
            let reads = port.reads.get();
            assert!(reads < 10_000, "{strategy} {trouble:?}: {reads} reads");
        }
    }
}

/// Returns the number of reads of a stuck port in one write with a stopped clock.
fn reads_with_a_stopped_clock(settings: impl Into<ConsoleSettings>, plain: bool) -> u64 {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let (port, bad) = (Switch::new(&port), BadClock::new(&clock));
    let clock: &dyn Clock = if plain { &Plain(&bad) } else { &bad };
    let mut console = Console::open(&port, clock, settings).unwrap();
    port.stuck.set(true);
    bad.has(Trouble::Stops);
    let before = port.reads.get();
    assert!(console.write(b"lost\n").timed_out);
    port.reads.get() - before
}

#[test]
fn the_default_time_limit_ends_a_wait_when_the_clock_has_stopped() {
    let looks = reads_with_a_stopped_clock(LINE, false);
    assert!((10_000..13_000).contains(&looks), "{looks}");
}

#[test]
fn the_default_waits_of_the_trait_end_when_the_clock_has_stopped() {
    let counted = reads_with_a_stopped_clock(settings(), false);
    let made = reads_with_a_stopped_clock(settings(), true);
    assert_eq!(made, counted);
}

#[test]
fn a_port_that_works_loses_nothing_with_any_clock() {
    let text = [b'x'; 400];
    each_trouble(settings(), |mut console, trouble| {
        console.clock().has(trouble);
        assert!(console.write(&text).is_complete(), "{trouble:?}");
        console.flush().unwrap();
        assert_eq!(console.lost(), 0);
    });
}

#[test]
fn offers_continue_with_any_clock() {
    each_trouble(settings(), |mut console, trouble| {
        let text = [b'x'; 100];
        let mut left = text.len() - console.offer(&text).taken;
        console.clock().has(trouble);
        let mut offers = 0;
        while left > 0 {
            let offered = console.offer(&text[..left]);
            left -= offered.taken;
            offers += 1;
            assert!(offers < 1_000, "{trouble:?}");
            // The caller's timer has its own clock.
            console.clock().port.advance(Nanos::from_micros(100));
            if trouble == Trouble::Stops && offered.taken == 0 {
                // A stopped clock gives no prediction, so it must run again.
                console.clock().trouble.set(None);
            }
        }
        console.flush().unwrap();
    });
}

#[test]
fn a_write_held_off_by_cts_ends_with_any_clock() {
    let held = ConsoleSettings {
        flow_control: FlowControl::Cts,
        ..settings()
    };
    each_trouble(held, |mut console, trouble| {
        let port = console.registers().inner();
        port.with(|uart| uart.set_modem_lines(0));
        console.clock().has(trouble);
        assert!(console.write(b"lost\n").timed_out, "{trouble:?}");
    });
}

#[test]
fn an_rs485_line_is_turned_around_with_any_clock() {
    let shared = ConsoleSettings {
        rs485: Some(Rs485 {
            before: Nanos::from_micros(300),
            after: Nanos::from_micros(500),
        }),
        ..settings()
    };
    each_trouble(shared, |mut console, trouble| {
        console.clock().has(trouble);
        assert!(console.write(b"text\n").is_complete(), "{trouble:?}");
        console.offer(b"text\n");
        console.flush().unwrap();
    });
}

#[test]
fn opening_a_stuck_port_ends_with_any_clock() {
    for trouble in Trouble::ALL {
        let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
        let port = port.with_fault(0, Fault::StuckStatus);
        let clock = BadClock::new(&clock);
        clock.has(trouble);
        assert!(
            Console::open(&port, &clock, settings()).is_ok(),
            "{trouble:?}"
        );
    }
}

/// A DesignWare that stays busy.
struct Busy<'a>(&'a Port);

impl Registers for Busy<'_> {
    fn read8(&self, offset: usize) -> u8 {
        self.0.read8(offset)
    }

    fn write8(&self, offset: usize, value: u8) {
        if offset != LCR {
            self.0.write8(offset, value);
        }
    }
}

#[test]
fn opening_a_busy_port_ends_with_any_clock() {
    for trouble in Trouble::ALL {
        let (port, clock) =
            Uart::in_virtual_time_as(Model::DesignWare, Profile::PC_16550A, Vec::new());
        let clock = BadClock::new(&clock);
        clock.has(trouble);
        let settings = ConsoleSettings {
            model: Some(Model::DesignWare),
            ..settings()
        };
        let opened = Console::open(Busy(&port), &clock, settings).map(drop);
        assert_eq!(opened, Err(OpenError::Busy), "{trouble:?}");
    }
}

#[test]
fn setting_a_port_up_again_ends_with_any_clock() {
    let recovering = ConsoleSettings {
        power_loss: PowerLoss::Recover,
        ..settings()
    };
    each_trouble(recovering, |mut console, trouble| {
        console.registers().inner().with(Uart::reset);
        console.clock().has(trouble);
        assert!(console.write(b"after\n").is_complete(), "{trouble:?}");
    });
}

#[test]
fn measuring_the_receive_fifo_ends_with_any_clock() {
    for trouble in Trouble::ALL {
        for stuck in [false, true] {
            let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
            let (port, clock) = (Switch::new(&port), BadClock::new(&clock));
            assert!(Console::open(&port, &clock, settings()).is_ok());
            port.stuck.set(stuck);
            clock.has(trouble);
            let depth = receive_fifo_depth(&port, &clock, LINE.frame_time());
            let expected = if stuck { 0 } else { 16 };
            assert_eq!(depth, expected, "{trouble:?}");
        }
    }
}

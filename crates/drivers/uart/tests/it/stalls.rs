//! Stalls that the driver reports, compared with the time for which the model's CPU is occupied.

use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_devices::{Fault, Faulty, Stalls, VirtualClock};
use nostall_io::{Clock, Counter, Counting, Nanos, StallCondition};
use nostall_uart::{Console, ConsoleSettings, FlowControl, LineSettings, Rs485, Strategy};

const LINE: LineSettings = LineSettings::baud(115_200);

/// A text of 2,500 bytes without line ends.
const TEXT: [u8; 2_500] = [b'x'; 2_500];

/// A 16550A whose registers take no time, so that all time is spent in waits.
const FREE: Profile = Profile {
    access: Nanos::ZERO,
    ..Profile::PC_16550A
};

type Port = Counting<VirtualPort<Vec<u8>>>;

fn open(
    profile: Profile,
    strategy: Strategy,
    settings: impl Into<ConsoleSettings>,
) -> (Console<Port, VirtualClock>, VirtualClock) {
    let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
    let mut console = Console::open(Counting::new(port), clock.clone(), settings).unwrap();
    console.set_strategy(strategy);
    (console, clock)
}

/// Returns the result of `run`, the time for which the CPU is occupied in it, and the reported
/// stalls.
fn held<T>(clock: &VirtualClock, run: impl FnOnce() -> T) -> (T, Nanos, Stalls) {
    let (start, slept) = (clock.now(), clock.slept());
    let (result, stalls) = Stalls::during(clock, run);
    let held = (clock.now() - start) - (clock.slept() - slept);
    (result, held, stalls)
}

#[test]
fn stalls_of_a_write_are_the_time_for_which_the_cpu_is_occupied_with_each_strategy() {
    for strategy in Strategy::ALL {
        let (mut console, clock) = open(FREE, strategy, LINE);
        let (report, held, stalls) = held(&clock, || console.write(&TEXT));
        assert_eq!(report.written, TEXT.len());
        assert_eq!(stalls.sum(), held, "{strategy}");
        // Pacing sleeps.
        assert_eq!(held == Nanos::ZERO, strategy == Strategy::FifoPaced);
        for (&(condition, _), file) in stalls.stalls.iter().zip(&stalls.files) {
            assert_eq!(condition, StallCondition::Transmitter);
            assert!(file.ends_with("uart/src/console/wait.rs"), "{file}");
        }
        assert_eq!(stalls.counted(Counter::UartBytes), 2_500, "{strategy}");
    }
}

#[test]
fn pacing_stalls_only_in_waits_too_short_for_a_sleep() {
    let (mut console, clock) = open(FREE, Strategy::FifoPaced, LINE);
    let (_, held, stalls) = held(&clock, || {
        for _ in 0..20 {
            console.write(b"xx");
        }
    });
    assert!(clock.slept() > held);
    assert!(held > Nanos::ZERO);
    assert_eq!(stalls.sum(), held);
}

#[test]
fn a_polled_burst_is_one_stall_and_lasts_as_long_as_the_line_needs() {
    let (mut console, clock) = open(FREE, Strategy::FifoBurst, LINE);
    let (_, held, stalls) = held(&clock, || console.write(&TEXT));
    // There are 157 loads of 16 bytes or less. The first one finds an idle port.
    assert_eq!(stalls.stalls.len(), 157);
    let frames = Nanos(86_805) * 2_500;
    assert!(
        (frames..frames + Nanos::from_micros(157)).contains(&held),
        "{held}"
    );
}

#[test]
fn register_accesses_outside_of_waits_are_no_stalls() {
    let (mut console, clock) = open(Profile::PC_16550A, Strategy::FifoBurst, LINE);
    let before = console.registers().counts();
    let (_, held, stalls) = held(&clock, || console.write(&TEXT));
    let counts = console.registers().counts() - before;
    // The first poll of each wait finds that the CPU has to wait, and is not part of the stall. The
    // first load costs one read. There is no interrupt to mask.
    let writes = counts.bus_accesses() - counts.reads;
    let looks = stalls.stalls.len() as u64 + 1;
    assert_eq!(
        stalls.sum() + Profile::PC_16550A.access * (writes + looks),
        held
    );
}

#[test]
fn a_port_that_is_stuck_or_held_off_is_one_stall_until_the_write_gives_up() {
    for (fault, condition, bounds) in [
        (Fault::StuckStatus, StallCondition::Transmitter, 1),
        (Fault::NoCts, StallCondition::ClearToSend, 2),
    ] {
        let settings = ConsoleSettings {
            flow_control: FlowControl::Cts,
            ..ConsoleSettings::from(LINE)
        };
        let (port, clock) = Uart::in_virtual_time(FREE, Vec::new());
        let port = Faulty::after(u64::MAX, fault, port);
        let mut console = Console::open(&port, clock.clone(), settings).unwrap();
        port.recover_for(0);
        console.set_strategy(Strategy::FifoBurst);
        let (report, held, stalls) = held(&clock, || console.write(b"x"));
        assert!(report.timed_out);
        assert_eq!(stalls.stalls, [(condition, held)]);
        assert!(held >= console.longest_wait() * bounds);
    }
}

#[test]
fn turning_an_rs485_line_is_a_stall() {
    let settings = ConsoleSettings {
        rs485: Some(Rs485 {
            before: Nanos::from_micros(70),
            after: Nanos::from_micros(30),
        }),
        ..ConsoleSettings::from(LINE)
    };
    let (mut console, clock) = open(FREE, Strategy::FifoBurst, settings);
    let (_, held, stalls) = held(&clock, || console.write(b"x"));
    assert_eq!(stalls.sum(), held);
    let turns = [70, 30].map(|us| (StallCondition::LineTurn, Nanos::from_micros(us)));
    assert_eq!([stalls.stalls[0], stalls.stalls[2]], turns);
    assert_eq!(stalls.stalls.len(), 3);
}

#[test]
fn offers_and_pacing_sleeps_are_no_stalls() {
    let (mut console, clock) = open(FREE, Strategy::FifoPaced, LINE);
    let (_, stalls) = Stalls::during(&clock, || {
        let mut rest = &TEXT[..];
        while !rest.is_empty() {
            let accepted = console.offer(rest);
            rest = &rest[accepted.taken..];
            clock.sleep_until(accepted.ready_at.unwrap());
        }
    });
    assert_eq!(stalls.stalls, []);
    assert_eq!(stalls.counted(Counter::UartBytes), 2_500);
}

/// A virtual clock of a kernel without a scheduler.
struct Alone(VirtualClock);

impl Clock for Alone {
    fn now(&self) -> Nanos {
        self.0.now()
    }
    fn wait_until(&self, deadline: Nanos) {
        self.0.wait_until(deadline);
    }
}

#[test]
fn pacing_on_a_clock_without_a_scheduler_is_a_stall() {
    let (port, clock) = Uart::in_virtual_time(FREE, Vec::new());
    let mut console = Console::open(port, Alone(clock.clone()), LINE).unwrap();
    console.set_strategy(Strategy::FifoPaced);
    let (_, held, stalls) = held(&clock, || console.write(&TEXT));
    assert_eq!(stalls.sum(), held);
    let sleeps = stalls
        .stalls
        .iter()
        .filter(|(condition, _)| *condition == StallCondition::Sleep);
    let slept: u64 = sleeps.map(|(_, duration)| duration.0).sum();
    assert!(slept * 10 > held.0 * 9, "{slept} of {held}");
}

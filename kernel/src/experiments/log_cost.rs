//! Time that a log call takes from its caller.

use core::cell::Cell;
use core::fmt::Write;

use heapless::String;
use nostall_console::{Level, Meta, Priority, Ring, Slot, UartSink};
use nostall_io::{Clock, Nanos, Processor, Registers};
use nostall_uart::{Console, Strategy};
use nostall_work::console::{self, Bounded, Context, Path};
use nostall_work::{CallTimes, LogCost};

use crate::arch::{self, Cpu, MachineClock};

/// Messages of each measurement, as on Linux.
const MESSAGES: u32 = 200;

/// Bytes of a message, as on Linux.
const TEXT: usize = 100;

/// Time for all messages to leave the port. They need a hundredth of it.
const BOUND: Nanos = Nanos::from_secs(10);

/// Logs messages that are printed, and messages that the console's level hides.
pub fn measure(clock: &MachineClock) -> LogCost {
    static RING: Ring<[Slot; 1024]> = Ring::new();
    let port = arch::serial_port();
    let mut console = match Console::open(&port, *clock, arch::line_settings()) {
        Ok(console) => console,
        Err(error) => panic!("serial port: {error}"),
    };
    console.set_strategy(Strategy::FifoBurst);
    let path = Bounded::new(&RING, UartSink::new(console));
    let caller = Caller {
        clock,
        alarm: Cell::new(None),
    };
    let calls_at = |level| {
        path.set_level(level);
        calls(&path, &caller)
    };
    // An emulator translates code when it first runs. Linux has logged before.
    calls_at(Level::Debug);
    LogCost {
        messages: MESSAGES,
        hidden: calls_at(Level::Error),
        printed: calls_at(Level::Debug),
    }
}

/// Logs without a pause, and runs the timer between the calls when it is due. At the end, all
/// messages have left.
fn calls(
    path: &Bounded<'_, impl Registers + Clone + Send, impl Clock + Clone + Send>,
    caller: &Caller<'_>,
) -> CallTimes {
    let mut times = CallTimes::default();
    for n in 0..MESSAGES {
        let took = caller.time(|| {
            let mut text = String::<TEXT>::new();
            let _ = write!(text, "{n:0TEXT$}"); // it fits
            let meta = Meta {
                time: caller.now(),
                cpu: 0,
                level: Level::Info,
                priority: Priority::Normal,
                target: "",
            };
            path.log(caller, Context::Task, &meta, text.as_bytes());
        });
        times.sum += took;
        times.longest = times.longest.max(took).max(caller.run_timer(path));
    }
    let deadline = caller.now() + BOUND;
    while caller.alarm.get().is_some() {
        assert!(caller.now() < deadline, "messages do not leave the port");
        times.longest = times.longest.max(caller.run_timer(path));
    }
    times
}

/// The CPU that logs. Its timer is polled, so that a slice of the timer is not in a call's time.
#[derive(Clone)]
struct Caller<'a> {
    clock: &'a MachineClock,
    alarm: Cell<Option<Nanos>>,
}

impl Caller<'_> {
    /// Returns the nanoseconds that `act` takes.
    fn time(&self, act: impl FnOnce()) -> u64 {
        let start = self.now();
        act();
        (self.now() - start).0
    }

    /// Runs the timer if it is due, and returns the time that it took.
    fn run_timer(&self, path: &impl Path) -> u64 {
        let is_due = self.alarm.get().is_some_and(|at| self.now() >= at);
        if !is_due {
            return 0;
        }
        self.alarm.set(None);
        self.time(|| path.timer(self))
    }
}

impl Clock for Caller<'_> {
    fn now(&self) -> Nanos {
        self.clock.now()
    }
}

impl Processor for Caller<'_> {
    fn id(&self) -> usize {
        Cpu.id()
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        Cpu.without_interrupts(critical)
    }
}

impl console::Cpu for Caller<'_> {
    fn call_at(&self, at: Nanos) {
        self.alarm.set(Some(at));
    }

    fn stop_others(&self) {}
}

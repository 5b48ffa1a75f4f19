//! Time that a log call takes from its caller.

use core::sync::atomic::{AtomicU64, Ordering};

use nostall_console::{Kernel, Level, Nanos, Ring, Slot, SystemConsole};
use nostall_io::{Clock, Processor};
use nostall_work::{CallTimes, LogCost};
use spin::Once;

use crate::arch::{self, Cpu, SerialPort};
use crate::cpu::{self, NEVER};

/// Messages of each measurement, as on Linux.
const MESSAGES: u32 = 200;

/// Bytes of a message, as on Linux.
const TEXT: usize = 100;

/// Time for all messages to leave the port. They need a hundredth of it.
const BOUND: Nanos = Nanos::from_secs(10);

type Console = SystemConsole<&'static SerialPort, Services>;

static RING: Ring<[Slot; 1024]> = Ring::new();
static CONSOLE: Console = SystemConsole::new(&RING, Services);

static PRINTED_RING: Ring<[Slot; 1024]> = Ring::new();
static WITH_PRINTER: Console = SystemConsole::new(&PRINTED_RING, Services).with_printer();

/// Time of the timer, or of the printer task. Both are polled, so that a slice is not in a call's
/// time.
static ALARM: AtomicU64 = AtomicU64::new(NEVER.0);

/// Logs messages that are printed, and messages that the console's level hides.
pub fn measure() -> LogCost {
    static PORT: Once<SerialPort> = Once::new();
    let port = PORT.call_once(arch::serial_port);
    let calls_at = |console: &Console, level| {
        console.set_level(level);
        calls(console)
    };
    for console in [&CONSOLE, &WITH_PRINTER] {
        if let Err(error) = console.open(port, arch::line_settings()) {
            panic!("serial port: {error}");
        }
        // An emulator translates code when it first runs. Linux has logged before.
        calls_at(console, Level::Debug);
    }
    LogCost {
        messages: MESSAGES,
        hidden: calls_at(&CONSOLE, Level::Error),
        printed: calls_at(&CONSOLE, Level::Debug),
        by_task: calls_at(&WITH_PRINTER, Level::Debug),
    }
}

/// Logs without a pause, and runs the timer between the calls when it is due. At the end, all
/// messages have left.
fn calls(console: &Console) -> CallTimes {
    let mut times = CallTimes::default();
    for n in 0..MESSAGES {
        let took = time(|| console.log(Level::Info, "", format_args!("{n:0TEXT$}")));
        times.sum += took;
        times.longest = times.longest.max(took);
        times.slice = times.slice.max(run_timer(console));
    }
    let deadline = Services.now() + BOUND;
    while console.drain().unread() > 0 {
        assert!(Services.now() < deadline, "messages do not leave the port");
        times.slice = times.slice.max(run_timer(console));
    }
    times
}

/// Runs the timer's handler or the printer task if it is due, and returns the time that it took.
fn run_timer(console: &Console) -> u64 {
    if Services.now().0 < ALARM.load(Ordering::Relaxed) {
        return 0;
    }
    ALARM.store(NEVER.0, Ordering::Relaxed);
    time(|| {
        if let Some(at) = console.poll() {
            ALARM.store(at.0, Ordering::Relaxed);
        }
    })
}

/// Returns the nanoseconds that `act` takes.
fn time(act: impl FnOnce()) -> u64 {
    let start = Services.now();
    act();
    (Services.now() - start).0
}

/// The services of a kernel whose timer is polled.
#[derive(Clone, Copy)]
struct Services;

impl Clock for Services {
    fn now(&self) -> Nanos {
        cpu::clock().map_or(Nanos::UNKNOWN, Clock::now)
    }
}

impl Kernel for Services {
    fn cpu(&self) -> u16 {
        Cpu.id() as u16
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        Cpu.without_interrupts(critical)
    }

    fn set_timer(&self, at: Nanos) {
        ALARM.store(at.0, Ordering::Relaxed);
    }
}

//! A console for a kernel, to be copied.
//!
//! It uses two types of the kernel from the parent module: `Port`, with the eight registers, and
//! `Clock`. It is made for one CPU without a one-shot timer, on which the idle loop or a task calls
//! `poll`. A kernel with a timer or with several CPUs completes `Kernel`.
//!
//! `print` stores a line and never waits. Any code can call it: a task, an interrupt handler that
//! interrupts another `print`, or a `Display` that prints.

use core::fmt::Arguments;

use nostall_console::{Kernel, Level, LineSettings, Nanos, OpenError, Ring, Slot, SystemConsole};
use spin::Once;

use super::{Clock, Port};

/// Buffer of 28 KiB for lines that wait for the port, all zeros.
static LINES: Ring<[Slot; 256]> = Ring::new();
static CONSOLE: SystemConsole<&'static Port, Services> = SystemConsole::new(&LINES, Services);
static PORT: Once<Port> = Once::new();
static CLOCK: Once<Clock> = Once::new();

#[derive(Clone)]
struct Services;

impl nostall_console::Clock for Services {
    fn now(&self) -> Nanos {
        CLOCK
            .get()
            .map_or(Nanos::UNKNOWN, nostall_console::Clock::now)
    }
}

impl Kernel for Services {
    fn cpu(&self) -> u16 {
        0
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical() // between `cli` and `sti`, so that no handler interrupts it
    }
}

/// Sets up the port. Lines that were printed before are sent now.
pub fn open(port: Port, clock: Clock) -> Result<(), OpenError> {
    CLOCK.call_once(|| clock);
    CONSOLE.open(PORT.call_once(|| port), LineSettings::baud(115_200))
}

/// Prints a line: `print(format_args!("..."))`. Lost lines are reported on the console.
pub fn print(text: Arguments<'_>) {
    CONSOLE.log(Level::Info, "", text);
}

/// Sends as many bytes as the port takes now. Returns the time for the next call, for example in
/// the idle loop. `None` means that nothing is left to send.
pub fn poll() -> Option<Nanos> {
    CONSOLE.poll()
}

/// Prints a panic's line and waits, for 10 s at most, until everything is sent.
pub fn panic(text: Arguments<'_>) {
    CONSOLE.panic(text);
}

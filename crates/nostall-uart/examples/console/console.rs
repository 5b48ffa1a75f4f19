//! A kernel's console, to be copied. From the module above it takes two types of the
//! kernel's: `Port`, eight registers, and `Clock`. It is for one CPU. On a machine with
//! several, give the CPU's number instead of `CPU`.
//!
//! A call of `print` stores a line and never waits, so that it may come from anywhere: a
//! task, an interrupt handler that interrupts another `print`, a `Display` that prints.

use core::fmt::Arguments;

use nostall_console::{
    Drain, FlushLimits, Level, Meta, Priority, Ring, SinkOptions, Slot, UartSink, flush,
};
use nostall_io::{Clock as _, Nanos};
use nostall_uart::{Console, LineSettings, OpenError};
use spin::Once;

use super::{Clock, Port};

const CPU: u16 = 0;

/// 28 KiB of lines that wait for the port, all zeros.
static LINES: Ring<[Slot; 256]> = Ring::new();
static PORT: Once<Port> = Once::new();
static CONSOLE: Once<(Drain<'static, UartSink<&'static Port, Clock>>, Clock)> = Once::new();

/// Sets up the port. Lines that were printed before are sent now.
pub fn open(port: Port, clock: Clock) -> Result<(), OpenError> {
    let port = PORT.call_once(|| port);
    let driver = Console::open(port, clock, LineSettings::baud(115_200))?;
    let serial = UartSink::new(driver);
    CONSOLE.call_once(|| (Drain::new(&LINES, serial, SinkOptions::DEFAULT), clock));
    poll();
    Ok(())
}

/// Prints a line: `print(format_args!("..."))`. Lost lines are reported on the console.
pub fn print(text: Arguments<'_>) {
    store(Priority::Normal, text);
    poll();
}

/// Gives the port as much as it takes now, and returns when to call this again: in the timer
/// interrupt or in the idle loop. `None` means that nothing is left to send.
pub fn poll() -> Option<Nanos> {
    let (drain, clock) = CONSOLE.get()?;
    drain.drain_bounded(CPU, Priority::Normal, clock).time()
}

/// Prints a panic's line and waits, for 10 s at most, until everything is sent.
pub fn panic(text: Arguments<'_>) {
    store(Priority::Panic, text);
    if let Some((drain, clock)) = CONSOLE.get() {
        flush(&[drain], CPU, clock, FlushLimits::DEFAULT);
    }
}

fn store(priority: Priority, text: Arguments<'_>) {
    let meta = Meta {
        time: CONSOLE.get().map_or(Nanos::ZERO, |(_, clock)| clock.now()),
        cpu: CPU,
        level: Level::Info,
        priority,
        target: "",
    };
    LINES.format(&meta, text);
}

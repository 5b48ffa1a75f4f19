//! Copy this into a kernel. From the module above it takes two types of the
//! kernel's: `Port`, eight registers, and `Clock`.

use core::fmt::{Arguments, Write};

use nostall_uart::{Console, LineSettings, OpenError};
use spin::Mutex;

use super::{Clock, Port};

static CONSOLE: Mutex<Option<Console<Port, Clock>>> = Mutex::new(None);

/// Sets up the port. What is printed before is not shown.
pub fn open(port: Port, clock: Clock) -> Result<(), OpenError> {
    let console = Console::open(port, clock, LineSettings::baud(115_200))?;
    *CONSOLE.lock() = Some(console);
    Ok(())
}

/// Prints, as `print(format_args!("..."))`; what the port does not take is lost.
pub fn print(text: Arguments<'_>) {
    if let Some(console) = CONSOLE.lock().as_mut() {
        let _ = console.write_fmt(text);
    }
}

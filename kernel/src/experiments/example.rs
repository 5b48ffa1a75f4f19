//! Runs the UART driver's example on the port under test.

#[path = "../../../crates/drivers/uart/examples/console/console.rs"]
mod console;

use nostall_io::Clock as _;

use crate::arch::{self, SerialPort as Port};
// The clock of the kernel's console, so that the image has only one copy of the driver.
use crate::log::Services as Clock;

/// Opens a console, prints one line and waits until it is sent.
pub fn run() {
    let clock = Clock;
    if let Err(error) = console::open(arch::serial_port(), clock) {
        panic!("serial port: {error}");
    }
    console::print(format_args!("nothing stalls, {} times", 2 + 2));
    while let Some(time) = console::poll() {
        clock.sleep_until(time);
    }
    console::panic(format_args!("not even now"));
}

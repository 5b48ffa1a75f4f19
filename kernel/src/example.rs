//! The driver's example, on the port under test.

#[path = "../../crates/nostall-uart/examples/console/console.rs"]
mod console;

use crate::arch::{self, MachineClock as Clock, SerialPort as Port};

/// Opens a console and prints one line.
pub fn run(clock: Clock) {
    if let Err(error) = console::open(arch::serial_port(), clock) {
        panic!("serial port: {error}");
    }
    console::print(format_args!("nothing stalls, {} times\n", 2 + 2));
}

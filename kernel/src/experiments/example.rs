//! The driver's example, on the port under test.

#[path = "../../../crates/nostall-uart/examples/console/console.rs"]
mod console;

use nostall_io::Clock as _;

use crate::arch::{self, MachineClock as Clock, SerialPort as Port};

/// Opens a console, prints one line and waits until it is sent.
pub fn run(clock: Clock) {
    if let Err(error) = console::open(arch::serial_port(), clock) {
        panic!("serial port: {error}");
    }
    console::print(format_args!("nothing stalls, {} times", 2 + 2));
    while let Some(time) = console::poll() {
        clock.sleep_until(time);
    }
    console::panic(format_args!("not even now"));
}

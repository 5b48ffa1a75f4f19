//! The complete console of a kernel is `console.rs` in this folder.
//!
//! Here, the kernel is a program on the host, and its port is a model that sends to standard
//! output. nostall's reference kernel contains the same file, and uses it with a PC's port.

mod console;

use std::io::{Stdout, stdout};
use std::sync::Mutex;

use nostall_devices::uart::{Line, Uart};
use nostall_io::{Clock as _, HostClock, Registers};

/// The kernel's clock.
type Clock = HostClock;

/// The kernel's port.
struct Port(Mutex<Uart<HostClock, Stdout>>);

impl Registers for Port {
    fn read8(&self, offset: usize) -> u8 {
        self.0.lock().unwrap().read(offset)
    }

    fn write8(&self, offset: usize, value: u8) {
        self.0.lock().unwrap().write(offset, value);
    }
}

fn main() -> Result<(), nostall_uart::OpenError> {
    let clock = Clock::new();
    let model = Uart::new(clock, Line::AtOnce, stdout());
    console::open(Port(Mutex::new(model)), clock)?;
    console::print(format_args!("nothing stalls, {} times", 2 + 2));
    while let Some(time) = console::poll() {
        clock.sleep_until(time);
    }
    // In the panic handler.
    console::panic(format_args!("not even now"));
    Ok(())
}

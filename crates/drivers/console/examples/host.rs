//! The console of a kernel without a timer, on a host. Port and clock are models.
//!
//!     cargo run -p nostall-console --example host

use nostall_console::{Clock, Kernel, Level, LineSettings, Nanos, Ring, Slot, SystemConsole};
use nostall_devices::VirtualClock;
use nostall_devices::uart::{Profile, Uart};

static RING: Ring<[Slot; 2340]> = Ring::new();

#[derive(Clone)]
struct Services(VirtualClock);

impl Clock for Services {
    fn now(&self) -> Nanos {
        self.0.advance(Nanos(100)); // the duration of a clock read
        self.0.now()
    }
}

impl Kernel for Services {
    fn cpu(&self) -> u16 {
        0
    }
    fn without_interrupts<T>(&self, act: impl FnOnce() -> T) -> T {
        act() // the model has no interrupts
    }
}

fn main() -> Result<(), nostall_console::OpenError> {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, std::io::stdout());
    let console = SystemConsole::new(&RING, Services(clock));
    console.log(Level::Info, "boot", format_args!("waits in the ring"));
    console.open(&*Box::leak(Box::new(port)), LineSettings::baud(115_200))?;
    while console.poll().is_some() {} // the main loop
    console.panic(format_args!("the end"));
    Ok(())
}

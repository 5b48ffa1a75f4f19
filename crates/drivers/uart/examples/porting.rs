//! A machine of your own: its counter as a clock, and a serial port that only calls of a
//! hypervisor reach. A model stands for both.
//!
//!     cargo run -p nostall-uart --example porting

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};

use nostall_devices::VirtualClock;
use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::{Console, LineSettings};

// ANCHOR: clock
/// The machine's counter, whose rate becomes known during the boot.
struct Counter {
    hertz: AtomicU64,
    machine: VirtualClock,
}

impl Counter {
    fn ticks(&self) -> u64 {
        self.machine.now().0 / 40 // a register of the machine, at 25 MHz
    }
}

impl Clock for Counter {
    fn now(&self) -> Nanos {
        let ticks = u128::from(self.ticks()) * 1_000_000_000;
        // No division by zero: an unknown rate is an unknown time.
        match ticks.checked_div(self.hertz.load(Ordering::Relaxed).into()) {
            Some(time) => Nanos(time as u64),
            None => Nanos::UNKNOWN,
        }
    }

    fn sleep_until(&self, deadline: Nanos) {
        // A kernel blocks the task here. Until there is a scheduler, it calls `wait_until`.
        self.machine.sleep_until(deadline);
    }
}
// ANCHOR_END: clock

// ANCHOR: registers
/// Serial port that calls of the hypervisor reach.
struct Hypercalls<'a>(&'a VirtualPort<Vec<u8>>);

impl Registers for Hypercalls<'_> {
    fn read8(&self, offset: usize) -> u8 {
        self.0.read8(offset) // a call
    }

    fn write8(&self, offset: usize, value: u8) {
        self.0.write8(offset, value); // a call
    }

    // The hypervisor has a call that writes many bytes to one register.
    fn write_burst(&self, offset: usize, values: &[u8]) {
        self.0.write_burst(offset, values);
    }

    fn burst_instructions(&self, _values: usize) -> usize {
        1
    }
}
// ANCHOR_END: registers

fn main() -> Result<(), Box<dyn Error>> {
    let (port, machine) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let clock = Counter {
        hertz: AtomicU64::new(0),
        machine,
    };
    assert!(!clock.now().is_known());
    // ANCHOR: start
    clock.hertz.store(25_000_000, Ordering::Relaxed); // from the device tree
    let mut console = Console::open(Hypercalls(&port), &clock, LineSettings::baud(115_200))?;
    let report = console.write(b"a machine of its own\n");
    assert!(report.is_complete());
    // ANCHOR_END: start
    assert!(clock.now().is_known());
    let sent = port.with(|uart| uart.sink_mut().clone());
    assert_eq!(sent, b"a machine of its own\r\n");
    print!("{}", String::from_utf8_lossy(&sent));
    Ok(())
}

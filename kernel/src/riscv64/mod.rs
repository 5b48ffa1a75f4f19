//! A RISC-V machine: 64-bit harts in supervisor mode, with an SBI firmware below and a
//! device tree.

mod boot;
pub mod bus_check;
mod clock;
mod cpus;
mod firmware;
mod paging;
pub mod pci;
mod plic;
mod prci;
mod semihosting;
mod serial;
pub mod spi;
mod traps;
mod tree;

use nostall_work::Report;

pub use boot::{MAX_CPUS, persistent_ram};
pub use clock::Timebase as MachineClock;
pub use cpus::{
    Cpu, hang, in_interrupt, interrupts, set_alarm, sleep_unless, start_cpus, wake, wake_others,
};
pub use plic::while_handled;
pub use semihosting::{Ending, end, send_report};
pub use serial::{SerialPort, line_settings, serial_port, set_serial_port};

/// A machine with all its CPUs up.
pub struct Machine {
    cpus: u16,
    clock: MachineClock,
    /// 0 if it is not used.
    timer_hz: u64,
}

impl Machine {
    /// The clock that all CPUs share.
    pub const fn clock(&self) -> &MachineClock {
        &self.clock
    }

    /// What there is to say of it.
    pub const fn ready(&self) -> Report {
        Report::Ready {
            cpus: self.cpus,
            clock_hz: self.clock.hz(),
            timer_hz: self.timer_hz,
        }
    }
}

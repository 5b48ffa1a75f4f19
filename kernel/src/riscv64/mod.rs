//! A RISC-V machine: 64-bit harts in supervisor mode, with an SBI firmware below and a
//! device tree.

mod boot;
pub mod bus_check;
mod clock;
mod cpus;
mod critical;
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

pub use boot::{MAX_CPUS, persistent_ram};
pub use clock::Timebase as MachineClock;
pub use cpus::{
    Cpu, call_others, hang, in_interrupt, interrupts, set_timer, sleep_unless, start_cpus, wake,
};
pub use plic::while_handled;
pub use semihosting::{Ending, end, send_report};
pub use serial::{SerialPort, line_settings, serial_port, set_serial_port};

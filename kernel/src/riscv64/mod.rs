//! A RISC-V machine: 64-bit harts in supervisor mode, with an SBI firmware and a device tree.

mod boot;
mod clock;
mod cpus;
mod critical;
mod harts;
mod paging;
mod plic;
mod semihosting;
mod traps;

pub use crate::device_tree::serial::{SerialPort, line_settings, serial_port, set_serial_port};
pub use crate::device_tree::{bus_check, pci, spi};
pub use boot::{enter, persistent_ram};
pub use clock::Timebase as MachineClock;
pub use cpus::{
    Cpu, MAX_CPUS, call_others, enable_interrupts, hang, in_interrupt, interrupts, see_new_code,
    set_timer, sleep_unless, start_cpus, wake,
};
pub use nostall_trace::RdTime as Ticks;
pub use paging::{is_device_memory, with_writable_code};
pub use plic::{interrupt_of, while_handled};
pub use semihosting::{Ending, end, send_report};
pub use traps::{Frame, decode as decode_trap, resume_at};

//! A RISC-V machine: 64-bit harts in supervisor mode, with an SBI firmware and a device tree.

mod boot;
mod cpus;
mod critical;
mod firmware;
mod harts;
mod paging;
mod plic;
mod traps;

pub use crate::device_tree::clock::Timebase as MachineClock;
pub use crate::device_tree::semihosting::{Ending, end, send_report};
pub use crate::device_tree::serial::{SerialPort, line_settings, serial_port, set_serial_port};
pub use crate::device_tree::{bus_check, pci, spi};
pub use boot::{enter, persistent_ram};
pub use cpus::{
    Cpu, MAX_CPUS, call_others, clean, enable_interrupts, hang, in_interrupt, interrupts,
    see_new_code, set_timer, sleep_unless, start_cpus, wake,
};
pub use harts::timebase as counter_hz;
pub use nostall_io::TimeCounter as Counter;
pub use nostall_trace::RdTime as Ticks;
pub use paging::{MAPPED_GIB, is_device_memory, with_writable_code};
pub use plic::{interrupt_of, while_handled};
pub use traps::{Frame, decode as decode_trap, resume_at};

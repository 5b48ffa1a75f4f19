//! An AArch64 machine: CPUs at EL1, with PSCI, a GIC, the generic timer and a device tree.

mod all_cpus;
mod boot;
mod counter;
mod cpus;
mod gic;
mod paging;
mod psci;
mod registers;
mod timer;
mod traps;

pub use crate::device_tree::clock::Timebase as MachineClock;
pub use crate::device_tree::semihosting::{Ending, end, send_report};
pub use crate::device_tree::serial::{SerialPort, line_settings, serial_port, set_serial_port};
pub use crate::device_tree::{bus_check, pci};
pub use all_cpus::{call_others, enable_interrupts, start_cpus, wake};
pub use boot::{enter, persistent_ram};
pub use counter::hz as counter_hz;
pub use cpus::{Cpu, MAX_CPUS, hang, see_new_code, sleep_unless};
pub use nostall_io::{VirtualCounter as Counter, clean_to_poc as clean};
pub use nostall_trace::Cntvct as Ticks;
pub use paging::{MAPPED_GIB, is_device_memory, with_writable_code};
pub use timer::set as set_timer;
pub use traps::{Frame, decode as decode_trap, resume_at};

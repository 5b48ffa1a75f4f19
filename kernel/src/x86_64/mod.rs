//! A PC: x86-64 with a local APIC, a 16550 and QEMU's debug devices.

mod acpi;
mod apic;
mod boot;
pub mod bus_check;
mod clock;
mod cpus;
mod paging;
pub mod pci;
mod serial;
mod traps;

use core::arch::x86_64::{__cpuid, CpuidResult};
use core::ffi::CStr;
use core::ptr::NonNull;

use nostall_io::{Ports, Registers};

pub use boot::{enter, persistent_ram};
pub use clock::Tsc as MachineClock;
pub use cpus::{
    Cpu, MAX_CPUS, call_others, enable_interrupts, set_timer, sleep_unless, start_cpus, wake,
};
pub use nostall_trace::Tsc as Ticks;
pub use paging::with_writable_code;
pub use serial::{SerialPort, line_settings, serial_port, set_serial_port};
pub use traps::{Frame, decode as decode_trap};

/// Sends one report to the port of QEMU's `isa-debugcon`, which passes it to the host.
pub fn send_report(line: &CStr) {
    // SAFETY: ring 0; the device only takes bytes.
    unsafe { Ports::new(0xe9, 1) }.write_burst(0, line.to_bytes());
}

/// Result of the work, as a value for [`end`].
pub enum Ending {
    /// All work was done.
    Success = 0x10,
    /// Some work was not done.
    Failure = 0x11,
}

/// Ends the machine with QEMU's `isa-debug-exit`: the value n becomes the exit status 2n + 1.
pub fn end(ending: Ending) -> ! {
    // SAFETY: ring 0; no code runs after it.
    unsafe { Ports::new(0xf4, 4) }.write32(0, ending as u32);
    hang()
}

/// Stops this CPU forever.
pub fn hang() -> ! {
    loop {
        x86_64::instructions::interrupts::disable();
        x86_64::instructions::hlt();
    }
}

/// Makes this CPU see code that was changed: a serialising instruction (Intel SDM volume 3,
/// "Handling Self- and Cross-Modifying Code").
// Inlined, because the start of a function may be the new code.
#[inline(always)]
pub fn see_new_code() {
    cpuid(0);
}

/// Returns 0, the number of cleaned cache lines: QEMU's machine keeps the caches in a reset.
///
/// # Safety
///
/// None is needed. Other architectures access the bytes.
pub const unsafe fn clean(_: NonNull<u8>, _: usize) -> usize {
    0
}

/// Does nothing: a call site is one instruction, so no CPU is interrupted inside of it.
pub fn resume_at(_: impl FnOnce(usize) -> usize) {}

/// Returns a leaf of CPUID (Intel SDM volume 2, CPUID).
#[allow(unused_unsafe, reason = "safe from Rust 1.94 on")]
#[inline(always)]
fn cpuid(leaf: u32) -> CpuidResult {
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe { __cpuid(leaf) }
}

//! The channel to the machine: semihosting (Arm's "Semihosting for AArch32 and AArch64"; RISC-V
//! Semihosting 1.0 has the same calls).

use core::ffi::CStr;

use semihosting::sys::arm_compat::{ExitReason, sys_exit_extended, sys_write0};

use crate::arch::hang;

/// Sends one report.
pub fn send_report(line: &CStr) {
    sys_write0(line);
}

/// Exit status of the machine. The values equal a PC's exit status: `isa-debug-exit` with 0x10 and
/// 0x11.
pub enum Ending {
    /// All work was done.
    Success = 0x21,
    /// Some work was not done.
    Failure = 0x23,
}

/// Ends the machine.
pub fn end(ending: Ending) -> ! {
    sys_exit_extended(ExitReason::ADP_Stopped_ApplicationExit, ending as usize);
    hang()
}

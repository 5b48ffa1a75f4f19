//! The channel to the machine that runs us: semihosting (RISC-V Semihosting 1.0, with the
//! calls of Arm's "Semihosting for AArch32 and AArch64").

use core::ffi::CStr;

use sbi_rt::{Shutdown, SystemFailure, system_reset};
use semihosting::sys::arm_compat::{ExitReason, sys_exit_extended, sys_write0};

use super::{firmware, hang};

/// Sends one report.
pub fn send_report(line: &CStr) {
    sys_write0(line);
}

/// How the machine ends: as its exit status. The values are those that a PC's
/// `isa-debug-exit` makes of 0x10 and 0x11.
pub enum Ending {
    /// All work is done.
    Success = 0x21,
    /// It is not.
    Failure = 0x23,
}

/// Ends the machine.
pub fn end(ending: Ending) -> ! {
    sys_exit_extended(ExitReason::ADP_Stopped_ApplicationExit, ending as usize);
    hang()
}

/// Ends a machine that does not take reports: says so by the firmware, and powers off.
pub fn nobody_listens() -> ! {
    firmware::print("nostall: no semihosting here: give QEMU -semihosting-config enable=on\r\n");
    system_reset(Shutdown, SystemFailure);
    hang()
}

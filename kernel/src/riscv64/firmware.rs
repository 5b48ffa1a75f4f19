//! The channel to the machine: semihosting (RISC-V Semihosting 1.0, with the calls of Arm's
//! "Semihosting for AArch32 and AArch64").

use core::ffi::CStr;

use sbi_rt::legacy;
use sbi_rt::{Shutdown, SystemFailure, system_reset};
use semihosting::sys::arm_compat::{ExitReason, sys_exit_extended, sys_write0};

use super::hang;

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

/// Ends a machine without semihosting: prints the reason on the firmware's console, and powers off.
pub fn end_without_semihosting() -> ! {
    firmware_prints("nostall: no semihosting here: give QEMU -semihosting-config enable=on\r\n");
    system_reset(Shutdown, SystemFailure);
    hang()
}

/// Prints `text` on the firmware's console, which may be the port under test (SBI 2.0, section 5.2,
/// "Console Putchar").
#[expect(
    deprecated,
    reason = "OpenSBI has had the debug console only since 1.3"
)]
pub fn firmware_prints(text: &str) {
    for byte in text.bytes() {
        legacy::console_putchar(byte.into());
    }
}

//! The firmware's console and power button (SBI 2.0).

use sbi_rt::legacy;
use sbi_rt::{Shutdown, SystemFailure, system_reset};

use super::hang;

/// Ends a machine without semihosting: prints the reason on the firmware's console, and powers off.
pub fn end_without_semihosting() -> ! {
    prints("nostall: no semihosting here: give QEMU -semihosting-config enable=on\r\n");
    system_reset(Shutdown, SystemFailure);
    hang()
}

/// Prints `text` on the firmware's console, which may be the port under test (SBI 2.0, section 5.2,
/// "Console Putchar").
#[expect(
    deprecated,
    reason = "OpenSBI has had the debug console only since 1.3"
)]
pub fn prints(text: &str) {
    for byte in text.bytes() {
        legacy::console_putchar(byte.into());
    }
}

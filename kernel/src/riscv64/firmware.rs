//! The firmware's console, which may be the port under test.

use sbi_rt::legacy;

/// Has the firmware print this (SBI 2.0, 5.2, "Console Putchar").
#[expect(
    deprecated,
    reason = "OpenSBI has had the debug console only since 1.3"
)]
pub fn print(text: &str) {
    for byte in text.bytes() {
        legacy::console_putchar(byte.into());
    }
}

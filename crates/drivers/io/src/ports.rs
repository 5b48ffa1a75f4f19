//! x86-64 I/O ports.

use core::arch::asm;

use crate::Registers;

/// Implementation of bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StringIo {
    /// One `rep outsb`.
    Rep,
    /// A loop of `out` or `in`. Some confidential guests need it (SEV-ES, TDX): the guest itself
    /// emulates port accesses, and its handler may not support string instructions.
    Unrolled,
}

/// Window of consecutive I/O ports.
///
/// An access outside of the window reads all ones or writes nothing.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    base: u16,
    len: u16,
    string_io: StringIo,
}

impl Ports {
    /// Creates a window of `len` ports from `base`, with string instructions for bursts.
    ///
    /// # Safety
    ///
    /// The code must run with permission for port instructions (ring 0, or with the I/O privilege).
    /// Side effects of the device's ports, including DMA, must not break Rust's rules.
    pub const unsafe fn new(base: u16, len: u16) -> Self {
        Self {
            base,
            len,
            string_io: StringIo::Rep,
        }
    }

    /// Sets the implementation of bursts.
    pub const fn with_string_io(self, string_io: StringIo) -> Self {
        Self { string_io, ..self }
    }

    /// Returns the port of an access of `size` bytes at `offset`, if it is inside.
    fn port(&self, offset: usize, size: usize) -> Option<u16> {
        let end = offset.checked_add(size)?;
        if end > self.len.into() {
            return None;
        }
        self.base.checked_add(u16::try_from(offset).ok()?)
    }
}

impl Registers for Ports {
    fn read8(&self, offset: usize) -> u8 {
        let mut value = !0;
        if let Some(port) = self.port(offset, 1) {
            // SAFETY: the caller of `new` guarantees that every port of the window may be accessed.
            unsafe {
                asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack, preserves_flags))
            };
        }
        value
    }

    fn write8(&self, offset: usize, value: u8) {
        if let Some(port) = self.port(offset, 1) {
            // SAFETY: as in `read8`.
            unsafe {
                asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags))
            };
        }
    }

    fn write_burst(&self, offset: usize, values: &[u8]) {
        if self.string_io == StringIo::Unrolled {
            return values.iter().for_each(|&value| self.write8(offset, value));
        }
        if let Some(port) = self.port(offset, 1) {
            // SAFETY: as in `read8`. The instruction reads exactly the bytes of `values`, and the
            // ABI keeps the direction flag clear.
            unsafe {
                asm!(
                    "rep outsb",
                    in("dx") port,
                    inout("rcx") values.len() => _,
                    inout("rsi") values.as_ptr() => _,
                    options(readonly, nostack, preserves_flags),
                );
            }
        }
    }

    fn burst_instructions(&self, values: usize) -> usize {
        match self.string_io {
            StringIo::Rep => 1,
            StringIo::Unrolled => values,
        }
    }

    fn read16(&self, offset: usize) -> u16 {
        let mut value = !0;
        if let Some(port) = self.port(offset, 2) {
            // SAFETY: as in `read8`.
            unsafe {
                asm!("in ax, dx", in("dx") port, out("ax") value, options(nomem, nostack, preserves_flags))
            };
        }
        value
    }

    fn write16(&self, offset: usize, value: u16) {
        if let Some(port) = self.port(offset, 2) {
            // SAFETY: as in `read8`.
            unsafe {
                asm!("out dx, ax", in("dx") port, in("ax") value, options(nomem, nostack, preserves_flags))
            };
        }
    }

    fn read32(&self, offset: usize) -> u32 {
        let mut value = !0;
        if let Some(port) = self.port(offset, 4) {
            // SAFETY: as in `read8`.
            unsafe {
                asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack, preserves_flags))
            };
        }
        value
    }

    fn write32(&self, offset: usize, value: u32) {
        if let Some(port) = self.port(offset, 4) {
            // SAFETY: as in `read8`.
            unsafe {
                asm!("out dx, eax", in("dx") port, in("eax") value, options(nomem, nostack, preserves_flags))
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The reference kernel's bus check tests the port instructions in QEMU. These tests only make
    // accesses that reach no port.

    #[test]
    fn an_access_outside_the_window_reads_all_ones() {
        // SAFETY: no access of this test is inside the window.
        let none = unsafe { Ports::new(0x3f8, 0) };
        none.write8(0, 1);
        none.write_burst(0, b"abc");
        none.write16(7, 1);
        none.write32(usize::MAX, 1);
        assert_eq!(none.read8(0), !0);
        assert_eq!(none.read16(0), !0);
        assert_eq!(none.read32(usize::MAX), !0);
        // SAFETY: as for `none`.
        let top = unsafe { Ports::new(0xffff, 8) };
        assert_eq!(top.read8(1), !0, "there is no port 0x10000");
    }

    #[test]
    fn an_access_is_at_the_windows_start_plus_its_offset() {
        // SAFETY: never accessed.
        let ports = unsafe { Ports::new(0x3f8, 8) };
        assert_eq!(ports.port(0, 1), Some(0x3f8));
        assert_eq!(ports.port(4, 4), Some(0x3fc), "the last four");
        for (offset, size) in [(8, 1), (7, 2), (5, 4), (usize::MAX, 1)] {
            assert_eq!(ports.port(offset, size), None, "{offset}");
        }
    }

    #[test]
    fn an_unrolled_burst_is_one_instruction_a_byte() {
        // SAFETY: never accessed.
        let ports = unsafe { Ports::new(0x3f8, 8) };
        assert_eq!(ports.burst_instructions(16), 1);
        let unrolled = ports.with_string_io(StringIo::Unrolled);
        assert_eq!(unrolled.burst_instructions(16), 16);
    }
}

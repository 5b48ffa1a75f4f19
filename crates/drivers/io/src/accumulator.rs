//! Memory-mapped registers accessed through the accumulator, as AMD's family 10h requires for
//! PCI.

use core::arch::asm;
use core::ptr::NonNull;

use crate::Registers;

/// Window of adjacent memory-mapped registers, accessed only with `mov` to and from AL, AX or
/// EAX.
///
/// It is for PCI's ECAM. AMD's family 10h supports no other access to it (BIOS and Kernel
/// Developer's Guide for AMD Family 10h, 2.11, "MMIO Configuration Coding Requirements"). All other
/// CPUs support this access too.
///
/// An access that leaves the window, or is not aligned to its own width, reads all ones or
/// writes nothing. Each access is one instruction, so any number of CPUs may access the window
/// at once.
#[derive(Clone, Copy, Debug)]
pub struct Accumulator {
    base: NonNull<u8>,
    /// Length in bytes.
    len: usize,
}

// SAFETY: the contract of `new` makes the memory valid for concurrent accesses from all threads.
unsafe impl Send for Accumulator {}
// SAFETY: as for `Send`.
unsafe impl Sync for Accumulator {}

impl Accumulator {
    /// Creates a window of `len` bytes from `base`.
    ///
    /// # Safety
    ///
    /// During the window's life, `len` bytes from `base` must be mapped for reads and writes on
    /// all CPUs, as device memory. In tests, plain memory is allowed if nothing else uses it.
    /// No reference to them may exist. Side effects of the device's registers, including DMA,
    /// must not break Rust's rules.
    pub const unsafe fn new(base: NonNull<u8>, len: usize) -> Self {
        Self { base, len }
    }

    /// Returns the address of the register of `size` bytes at `offset`, if it is aligned and inside
    /// the window.
    fn register(&self, offset: usize, size: usize) -> Option<*mut u8> {
        if offset.checked_add(size)? > self.len {
            return None;
        }
        let register = self.base.as_ptr().wrapping_add(offset);
        register.addr().is_multiple_of(size).then_some(register)
    }
}

impl Registers for Accumulator {
    fn read8(&self, offset: usize) -> u8 {
        let mut value = !0;
        if let Some(register) = self.register(offset, 1) {
            // SAFETY: the register is inside the window, which is valid according to the contract
            // of `new`.
            unsafe {
                asm!("mov al, [{}]", in(reg) register, out("al") value, options(nostack, preserves_flags))
            };
        }
        value
    }

    fn write8(&self, offset: usize, value: u8) {
        if let Some(register) = self.register(offset, 1) {
            // SAFETY: as in `read8`.
            unsafe {
                asm!("mov [{}], al", in(reg) register, in("al") value, options(nostack, preserves_flags))
            };
        }
    }

    fn read16(&self, offset: usize) -> u16 {
        let mut value = !0;
        if let Some(register) = self.register(offset, 2) {
            // SAFETY: as in `read8`.
            unsafe {
                asm!("mov ax, [{}]", in(reg) register, out("ax") value, options(nostack, preserves_flags))
            };
        }
        value
    }

    fn write16(&self, offset: usize, value: u16) {
        if let Some(register) = self.register(offset, 2) {
            // SAFETY: as in `read8`.
            unsafe {
                asm!("mov [{}], ax", in(reg) register, in("ax") value, options(nostack, preserves_flags))
            };
        }
    }

    fn read32(&self, offset: usize) -> u32 {
        let mut value = !0;
        if let Some(register) = self.register(offset, 4) {
            // SAFETY: as in `read8`.
            unsafe {
                asm!("mov eax, [{}]", in(reg) register, out("eax") value, options(nostack, preserves_flags))
            };
        }
        value
    }

    fn write32(&self, offset: usize, value: u32) {
        if let Some(register) = self.register(offset, 4) {
            // SAFETY: as in `read8`.
            unsafe {
                asm!("mov [{}], eax", in(reg) register, in("eax") value, options(nostack, preserves_flags))
            };
        }
    }
}

#[cfg(all(test, not(miri)))] // Miri has no inline assembly
mod tests {
    use super::*;

    #[test]
    fn each_access_has_its_own_width_and_address() {
        let mut memory = [0u64; 2];
        let base = NonNull::from(&mut memory).cast();
        // SAFETY: while the window lives, it is the only user of the memory.
        let window = unsafe { Accumulator::new(base, 12) };
        window.write32(0, 0x4433_2211);
        window.write16(4, 0x6655);
        window.write8(6, 0x77);
        window.write32(8, !0);
        assert_eq!(window.read32(4), 0x0077_6655);
        assert_eq!((window.read16(2), window.read8(1)), (0x4433, 0x22));
        assert_eq!(memory, [0x0077_6655_4433_2211, 0xffff_ffff]);
    }

    #[test]
    fn an_access_outside_or_across_reads_all_ones() {
        let mut memory = [0u64; 2];
        let base = NonNull::from(&mut memory).cast();
        // SAFETY: as in the test above.
        let window = unsafe { Accumulator::new(base, 12) };
        for offset in [1, 2, 3, 12, 14, usize::MAX] {
            window.write32(offset, 0);
            assert_eq!(window.read32(offset), !0, "{offset}");
        }
        window.write16(3, 1);
        window.write8(12, 1);
        assert_eq!((window.read16(3), window.read8(12)), (!0, !0));
        assert_eq!(memory, [0; 2]);
    }
}

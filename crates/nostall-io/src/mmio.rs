//! Memory-mapped registers.

use core::fmt;
use core::ptr::NonNull;

use safe_mmio::UniqueMmioPointer;
use safe_mmio::fields::ReadWrite;

use crate::Registers;

/// The narrowest access a device accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Every access is as wide as the driver asked for.
    Byte,
    /// Every access is 32 bits wide; narrower values travel in its low bits.
    /// (Linux: `reg-io-width = <4>`.)
    Word,
}

/// The order of bytes in registers wider than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// The CPU's own.
    Native,
    /// Most significant byte first, whatever the CPU's. (Linux: `mem32be`.)
    Big,
}

/// How registers lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmioLayout {
    /// Bytes from one register to the next, 1 to 4096. A device tree's
    /// `reg-shift = <n>` is a stride of `1 << n`.
    pub stride: u16,
    /// The narrowest access the device accepts.
    pub width: Width,
    /// The byte order of values wider than a byte.
    pub endian: Endian,
}

impl MmioLayout {
    /// Byte registers side by side, as on a PC.
    pub const BYTES: Self = Self {
        stride: 1,
        width: Width::Byte,
        endian: Endian::Native,
    };
    /// 32-bit registers side by side, as in most systems on a chip.
    pub const WORDS: Self = Self {
        stride: 4,
        width: Width::Word,
        endian: Endian::Native,
    };
}

/// Why a window cannot be laid out as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MmioError {
    /// The stride is not in 1 to 4096.
    Stride(u16),
    /// Accesses of 32 bits need a base address and a stride that are multiples
    /// of 4.
    Misaligned,
}

impl fmt::Display for MmioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stride(stride) => {
                write!(f, "register stride {stride}: must be 1 to 4096 bytes")
            }
            Self::Misaligned => f.write_str(
                "32-bit accesses need a base address and a register stride that are multiples of 4",
            ),
        }
    }
}

impl core::error::Error for MmioError {}

/// A window of memory-mapped registers.
///
/// An access that would leave the window, or that is not aligned to its own
/// width, reads all ones or writes nothing.
///
/// The access itself is `safe-mmio`'s: volatile, and on AArch64 by instructions
/// that a hypervisor can emulate.
#[derive(Debug)]
pub struct Mmio {
    base: NonNull<u8>,
    /// Bytes.
    len: usize,
    layout: MmioLayout,
}

// SAFETY: `new`'s contract makes the memory valid from any thread; `Mmio` stays
// !Sync, so that one thread at a time uses it.
unsafe impl Send for Mmio {}

impl Mmio {
    /// A window of `len` bytes from `base`.
    ///
    /// # Errors
    ///
    /// [`MmioError`] if `layout` is impossible, at all or at this address.
    ///
    /// # Safety
    ///
    /// As long as the window lives, `len` bytes from `base` must be mapped for
    /// reads and writes, from any CPU, as device memory (or be plain memory, in
    /// tests); no reference may exist to them, and no other window may use them
    /// at the same time. Whatever the device does when its registers are read or
    /// written, DMA included, must not break Rust's rules.
    pub unsafe fn new(
        base: NonNull<u8>,
        len: usize,
        layout: MmioLayout,
    ) -> Result<Self, MmioError> {
        if !(1..=4096).contains(&layout.stride) {
            return Err(MmioError::Stride(layout.stride));
        }
        let words = layout.width == Width::Word;
        if words && (!base.addr().get().is_multiple_of(4) || !layout.stride.is_multiple_of(4)) {
            return Err(MmioError::Misaligned);
        }
        Ok(Self { base, len, layout })
    }

    /// The register at `offset` as a `T`, if it lies in the window and is
    /// aligned.
    fn register<T>(&self, offset: usize) -> Option<UniqueMmioPointer<'_, ReadWrite<T>>> {
        let start = offset.checked_mul(self.layout.stride.into())?;
        let end = start.checked_add(size_of::<T>())?;
        if end > self.len {
            return None;
        }
        // SAFETY: `start` lies within the `len` bytes that `new`'s caller vouched for.
        let register = unsafe { self.base.add(start) }.cast::<ReadWrite<T>>();
        if !register.is_aligned() {
            return None;
        }
        // SAFETY: aligned and mapped, see above. Nothing else uses it at the same
        // time: `new`'s contract, `Mmio` is !Sync, and the pointer made here does
        // not outlive one access.
        Some(unsafe { UniqueMmioPointer::new(register) })
    }

    const fn big(&self) -> bool {
        matches!(self.layout.endian, Endian::Big)
    }

    fn word(&self) -> bool {
        self.layout.width == Width::Word
    }
}

impl Registers for Mmio {
    fn read8(&self, offset: usize) -> u8 {
        if self.word() {
            return self.read32(offset) as u8;
        }
        self.register::<u8>(offset).map_or(!0, |mut r| r.read())
    }

    fn write8(&self, offset: usize, value: u8) {
        if self.word() {
            return self.write32(offset, value.into());
        }
        if let Some(mut register) = self.register(offset) {
            register.write(value);
        }
    }

    fn read16(&self, offset: usize) -> u16 {
        if self.word() {
            return self.read32(offset) as u16;
        }
        let raw = self.register::<u16>(offset).map_or(!0, |mut r| r.read());
        if self.big() { u16::from_be(raw) } else { raw }
    }

    fn write16(&self, offset: usize, value: u16) {
        if self.word() {
            return self.write32(offset, value.into());
        }
        if let Some(mut register) = self.register(offset) {
            register.write(if self.big() { value.to_be() } else { value });
        }
    }

    fn read32(&self, offset: usize) -> u32 {
        let raw = self.register::<u32>(offset).map_or(!0, |mut r| r.read());
        if self.big() { u32::from_be(raw) } else { raw }
    }

    fn write32(&self, offset: usize, value: u32) {
        if let Some(mut register) = self.register(offset) {
            register.write(if self.big() { value.to_be() } else { value });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Memory that begins at a multiple of 4.
    #[repr(align(4))]
    struct Memory([u8; 64]);

    fn window(memory: &mut Memory, layout: MmioLayout) -> Mmio {
        // SAFETY: the tests use `memory` through this window alone while it lives.
        unsafe { Mmio::new(NonNull::from(memory).cast(), 64, layout) }.unwrap()
    }

    #[test]
    fn registers_lie_a_stride_apart() {
        let mut memory = Memory([0; 64]);
        let layout = MmioLayout {
            stride: 8,
            ..MmioLayout::BYTES
        };
        let uart = window(&mut memory, layout);
        uart.write8(5, 0x60);
        assert_eq!(uart.read8(5), 0x60);
        assert_eq!(memory.0[40], 0x60);
        assert_eq!(memory.0.iter().filter(|&&b| b != 0).count(), 1);
    }

    #[test]
    fn word_access_moves_a_byte_in_the_low_bits_of_32() {
        let mut memory = Memory([0xaa; 64]);
        let uart = window(&mut memory, MmioLayout::WORDS);
        uart.write8(1, 0x55);
        assert_eq!(uart.read8(1), 0x55);
        assert_eq!(memory.0[4..8], 0x55u32.to_ne_bytes());
    }

    #[test]
    fn big_endian_words_carry_the_byte_last() {
        let mut memory = Memory([0xaa; 64]);
        let layout = MmioLayout {
            endian: Endian::Big,
            ..MmioLayout::WORDS
        };
        let uart = window(&mut memory, layout);
        uart.write8(1, 0x55);
        assert_eq!(uart.read8(1), 0x55);
        assert_eq!(memory.0[4..8], [0, 0, 0, 0x55]);
    }

    #[test]
    fn a_burst_goes_to_one_register() {
        let mut memory = Memory([0; 64]);
        let uart = window(&mut memory, MmioLayout::BYTES);
        uart.write_burst(0, b"abc");
        let mut seen = [0; 2];
        uart.read_burst(0, &mut seen);
        assert_eq!(&seen, b"cc");
        assert_eq!(memory.0[1], 0);
    }

    #[test]
    fn impossible_layouts_are_refused() {
        let mut memory = Memory([0; 64]);
        let base = NonNull::from(&mut memory).cast::<u8>();
        let of = |stride, width| MmioLayout {
            stride,
            width,
            endian: Endian::Native,
        };
        // SAFETY: refused windows are never used.
        let new = |base, layout| unsafe { Mmio::new(base, 8, layout) }.map(drop);
        assert_eq!(new(base, of(0, Width::Byte)), Err(MmioError::Stride(0)));
        assert_eq!(
            new(base, of(4097, Width::Byte)),
            Err(MmioError::Stride(4097))
        );
        assert_eq!(new(base, of(2, Width::Word)), Err(MmioError::Misaligned));
        // SAFETY: still inside `memory`.
        let odd = unsafe { base.add(1) };
        assert_eq!(new(odd, of(4, Width::Word)), Err(MmioError::Misaligned));
        assert_eq!(new(base, of(4096, Width::Word)), Ok(()));
    }

    proptest! {
        /// Whatever is asked of it, a window stays in its memory (Miri would
        /// say), and reads back what it wrote.
        #[test]
        fn any_access_is_inside_or_reads_all_ones(
            stride in 1u16..=16,
            word: bool,
            big: bool,
            offset in prop_oneof![0usize..80, Just(usize::MAX), Just(usize::MAX / 4 + 1)],
            value: u32,
        ) {
            let mut memory = Memory([0; 64]);
            let layout = MmioLayout {
                stride: if word { stride * 4 } else { stride },
                width: if word { Width::Word } else { Width::Byte },
                endian: if big { Endian::Big } else { Endian::Native },
            };
            let window = window(&mut memory, layout);
            window.write8(offset, value as u8);
            prop_assert!([value as u8, !0].contains(&window.read8(offset)));
            window.write16(offset, value as u16);
            prop_assert!([value as u16, !0].contains(&window.read16(offset)));
            window.write32(offset, value);
            prop_assert!([value, !0].contains(&window.read32(offset)));
        }
    }
}

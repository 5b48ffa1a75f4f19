//! Memory-mapped registers.

use core::fmt;
use core::ptr::{self, NonNull};

use crate::Registers;

/// Narrowest access that a device accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Every access has the width that the driver requests.
    Byte,
    /// Every access is 32 bits wide; narrower values are in its low bits. (Linux:
    /// `reg-io-width = <4>`.)
    Word,
}

/// Byte order of registers wider than one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// The CPU's own byte order.
    Native,
    /// Most significant byte first, on every CPU. (Linux: `mem32be`.)
    Big,
}

/// Layout of registers in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MmioLayout {
    /// Distance between registers in bytes, 1 to 4096. A device tree's `reg-shift = <n>` is a
    /// stride of `1 << n`.
    pub stride: u16,
    /// Narrowest access that the device accepts.
    pub width: Width,
    /// Byte order of values wider than one byte.
    pub endian: Endian,
}

impl MmioLayout {
    /// Adjacent byte registers, as on a PC.
    pub const BYTES: Self = Self {
        stride: 1,
        width: Width::Byte,
        endian: Endian::Native,
    };
    /// Adjacent 32-bit registers, as in most systems on a chip.
    pub const WORDS: Self = Self {
        stride: 4,
        width: Width::Word,
        endian: Endian::Native,
    };

    const fn check(self, address: usize) -> Result<(), MmioError> {
        if self.stride == 0 || self.stride > 4096 {
            return Err(MmioError::Stride(self.stride));
        }
        let words = matches!(self.width, Width::Word);
        if words && !(address.is_multiple_of(4) && self.stride.is_multiple_of(4)) {
            return Err(MmioError::Misaligned);
        }
        Ok(())
    }
}

/// Reason for which a layout is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MmioError {
    /// The stride is not in 1 to 4096.
    Stride(u16),
    /// 32-bit accesses need a base address and a stride that are multiples of 4.
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

/// Window of memory-mapped registers.
///
/// An access outside of the window, or one that is not aligned to its own width, reads all ones or
/// writes nothing.
///
/// Each access is one volatile instruction. Any number of CPUs may access the registers at once,
/// through one window in a `static` or through copies; the driver orders them. On AArch64 the
/// instruction is a plain `ldr` or `str`, because a hypervisor cannot emulate the forms with
/// write-back that a compiler may choose.
#[derive(Clone, Copy, Debug)]
pub struct Mmio {
    base: NonNull<u8>,
    /// Size in bytes.
    len: usize,
    layout: MmioLayout,
}

// SAFETY: the contract of `new` makes the memory valid for accesses from all threads at once.
unsafe impl Send for Mmio {}
// SAFETY: as for `Send`. `Mmio` itself never changes.
unsafe impl Sync for Mmio {}

impl Mmio {
    /// Creates a window of `len` bytes from `base`.
    ///
    /// # Errors
    ///
    /// [`MmioError`] if `layout` is impossible, or impossible at this address.
    ///
    /// # Safety
    ///
    /// During the life of the window and its copies, `len` bytes from `base` must be mapped for
    /// reads and writes on all CPUs. The mapping is of device memory. In tests, plain memory is
    /// allowed if only one thread at a time accesses it. No reference to the bytes may exist; other
    /// windows may. Side effects of the device's registers, including DMA, must not break Rust's
    /// rules.
    pub unsafe fn new(
        base: NonNull<u8>,
        len: usize,
        layout: MmioLayout,
    ) -> Result<Self, MmioError> {
        match layout.check(base.addr().get()) {
            Ok(()) => Ok(Self { base, len, layout }),
            Err(error) => Err(error),
        }
    }

    /// Creates a window of `len` bytes from `address`, for a `static`.
    ///
    /// ```
    /// use nostall_io::{Mmio, MmioLayout};
    ///
    /// /// Serial port of QEMU's RISC-V machine.
    /// // SAFETY: the kernel maps it, and a 16550 does no DMA.
    /// static PORT: Mmio = unsafe { Mmio::at(0x1000_0000, 8, MmioLayout::BYTES) };
    /// ```
    ///
    /// # Panics
    ///
    /// If [`new`](Self::new) would fail, or if `address` is 0. In a `static` this is a compile
    /// error.
    ///
    /// # Safety
    ///
    /// The same as for [`new`](Self::new), with the memory at `address`.
    pub const unsafe fn at(address: usize, len: usize, layout: MmioLayout) -> Self {
        match layout.check(address) {
            Ok(()) => {}
            Err(MmioError::Stride(_)) => panic!("register stride: must be 1 to 4096 bytes"),
            Err(_) => panic!("32-bit accesses need an address and a stride of multiples of 4"),
        }
        let base = ptr::with_exposed_provenance_mut(address);
        let base = NonNull::new(base).expect("a window must not be at address 0");
        Self { base, len, layout }
    }

    /// Returns the register at `offset` as a `T`, if it is aligned and inside the window.
    fn register<T>(&self, offset: usize) -> Option<*mut T> {
        let start = offset.checked_mul(self.layout.stride.into())?;
        if start.checked_add(size_of::<T>())? > self.len {
            return None;
        }
        let register = self.base.as_ptr().wrapping_add(start).cast::<T>();
        register.is_aligned().then_some(register)
    }

    const fn big(&self) -> bool {
        matches!(self.layout.endian, Endian::Big)
    }

    fn word(&self) -> bool {
        self.layout.width == Width::Word
    }
}

/// Defines the two functions that access a register of one width.
macro_rules! accesses {
    ($read:ident, $write:ident, $type:ident, $load:literal, $store:literal) => {
        /// Reads a register. Returns all ones without one.
        fn $read(register: Option<*mut $type>) -> $type {
            let Some(register) = register else { return !0 };
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            {
                let value: u32;
                // SAFETY: `register` is aligned and inside a window, which is valid according to
                // the contract of `new`.
                unsafe {
                    core::arch::asm!($load, value = out(reg) value, register = in(reg) register,
                        options(nostack, preserves_flags));
                }
                value as $type
            }
            #[cfg(not(all(target_arch = "aarch64", not(miri))))]
            // SAFETY: as above.
            unsafe {
                register.read_volatile()
            }
        }

        /// Writes a register, if there is one.
        fn $write(register: Option<*mut $type>, value: $type) {
            let Some(register) = register else { return };
            #[cfg(all(target_arch = "aarch64", not(miri)))]
            // SAFETY: as for reads.
            unsafe {
                core::arch::asm!($store, value = in(reg) u32::from(value),
                    register = in(reg) register, options(nostack, preserves_flags));
            }
            #[cfg(not(all(target_arch = "aarch64", not(miri))))]
            // SAFETY: as for reads.
            unsafe {
                register.write_volatile(value);
            }
        }
    };
}

accesses!(
    load8,
    store8,
    u8,
    "ldrb {value:w}, [{register}]",
    "strb {value:w}, [{register}]"
);
accesses!(
    load16,
    store16,
    u16,
    "ldrh {value:w}, [{register}]",
    "strh {value:w}, [{register}]"
);
accesses!(
    load32,
    store32,
    u32,
    "ldr {value:w}, [{register}]",
    "str {value:w}, [{register}]"
);

impl Registers for Mmio {
    fn read8(&self, offset: usize) -> u8 {
        if self.word() {
            return self.read32(offset) as u8;
        }
        load8(self.register(offset))
    }

    fn write8(&self, offset: usize, value: u8) {
        if self.word() {
            return self.write32(offset, value.into());
        }
        store8(self.register(offset), value);
    }

    fn read16(&self, offset: usize) -> u16 {
        if self.word() {
            return self.read32(offset) as u16;
        }
        let raw = load16(self.register(offset));
        if self.big() { u16::from_be(raw) } else { raw }
    }

    fn write16(&self, offset: usize, value: u16) {
        if self.word() {
            return self.write32(offset, value.into());
        }
        let raw = if self.big() { value.to_be() } else { value };
        store16(self.register(offset), raw);
    }

    #[inline]
    fn read32(&self, offset: usize) -> u32 {
        let raw = load32(self.register(offset));
        if self.big() { u32::from_be(raw) } else { raw }
    }

    #[inline]
    fn write32(&self, offset: usize, value: u32) {
        let raw = if self.big() { value.to_be() } else { value };
        store32(self.register(offset), raw);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::format;

    /// Memory that starts at a multiple of 4.
    #[repr(align(4))]
    struct Memory([u8; 64]);

    fn window(memory: &mut Memory, layout: MmioLayout) -> Mmio {
        // SAFETY: while the window exists, the tests access `memory` only through it.
        unsafe { Mmio::new(NonNull::from(memory).cast(), 64, layout) }.unwrap()
    }

    #[test]
    fn registers_are_one_stride_apart() {
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
    fn a_word_access_has_the_byte_in_its_low_bits() {
        let mut memory = Memory([0xaa; 64]);
        let uart = window(&mut memory, MmioLayout::WORDS);
        uart.write8(1, 0x55);
        assert_eq!(uart.read8(1), 0x55);
        assert_eq!(memory.0[4..8], 0x55u32.to_ne_bytes());
    }

    #[test]
    fn a_big_endian_word_has_the_byte_last() {
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
        assert_eq!(uart.read8(0), b'c');
        assert_eq!(memory.0[1], 0);
    }

    /// A serial port at a fixed address.
    // SAFETY: never accessed.
    static PORT: Mmio = unsafe { Mmio::at(0x1000_0000, 32, MmioLayout::WORDS) };

    #[test]
    fn a_window_in_a_static_needs_no_unsafe_code_in_its_user() {
        fn shared<T: Send + Sync + Copy>(_: &'static T) {}
        shared(&PORT);
        assert_eq!(PORT.read8(8), !0, "outside");
        assert!(format!("{PORT:?}").contains("0x10000000"));
    }

    #[test]
    fn copies_of_a_window_access_the_same_registers() {
        let mut memory = Memory([0; 64]);
        let port = window(&mut memory, MmioLayout::WORDS);
        let spare = port;
        port.write8(2, 0x41);
        assert_eq!(spare.read8(2), 0x41);
    }

    #[test]
    fn each_width_has_its_own_bytes() {
        let mut memory = Memory([0; 64]);
        let port = window(&mut memory, MmioLayout::BYTES);
        port.write32(0, 0x4433_2211);
        port.write16(4, 0x6655);
        port.write8(6, 0x77);
        assert_eq!((port.read16(2), port.read8(1)), (0x4433, 0x22));
        assert_eq!(memory.0[..8], 0x0077_6655_4433_2211_u64.to_ne_bytes());
        let port = window(&mut memory, MmioLayout::BYTES);
        assert_eq!(
            (port.read16(1), port.read32(62)),
            (!0, !0),
            "not aligned, outside"
        );
        port.write32(60, 0x8877_6655);
        assert_eq!(port.read32(60), 0x8877_6655, "the last register");
    }

    #[test]
    fn the_layout_of_a_window_at_a_fixed_address_is_checked() {
        let odd = |address, stride| {
            // SAFETY: never accessed.
            std::panic::catch_unwind(move || unsafe {
                Mmio::at(
                    address,
                    8,
                    MmioLayout {
                        stride,
                        ..MmioLayout::WORDS
                    },
                )
            })
        };
        assert!(odd(0x1000, 4).is_ok());
        assert!(odd(0x1001, 4).is_err() && odd(0x1000, 0).is_err() && odd(0, 4).is_err());
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
        // SAFETY: the address is inside `memory`.
        let odd = unsafe { base.add(1) };
        assert_eq!(new(odd, of(4, Width::Word)), Err(MmioError::Misaligned));
        assert_eq!(new(base, of(4096, Width::Word)), Ok(()));
    }

    proptest! {
        /// A window stays inside its memory for every access (Miri reports others), and reads back
        /// the values that it wrote.
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

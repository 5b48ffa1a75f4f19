//! One access of a given width in a window of registers.

use nostall_io::Registers;

use crate::Width;

#[inline]
pub(crate) fn read(window: &impl Registers, offset: usize, width: Width) -> u32 {
    match width {
        Width::Byte => window.read8(offset).into(),
        Width::Word => window.read16(offset).into(),
        Width::Dword => window.read32(offset),
    }
}

#[inline]
pub(crate) fn write(window: &impl Registers, offset: usize, width: Width, value: u32) {
    match width {
        Width::Byte => window.write8(offset, value as u8),
        Width::Word => window.write16(offset, value as u16),
        Width::Dword => window.write32(offset, value),
    }
}

//! A bridge's numbers and windows.

use crate::registers::{
    BRIDGE_CONTROL, BRIDGE_CONTROL_ISA, COMMAND, IO_BASE, IO_BASE_UPPER, MEMORY_BASE,
    PREFETCHABLE_BASE, PREFETCHABLE_BASE_UPPER, PREFETCHABLE_LIMIT_UPPER, PRIMARY_BUS,
};
use crate::{AccessError, Address, ConfigAccess};

/// What a bridge passes on of one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: u64,
    /// 0: it passes nothing on.
    pub(crate) size: u64,
}

impl Window {
    pub(crate) const CLOSED: Self = Self { start: 0, size: 0 };

    /// Base and limit, in the granule that `shift` says; a limit below the base closes it.
    const fn granules(self, shift: u32) -> (u64, u64) {
        match self.size {
            0 => (!0, 0),
            _ => (self.start >> shift, (self.start + self.size - 1) >> shift),
        }
    }
}

/// Turns bits of the Command register off and on. It is not written for nothing.
pub(crate) fn command<A: ConfigAccess + ?Sized>(
    access: &A,
    address: Address,
    off: u16,
    on: u16,
) -> Result<(), AccessError> {
    switch(access, address, COMMAND, off, on)
}

/// Lets it pass on all of its I/O window: nobody knows of holes in it here.
pub(crate) fn pass_all_io<A: ConfigAccess + ?Sized>(
    access: &A,
    address: Address,
) -> Result<(), AccessError> {
    switch(access, address, BRIDGE_CONTROL, BRIDGE_CONTROL_ISA, 0)
}

fn switch<A: ConfigAccess + ?Sized>(
    access: &A,
    address: Address,
    register: u16,
    off: u16,
    on: u16,
) -> Result<(), AccessError> {
    let was = access.read16(address, register)?;
    let new = was & !off | on;
    if new == was {
        return Ok(());
    }
    access.write16(address, register, new)
}

/// Gives a bridge its bus numbers; its latency timer, in the same word, stays.
pub(crate) fn number<A: ConfigAccess + ?Sized>(
    access: &A,
    address: Address,
    primary: u8,
    secondary: u8,
    subordinate: u8,
) -> Result<(), AccessError> {
    let [_, _, _, latency] = access.read32(address, PRIMARY_BUS)?.to_le_bytes();
    let word = u32::from_le_bytes([primary, secondary, subordinate, latency]);
    access.write32(address, PRIMARY_BUS, word)
}

/// Whether it has a window for I/O, for memory, for prefetchable memory, which get to the
/// ends given. Its windows are closed afterwards.
///
/// The first is wired to 0 where there is none (Bridge Architecture 1.2, 3.2.5.6), and so
/// is the third (3.2.5.9); the lowest bits tell how wide they are.
pub(crate) fn windows<A: ConfigAccess + ?Sized>(
    access: &A,
    address: Address,
    ends: [u64; 3],
) -> Result<[bool; 3], AccessError> {
    open(access, address, &[Window::CLOSED; 3])?;
    // What a closed window leaves in its base: ones, if there is a base.
    let io = access.read8(address, IO_BASE)?;
    let prefetchable = access.read16(address, PREFETCHABLE_BASE)?;
    let wide = prefetchable & 0xf == 1 || ends[2] <= 1 << 32;
    Ok([
        io & 0xf0 != 0 && (io & 0xf == 1 || ends[0] <= 1 << 16),
        true,
        prefetchable & 0xfff0 != 0 && wide,
    ])
}

/// Sets the windows for I/O, memory and prefetchable memory.
pub(crate) fn open<A: ConfigAccess + ?Sized>(
    access: &A,
    address: Address,
    windows: &[Window; 3],
) -> Result<(), AccessError> {
    let [io, memory, prefetchable] = windows;
    let (base, limit) = io.granules(12);
    let low = |granule: u64| (granule as u16 & 0xf) << 4;
    access.write16(address, IO_BASE, low(base) | low(limit) << 8)?;
    let high = |granule: u64| (granule >> 4) as u32 & 0xffff;
    access.write32(
        address,
        IO_BASE_UPPER,
        closed_is_0(io, high(base)) | high(limit) << 16,
    )?;

    let word = |(base, limit): (u64, u64)| {
        let low = |granule: u64| (granule as u32 & 0xfff) << 4;
        low(base) | low(limit) << 16
    };
    access.write32(address, MEMORY_BASE, word(memory.granules(20)))?;
    access.write32(address, PREFETCHABLE_BASE, word(prefetchable.granules(20)))?;
    let (base, limit) = prefetchable.granules(20);
    let high = |granule: u64| (granule >> 12) as u32;
    let base = closed_is_0(prefetchable, high(base));
    access.write32(address, PREFETCHABLE_BASE_UPPER, base)?;
    access.write32(address, PREFETCHABLE_LIMIT_UPPER, high(limit))
}

/// The lower halves close a window; the upper ones need not say more.
const fn closed_is_0(window: &Window, upper: u32) -> u32 {
    match window.size {
        0 => 0,
        _ => upper,
    }
}

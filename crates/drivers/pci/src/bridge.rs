//! Bus numbers and windows of a bridge.

use core::ops::{Range, RangeInclusive};

use crate::registers::{
    BRIDGE_CONTROL, BRIDGE_CONTROL_ISA, COMMAND, IO_BASE, IO_BASE_UPPER, MEMORY_BASE,
    PREFETCHABLE_BASE, PREFETCHABLE_BASE_UPPER, PREFETCHABLE_LIMIT_UPPER, PRIMARY_BUS,
};
use crate::{AccessError, At, ConfigAccess, Function, Header};

/// The three windows of a bridge as they are set (PCI-to-PCI Bridge Architecture 1.2, 3.2.5.6 to
/// 3.2.5.11). `None` means that nothing is forwarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeWindows {
    /// Window in I/O space.
    pub io: Option<RangeInclusive<u64>>,
    /// Window in memory space.
    pub memory: Option<RangeInclusive<u64>>,
    /// Window in prefetchable memory space.
    pub prefetchable: Option<RangeInclusive<u64>>,
}

impl BridgeWindows {
    /// Reads the windows of `function` in three to six accesses. A function that is not a PCI
    /// bridge has none.
    ///
    /// # Errors
    ///
    /// [`AccessError`] if an access could not be made.
    pub fn read<A: ConfigAccess>(access: &A, function: &Function) -> Result<Self, AccessError> {
        let Header::Bridge(_) = function.header else {
            return Ok(Self::default());
        };
        let at = access.at(function.address);
        let read = |register| at.read32(register);
        let halves = |word: u32| (u64::from(word & 0xffff), u64::from(word >> 16));

        let [base, limit, ..] = read(IO_BASE)?.to_le_bytes();
        let (mut first, mut last) = (u64::from(base & 0xf0) << 8, u64::from(limit & 0xf0) << 8);
        if base & 0xf == WIDE {
            let (base, limit) = halves(read(IO_BASE_UPPER)?);
            first |= base << 16;
            last |= limit << 16;
        }
        // A bridge without this window has registers that read 0.
        let io = (base | limit != 0).then_some(first..=last | 0xfff);

        let word = read(MEMORY_BASE)?;
        let (base, limit) = halves(word & 0xfff0_fff0);
        // Every bridge has this window: zeros mean the first MiB.
        let memory = Some(base << 16..=limit << 16 | 0xf_ffff);

        let word = read(PREFETCHABLE_BASE)?;
        let (base, limit) = halves(word & 0xfff0_fff0);
        let (mut first, mut last) = (base << 16, limit << 16);
        if word & 0xf == WIDE.into() {
            first |= u64::from(read(PREFETCHABLE_BASE_UPPER)?) << 32;
            last |= u64::from(read(PREFETCHABLE_LIMIT_UPPER)?) << 32;
        }
        let prefetchable = (word != 0).then_some(first..=last | 0xf_ffff);

        // A window is closed if its base is above its limit.
        let open = |window: &RangeInclusive<u64>| !window.is_empty();
        Ok(Self {
            io: io.filter(open),
            memory: memory.filter(open),
            prefetchable: prefetchable.filter(open),
        })
    }
}

/// Low bits of base and limit of a window that also has upper registers.
const WIDE: u8 = 1;

/// Clears and sets bits of the Command register. Writes only if they change.
pub(crate) fn command<A: ConfigAccess>(
    at: At<'_, A>,
    off: u16,
    on: u16,
) -> Result<(), AccessError> {
    switch(at, COMMAND, off, on)
}

/// Makes a bridge forward its whole I/O window, without the gaps of the ISA bit.
pub(crate) fn pass_all_io<A: ConfigAccess>(at: At<'_, A>) -> Result<(), AccessError> {
    switch(at, BRIDGE_CONTROL, BRIDGE_CONTROL_ISA, 0)
}

fn switch<A: ConfigAccess>(
    at: At<'_, A>,
    register: u16,
    off: u16,
    on: u16,
) -> Result<(), AccessError> {
    let was = at.read16(register)?;
    let new = was & !off | on;
    if new == was {
        return Ok(());
    }
    at.write16(register, new)
}

/// Sets a bridge's bus numbers. Keeps its latency timer, in the same word.
pub(crate) fn number<A: ConfigAccess>(
    at: At<'_, A>,
    primary: u8,
    secondary: u8,
    subordinate: u8,
) -> Result<(), AccessError> {
    let [_, _, _, latency] = at.read32(PRIMARY_BUS)?.to_le_bytes();
    let word = u32::from_le_bytes([primary, secondary, subordinate, latency]);
    at.write32(PRIMARY_BUS, word)
}

/// Returns whether the bridge has windows for I/O, memory and prefetchable memory up to the given
/// ends. Closes its windows.
///
/// A missing I/O window is hard-wired to 0 (Bridge Architecture 1.2, 3.2.5.6), and so is a missing
/// prefetchable one (3.2.5.9). The low bits give the width.
pub(crate) fn windows<A: ConfigAccess>(
    at: At<'_, A>,
    ends: [u64; 3],
) -> Result<[bool; 3], AccessError> {
    close(at)?;
    // A closed window has ones in its base register, if the register exists.
    let io = at.read8(IO_BASE)?;
    let prefetchable = at.read16(PREFETCHABLE_BASE)?;
    let wide = prefetchable & 0xf == 1 || ends[2] <= 1 << 32;
    Ok([
        io & 0xf0 != 0 && (io & 0xf == 1 || ends[0] <= 1 << 16),
        true,
        prefetchable & 0xfff0 != 0 && wide,
    ])
}

/// Closes all windows.
pub(crate) fn close<A: ConfigAccess>(at: At<'_, A>) -> Result<(), AccessError> {
    open(at, &[0..0, 0..0, 0..0])
}

/// Sets the windows for I/O, memory and prefetchable memory. Closes empty ones.
pub(crate) fn open<A: ConfigAccess>(
    at: At<'_, A>,
    windows: &[Range<u64>; 3],
) -> Result<(), AccessError> {
    let [io, memory, prefetchable] = windows;
    let (base, limit) = granules(io, 12);
    let low = |granule: u64| (granule as u16 & 0xf) << 4;
    at.write16(IO_BASE, low(base) | low(limit) << 8)?;
    let high = |granule: u64| (granule >> 4) as u32 & 0xffff;
    at.write32(
        IO_BASE_UPPER,
        closed_is_0(io, high(base)) | high(limit) << 16,
    )?;

    let word = |(base, limit): (u64, u64)| {
        let low = |granule: u64| (granule as u32 & 0xfff) << 4;
        low(base) | low(limit) << 16
    };
    at.write32(MEMORY_BASE, word(granules(memory, 20)))?;
    at.write32(PREFETCHABLE_BASE, word(granules(prefetchable, 20)))?;
    let (base, limit) = granules(prefetchable, 20);
    let high = |granule: u64| (granule >> 12) as u32;
    let base = closed_is_0(prefetchable, high(base));
    at.write32(PREFETCHABLE_BASE_UPPER, base)?;
    at.write32(PREFETCHABLE_LIMIT_UPPER, high(limit))
}

/// Returns base and limit in granules of `1 << shift` bytes. A limit below the base closes a
/// window.
const fn granules(window: &Range<u64>, shift: u32) -> (u64, u64) {
    match window.start < window.end {
        false => (!0, 0),
        true => (window.start >> shift, (window.end - 1) >> shift),
    }
}

/// Returns 0 for a closed window, because its lower halves already close it.
fn closed_is_0(window: &Range<u64>, upper: u32) -> u32 {
    if window.is_empty() { 0 } else { upper }
}

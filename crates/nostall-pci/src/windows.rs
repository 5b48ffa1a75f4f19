//! What a bridge passes on to the bus behind it.

use core::ops::RangeInclusive;

use crate::registers::{
    IO_BASE, IO_BASE_UPPER, MEMORY_BASE, PREFETCHABLE_BASE, PREFETCHABLE_BASE_UPPER,
    PREFETCHABLE_LIMIT_UPPER,
};
use crate::{AccessError, ConfigAccess, Function, Header};

/// The three windows of a bridge (PCI-to-PCI Bridge Architecture 1.2, 3.2.5.6 to
/// 3.2.5.11), as they are set; `None` where nothing is passed on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Of I/O space.
    pub io: Option<RangeInclusive<u64>>,
    /// Of memory.
    pub memory: Option<RangeInclusive<u64>>,
    /// Of memory that may be read ahead.
    pub prefetchable: Option<RangeInclusive<u64>>,
}

impl Windows {
    /// Those of `function`, in three to six accesses; none if it is no bridge to PCI.
    ///
    /// # Errors
    ///
    /// [`AccessError`] if an access could not be made.
    pub fn read<A: ConfigAccess + ?Sized>(
        access: &A,
        function: &Function,
    ) -> Result<Self, AccessError> {
        let Header::Bridge(_) = function.header else {
            return Ok(Self::default());
        };
        let read = |register| access.read32(function.address, register);
        let halves = |word: u32| (u64::from(word & 0xffff), u64::from(word >> 16));

        let [base, limit, ..] = read(IO_BASE)?.to_le_bytes();
        let (mut first, mut last) = (u64::from(base & 0xf0) << 8, u64::from(limit & 0xf0) << 8);
        if base & 0xf == WIDE {
            let (base, limit) = halves(read(IO_BASE_UPPER)?);
            first |= base << 16;
            last |= limit << 16;
        }
        // Registers that read 0 are those of a bridge that has no such window.
        let io = (base | limit != 0).then_some(first..=last | 0xfff);

        let word = read(MEMORY_BASE)?;
        let (base, limit) = halves(word & 0xfff0_fff0);
        // Every bridge has this one: zeros are its first MiB.
        let memory = Some(base << 16..=limit << 16 | 0xf_ffff);

        let word = read(PREFETCHABLE_BASE)?;
        let (base, limit) = halves(word & 0xfff0_fff0);
        let (mut first, mut last) = (base << 16, limit << 16);
        if word & 0xf == WIDE.into() {
            first |= u64::from(read(PREFETCHABLE_BASE_UPPER)?) << 32;
            last |= u64::from(read(PREFETCHABLE_LIMIT_UPPER)?) << 32;
        }
        let prefetchable = (word != 0).then_some(first..=last | 0xf_ffff);

        // A window is closed by a base above its limit.
        let open = |window: &RangeInclusive<u64>| !window.is_empty();
        Ok(Self {
            io: io.filter(open),
            memory: memory.filter(open),
            prefetchable: prefetchable.filter(open),
        })
    }
}

/// In the lower bits of base and limit: there are upper registers, too.
const WIDE: u8 = 1;

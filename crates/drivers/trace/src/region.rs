//! Region in memory, prepared for recording.

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::cells::{Cells, MemoryCells};
use crate::layout::{
    BUILD_ID, FILE, FILE_PATH, FROZEN, HEAD, LEAST_SLOTS, LINE, NAMES_USED, OWNED_FROM, OWNER,
    OWNER_ID, OWNER_NAME, Order, PROGRAM, REGION_HEADER, REGION_LOST, RegionHeader, SLOT,
    STOP_WHEN_FULL, Short, ZONE_HEADER, ZONES_OF_THREADS, ZoneHeader,
};
use crate::names::{Names, Recent};
use crate::writer::{Size, word};

/// Parameters of a region.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Number of zones, at least 1: the number of CPUs, or of concurrent threads.
    pub zones: u32,
    /// Length of the names area in bytes, rounded up to 64. Each name takes 4 bytes more than
    /// its text, rounded up to 8.
    pub names: u32,
    /// Recording ends when a zone is full. By default, the oldest records are overwritten.
    pub stop_when_full: bool,
    /// Zones belong to threads, not to CPUs.
    pub zones_of_threads: bool,
    /// Ticks of the clock per second; 0 if unknown.
    pub ticks_per_second: u64,
    /// The clock's ticks, and nanoseconds since 1970, at the same moment: the epoch.
    pub epoch: Option<(u64, u64)>,
    /// Address at which an anchor symbol runs, and the address for which it was linked. Any symbol
    /// can be the anchor: a reader maps running addresses to linked ones with the difference.
    pub anchor: Option<(u64, u64)>,
    /// Number that distinguishes recordings: of the boot, or random.
    pub boot: u64,
    /// Build ID of the kernel or program, at most 32 bytes.
    pub build_id: &'a [u8],
    /// Name of the kernel or program, at most 64 bytes.
    pub program: &'a str,
}

/// A region that a [`Recorder`](crate::Recorder) can record into.
///
/// # Memory type
///
/// On AArch64, the memory must be mapped as Normal Write-Back, Inner Shareable: a record is reserved
/// with an atomic exchange. The architecture guarantees its instructions for no other memory (Arm
/// ARM, DDI 0487, section B2.9, "Synchronization and semaphores"). On other processors, it must be
/// ordinary cached memory too.
///
/// Lines in caches do not survive a reset that discards them. A kernel that resets cleans them
/// first, after [`freeze`](crate::Recorder::freeze) in its panic handler. On AArch64:
///
/// ```
/// # use nostall_trace::{Image, Recorder};
/// # fn end<T, P>(recorder: &Recorder<'_, T, P>) {
/// if let Some(live) = recorder.dump() {
///     # #[cfg(target_arch = "aarch64")]
///     // SAFETY: the region is mapped.
///     unsafe { nostall_io::clean_to_poc(live.start(), live.len() as usize) };
///     # #[cfg(not(target_arch = "aarch64"))]
///     # let _ = (live.start(), live.len());
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Region<'m> {
    pub(crate) base: NonNull<u8>,
    pub(crate) header: RegionHeader,
    memory: PhantomData<&'m mut [u8]>,
}

// SAFETY: all access to the memory is atomic.
unsafe impl Send for Region<'_> {}
// SAFETY: as above.
unsafe impl Sync for Region<'_> {}

impl<'m> Region<'m> {
    /// Prepares `memory` for recording. Its previous contents are lost: read them first, with
    /// [`recover`](crate::recover).
    ///
    /// The zones get equal parts of the memory, each with a power of two of slots.
    /// [`len`](Self::len) returns the number of bytes in use.
    ///
    /// # Errors
    ///
    /// [`FormatError`] if the memory is not aligned to 64 bytes or too small, or for 0 zones.
    pub fn format(memory: &'m mut [u8], options: &Options<'_>) -> Result<Self, FormatError> {
        let base = NonNull::from(&mut *memory).cast();
        // SAFETY: the memory is borrowed exclusively for 'm.
        unsafe { Self::format_at(base, memory.len(), options) }
    }

    /// Prepares the `len` bytes at `base`, as [`format`](Self::format) does.
    ///
    /// # Safety
    ///
    /// The bytes must be valid for reading and writing for all of `'m`. Meanwhile, only this region
    /// may write them. Others may read them, such as a debugger or another process.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`format`](Self::format).
    pub unsafe fn format_at(
        base: NonNull<u8>,
        len: usize,
        options: &Options<'_>,
    ) -> Result<Self, FormatError> {
        let header = plan(base, len, options)?;
        let region = Self {
            base,
            header,
            memory: PhantomData,
        };
        region.write_headers();
        Ok(region)
    }

    /// Writes the headers and clears all slots. The old region header is cleared first, and the new
    /// one is written last. A zone's old header is cleared before its slots. An interruption thus
    /// never leaves a header over other records.
    fn write_headers(&self) {
        let cells = self.cells(0);
        cells.publish(0, 0);
        for zone in 0..self.header.zones {
            let Some(at) = self.zone_offset(zone as usize) else {
                return;
            };
            let zone_cells = self.cells(at);
            clear(&zone_cells, self.header.zone_len as usize);
            let header = ZoneHeader {
                order: Order::NATIVE,
                zone,
                boot: self.header.boot,
                slots: 1 << self.size().bits,
            };
            store(&zone_cells, &header.encode()[..word(HEAD) * 8]);
        }
        for word in word(REGION_HEADER)..self.header.first_zone() as usize / 8 {
            cells.publish(word, 0);
        }
        store(&cells, &self.header.encode());
    }

    /// Returns the number of bytes that the region uses.
    #[allow(clippy::len_without_is_empty, reason = "no region is empty")]
    pub fn len(&self) -> usize {
        self.header.len as usize
    }

    /// Returns the header.
    pub fn header(&self) -> &RegionHeader {
        &self.header
    }

    /// Returns the number of zones.
    pub fn zones(&self) -> usize {
        self.header.zones as usize
    }

    /// Sets the path of the program's file, from which a reader takes the names of functions that
    /// are recorded by address. A path of more than 256 bytes is not stored.
    pub fn set_file(&self, path: &[u8]) {
        let mut bytes = [0; FILE];
        if path.len() <= FILE {
            bytes
                .iter_mut()
                .zip(path)
                .for_each(|(to, byte)| *to = *byte);
        }
        store_at(&self.cells(0), word(FILE_PATH), &bytes);
    }

    /// Sets the identifier and name of a zone's owner. The zone's previous records stay. Does
    /// nothing for a zone that the region lacks.
    pub fn set_owner(&self, zone: usize, id: u64, name: &str) {
        if let Some(at) = self.zone_offset(zone) {
            set_owner(&self.cells(at), id, name);
        }
    }

    /// Returns the number of a name, and adds the name if it is new; 0 if there is no room.
    pub fn name(&self, text: &str) -> u32 {
        self.names()
            .number(text, &Recent::new(), |reserve| reserve())
    }

    pub(crate) fn names(&self) -> Names<'m> {
        let first = word(REGION_HEADER);
        Names::new(self.cells(0), first, self.header.names_len as usize / 8)
    }

    pub(crate) fn size(&self) -> Size {
        Size {
            bits: self.header.slots().map_or(0, u32::ilog2),
            stop_when_full: self.header.flags & STOP_WHEN_FULL != 0,
        }
    }

    /// Returns the offset of a zone.
    pub(crate) fn zone_offset(&self, zone: usize) -> Option<usize> {
        let first = self.header.first_zone() as usize;
        let inside = zone < self.header.zones as usize;
        inside.then(|| first + zone * self.header.zone_len as usize)
    }

    /// Returns the words from an offset on, which must be inside and a multiple of 8.
    pub(crate) fn cells(&self, at: usize) -> MemoryCells<'m> {
        debug_assert!(at < self.len() && at.is_multiple_of(8));
        // SAFETY: callers pass offsets of the header and of zones, which are inside; the region's
        // memory is aligned and accessed atomically only.
        unsafe { MemoryCells::new(self.base.add(at)) }
    }
}

/// Clears the header and the slots of a zone: the header's magic first, and each slot's lap before
/// its time. An interruption thus never leaves an old record with another time.
fn clear(cells: &impl Cells, len: usize) {
    cells.publish(0, 0);
    for pair in 0..len / SLOT {
        cells.publish(2 * pair + 1, 0);
        cells.publish(2 * pair, 0);
    }
}

/// Stores whole words, the first one last, because it contains the magic.
fn store(cells: &impl Cells, bytes: &[u8]) {
    store_at(cells, 0, bytes);
}

fn store_at(cells: &impl Cells, first: usize, bytes: &[u8]) {
    let (words, _) = bytes.as_chunks();
    for (i, bytes) in words.iter().enumerate().rev() {
        cells.publish(first + i, u64::from_ne_bytes(*bytes));
    }
}

/// Stores a zone's owner. A concurrent reader may find parts of both names.
pub(crate) fn set_owner(cells: &impl Cells, id: u64, name: &str) {
    let mut bytes = [0; OWNER];
    let name = Short::<OWNER>::text(name);
    for (to, from) in bytes.iter_mut().zip(name.as_bytes()) {
        *to = *from;
    }
    // Stored first: records of the previous owner must not get this one's name.
    cells.publish(word(OWNED_FROM), cells.get(word(HEAD)));
    store_at(cells, word(OWNER_NAME), &bytes);
    cells.publish(word(OWNER_ID), id);
}

/// Divides the memory into zones.
fn plan(base: NonNull<u8>, len: usize, options: &Options<'_>) -> Result<RegionHeader, FormatError> {
    if !base.addr().get().is_multiple_of(LINE) {
        return Err(FormatError::Unaligned);
    }
    if options.zones == 0 {
        return Err(FormatError::NoZones);
    }
    let names_len = options.names.checked_next_multiple_of(LINE as u32);
    let names_len = names_len.ok_or(FormatError::TooSmall)?;
    let zones = (len as u64).checked_sub(REGION_HEADER as u64 + u64::from(names_len));
    let room = zones.ok_or(FormatError::TooSmall)? / u64::from(options.zones);
    let slots = room.saturating_sub(ZONE_HEADER as u64) / SLOT as u64;
    if slots < u64::from(LEAST_SLOTS) {
        return Err(FormatError::TooSmall);
    }
    let slots = 1 << slots.ilog2().min(31);
    let zone_len = ZONE_HEADER as u64 + SLOT as u64 * slots;
    let flag = |set, flag| if set { flag } else { 0 };
    let (epoch_ticks, epoch_nanos) = options.epoch.unwrap_or_default();
    let (anchor_ran, anchor_linked) = options.anchor.unwrap_or_default();
    Ok(RegionHeader {
        order: Order::NATIVE,
        len: REGION_HEADER as u64 + u64::from(names_len) + zone_len * u64::from(options.zones),
        zones: options.zones,
        flags: flag(options.stop_when_full, STOP_WHEN_FULL)
            | flag(options.zones_of_threads, ZONES_OF_THREADS),
        zone_len,
        ticks_per_second: options.ticks_per_second,
        epoch_ticks,
        epoch_nanos,
        anchor_ran,
        anchor_linked,
        boot: options.boot,
        names_len,
        build_id: Short::<BUILD_ID>::new(options.build_id),
        program: Short::<PROGRAM>::text(options.program),
    })
}

/// Reason why memory cannot be a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// The memory is not aligned to 64 bytes.
    Unaligned,
    /// The number of zones is 0.
    NoZones,
    /// A zone would have fewer than 16 slots.
    TooSmall,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unaligned => "the memory of a trace must be aligned to 64 bytes",
            Self::NoZones => "a trace needs at least one zone",
            Self::TooSmall => "the memory of a trace is too small: 512 bytes, the names, and at least 384 bytes a zone",
        })
    }
}

impl core::error::Error for FormatError {}

const _: () = assert!(NAMES_USED < REGION_LOST && REGION_LOST < FROZEN && FROZEN < FILE_PATH);
const _: () = assert!(FILE_PATH + FILE == REGION_HEADER);

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::cell::RefCell;
    use std::vec::Vec;

    #[derive(Default)]
    struct Journal(RefCell<Vec<usize>>);

    impl Cells for Journal {
        fn get(&self, _: usize) -> u64 {
            0
        }
        fn set(&self, word: usize, value: u64) {
            self.publish(word, value);
        }
        fn publish(&self, word: usize, _: u64) {
            self.0.borrow_mut().push(word);
        }
        fn replace(&self, _: usize, _: u64, _: u64) -> bool {
            false
        }
    }

    #[test]
    fn clearing_a_zone_starts_with_its_magic_and_each_slot_with_its_lap() {
        let journal = Journal::default();
        clear(&journal, ZONE_HEADER + 3 * SLOT);
        let order = journal.0.into_inner();
        assert_eq!(order[0], 0);
        assert_eq!(order[order.len() - 6..], [17, 16, 19, 18, 21, 20]);
        assert!((0..22).all(|word| order.contains(&word)));
    }

    #[test]
    fn no_two_cpus_share_a_cache_line() {
        let mut memory = std::vec![0; 40_000];
        let skip = memory.as_ptr().align_offset(LINE);
        for (zones, names) in [(1, 0), (3, 100), (7, 1)] {
            let options = Options {
                zones,
                names,
                ..Options::default()
            };
            let region = Region::format(&mut memory[skip..], &options).unwrap();
            for zone in 0..zones as usize {
                let at = region.zone_offset(zone).unwrap();
                assert!(at.is_multiple_of(LINE) && region.base.addr().get().is_multiple_of(LINE));
            }
            assert!((region.header.zone_len as usize).is_multiple_of(LINE));
            assert!(region.zone_offset(zones as usize).is_none());
        }
    }
}

//! Headers of a kdump file.
//!
//! The first block is `disk_dump_header`, and the next ones are `kdump_sub_header`. Two bitmaps of
//! page frames follow. A bit of the first is set for a page frame of the machine's memory. A bit of
//! the second is set for a page in the dump, and each of these has a descriptor, in order.
//! Sources: makedumpfile's `IMPLEMENTATION` and `diskdump_mod.h`, QEMU's `include/sysemu/dump.h`.

use std::ops::Range;

use super::super::container::MAX_VMCOREINFO;
use super::super::error::Error;
use super::super::file::DumpFile;
use super::super::format::DumpFormat;

/// Signatures of makedumpfile and QEMU, and of diskdump before them.
pub(super) const KDUMP: [u8; 8] = *b"KDUMP   ";
const DISKDUMP: [u8; 8] = *b"DISKDUMP";

/// Number of bytes of `disk_dump_header` and of `kdump_sub_header`, version 6.
const HEADER: usize = 464;
const SUB_HEADER: usize = 104;

/// Sizes of a page that Linux has on any machine.
const PAGES: Range<u64> = 4096..(64 << 10) + 1;

/// Newest known version.
const NEWEST: u32 = 6;

/// Maximum number of page frames: those of 256 TiB with 4 KiB pages.
const MOST_PAGES: u64 = 1 << 36;

/// Number of bytes of a page's descriptor.
pub(super) const DESCRIPTOR: u64 = 24;

/// Statuses: the writer had no space for all pages.
const INCOMPLETE: u32 = 8;

/// Members that all parts of a split dump have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub page: u64,
    pub max_frames: u64,
    pub machine: Vec<u8>,
    pub vmcoreinfo: Option<Vec<u8>>,
}

/// Statements of the headers.
#[derive(Debug)]
pub(super) struct Header {
    /// Number of bytes of a page.
    pub page: u64,
    /// Page frames that may have a descriptor here. A split dump has a part of them.
    pub frames: Range<u64>,
    /// Whether other files have the other page frames.
    pub is_split: bool,
    /// Offset of the bitmap of pages in the dump.
    pub bitmap: u64,
    /// Offset of the descriptors.
    pub descriptors: u64,
    pub vmcoreinfo: Option<Vec<u8>>,
    /// Whether the writer had no space for all pages.
    pub is_incomplete: bool,
    pub identity: Identity,
}

impl Header {
    /// Reads the headers; `None` if the file has another format.
    pub(super) fn read(file: &DumpFile) -> Result<Option<Self>, Error> {
        let start = file.read(0, KDUMP.len());
        let has_sub_header = match start.as_deref().and_then(<[u8]>::first_chunk) {
            Some(&KDUMP) => true,
            Some(&DISKDUMP) => false,
            _ => return Ok(None),
        };
        let header = zeros_behind(file, 0, HEADER);
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| header[at + byte]));
        let page = u64::from(word(428));
        if !is_page(page) {
            return Err(other(&header));
        }
        // Without the numbers behind the page size, the memory would have no pages, and none missing.
        if !file.has(0, HEADER as u64) {
            return Err(damaged("its header is cut off"));
        }
        let version = word(8);
        if version > NEWEST {
            return Err(Error::Unsupported {
                format: "a kdump file with a header of a version above 6",
                advice: "save the next one with `makedumpfile -E`, as an ELF core",
            });
        }
        let (sub_blocks, bitmap_blocks) = (u64::from(word(432)), u64::from(word(436)));
        let mut max_frames = u64::from(word(440));
        let sub = match has_sub_header {
            true => zeros_behind(file, page, SUB_HEADER),
            false => vec![0; SUB_HEADER],
        };
        let long = |at: usize, since: u32| match version >= since {
            true => u64::from_le_bytes(std::array::from_fn(|byte| sub[at + byte])),
            false => 0,
        };
        // The 32-bit numbers are too small for 16 TiB.
        if long(96, 6) > 0 {
            max_frames = long(96, 6);
        }
        if max_frames > MOST_PAGES {
            return Err(damaged("it declares more than 256 TiB of memory"));
        }
        // `split` follows `dump_level` in one word.
        let is_split = long(8, 2) >> 32 != 0;
        let frames = match is_split {
            false => 0..max_frames,
            true if version >= 6 => long(80, 6)..long(88, 6),
            true => long(16, 2)..long(24, 2),
        };
        let frames = frames.start..frames.end.min(max_frames);
        if frames.start > frames.end {
            return Err(damaged(
                "it is a part of a split dump that ends before it starts",
            ));
        }
        let bitmaps = (1 + sub_blocks) * page;
        let needed = max_frames.div_ceil(8).div_ceil(page);
        let bitmap = match bitmap_blocks {
            // Two bitmaps.
            blocks if blocks >= 2 * needed => bitmaps + blocks * page / 2,
            // diskdump's only one.
            blocks if blocks >= needed => bitmaps,
            _ => return Err(damaged("its bitmap is smaller than its memory")),
        };
        if !file.has(bitmap, max_frames.div_ceil(8)) {
            return Err(damaged("its bitmap is cut off"));
        }
        let len = usize::try_from(long(40, 3)).unwrap_or(usize::MAX);
        let vmcoreinfo = file.read(long(32, 3), len.min(MAX_VMCOREINFO));
        let vmcoreinfo = vmcoreinfo.filter(|text| !text.is_empty());
        let vmcoreinfo = vmcoreinfo.map(|text| text.into_owned());
        Ok(Some(Self {
            page,
            frames,
            is_split,
            bitmap,
            descriptors: bitmaps + bitmap_blocks * page,
            is_incomplete: word(424) & INCOMPLETE != 0,
            identity: Identity {
                page,
                max_frames,
                // utsname and the time.
                machine: header[12..424].to_vec(),
                vmcoreinfo: vmcoreinfo.clone(),
            },
            vmcoreinfo,
        }))
    }

    /// Passes the ranges of page frames that are in the dump to `each`, in order and without
    /// adjacent ones.
    pub(super) fn runs(
        &self,
        file: &DumpFile,
        within: Range<u64>,
        mut each: impl FnMut(Range<u64>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        /// Number of bytes of a bitmap that are read at once.
        const PIECE: u64 = 4096;

        let mut run = 0..0;
        let mut at = within.start / 8;
        let end = within.end.div_ceil(8);
        while at < end
            && let Some(next) = file.next_data(self.bitmap + at..self.bitmap + end)
        {
            at = next.start - self.bitmap;
            let len = PIECE.min(end - at);
            let piece = file.read(self.bitmap + at, len as usize);
            let piece = piece.ok_or_else(|| damaged("its bitmap is cut off"))?;
            file.used(len);
            for (word, bytes) in (at * 8..).step_by(64).zip(piece.chunks(8)) {
                let mut bits = [0; 8];
                bits[..bytes.len()].copy_from_slice(bytes);
                let mut bits = u64::from_le_bytes(bits);
                let mut skipped = 0;
                while bits != 0 {
                    let zeros = bits.trailing_zeros();
                    let ones = (bits >> zeros).trailing_ones();
                    let start = (word + u64::from(skipped + zeros)).clamp(within.start, within.end);
                    let stop = (word + u64::from(skipped + zeros + ones)).clamp(start, within.end);
                    if start == run.end {
                        run.end = stop;
                    } else {
                        if !run.is_empty() {
                            each(run)?;
                        }
                        run = start..stop;
                    }
                    skipped += zeros + ones;
                    bits = match zeros + ones {
                        64.. => 0,
                        used => bits >> used,
                    };
                }
            }
            at += len;
        }
        if !run.is_empty() {
            each(run)?;
        }
        Ok(())
    }
}

fn is_page(size: u64) -> bool {
    size.is_power_of_two() && PAGES.contains(&size)
}

/// Returns `len` bytes of the file, with zeros for those that it lacks.
fn zeros_behind(file: &DumpFile, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    // A flattened file may lack bytes between its headers.
    for (offset, byte) in (offset..).zip(&mut bytes) {
        if let Some(read) = file.read(offset, 1) {
            *byte = read[0];
        }
    }
    bytes
}

/// Returns the error for a header whose page size is not where it is on 64-bit little-endian
/// machines.
fn other(header: &[u8]) -> Error {
    let bytes = |at: usize| std::array::from_fn(|byte| header[at + byte]);
    let format = if is_page(u32::from_be_bytes(bytes(428)).into()) {
        "a kdump file of a big-endian machine"
    } else if is_page(u32::from_le_bytes(bytes(416)).into()) {
        "a kdump file of a 32-bit machine"
    } else {
        return damaged("its page size is neither 4 KiB nor up to 64 KiB");
    };
    Error::Unsupported {
        format,
        advice: "save the next one with `makedumpfile -E`, as an ELF core",
    }
}

pub(super) fn damaged(problem: &'static str) -> Error {
    Error::Damaged {
        kind: DumpFormat::KDUMP,
        problem,
    }
}

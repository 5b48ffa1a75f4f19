//! A block of data, checked against its parity and corrected in a copy.

use super::{CorrectionPolicy, Reader, Trust, Writer};
use crate::code::Code;
use crate::format::{BLOCK, HEADER, MAX_PARITY, ZoneHeader, ZoneKind};
use crate::layout::Place;
use crate::memory::Load;

/// Copy of a block.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub bytes: [u8; BLOCK],
    pub len: usize,
    /// Trust in the bytes.
    pub trust: Trust,
    /// Result of the correction, as Linux counts it. It differs from `trust` if Linux accepts a
    /// correction that is not reliable.
    pub counted: Trust,
}

impl Block {
    pub fn load<M: Load + ?Sized>(
        memory: &M,
        place: &Place,
        reader: &Reader<'_>,
        header: (&ZoneHeader, Trust),
        index: usize,
    ) -> Self {
        let division = place.division;
        let mut block = Self {
            bytes: [0; BLOCK],
            len: division.block_len(index),
            trust: Trust::Unchecked,
            counted: Trust::Unchecked,
        };
        let len = block.len;
        let data = &mut block.bytes[..len];
        memory.load(place.offset + HEADER + index * BLOCK, data);
        let Some(code) = code_for(reader, place) else {
            return block;
        };
        let mut parity = [0; MAX_PARITY];
        let at = place.offset + division.block_parity(index);
        memory.load(at, &mut parity[..code.parity()]);
        if code.check(data, &parity) {
            (block.trust, block.counted) = (Trust::Verified, Trust::Verified);
            return block;
        }
        let (mut linux, mut linux_parity) = (block.bytes, parity);
        let data = &mut block.bytes[..len];
        block.trust = if !at_the_cut(place, reader.writer, header, index) {
            mended(code.correct(data, &mut parity))
        } else {
            if code.is_trusted() {
                let _ = code.correct(data, &mut parity);
            }
            Trust::Unverified
        };
        block.counted = block.trust;
        if reader.policy == CorrectionPolicy::Faithful {
            let data = &mut linux[..len];
            block.counted = mended(code.correct_like_linux(data, &mut linux_parity));
            if linux != block.bytes {
                block.trust = Trust::Unverified;
            }
            block.bytes = linux;
        }
        block
    }
}

/// Returns the code if it fits this zone.
pub(super) fn code_for<'a>(reader: &Reader<'a>, place: &Place) -> Option<&'a Code> {
    reader
        .code
        .filter(|code| code.parity() == place.division.parity())
}

pub(super) fn mended<E>(result: Result<usize, E>) -> Trust {
    match result {
        Ok(0) => Trust::Verified,
        Ok(errors) => Trust::Corrected(errors),
        Err(_) => Trust::Unverified,
    }
}

/// Returns whether the block may contain a part of the record that was being written at the cut.
/// That record is ahead of the write position, or behind it if the header is stored first.
fn at_the_cut(
    place: &Place,
    writer: Writer,
    (header, trust): (&ZoneHeader, Trust),
    index: usize,
) -> bool {
    let data = place.division.data();
    let ahead = match place.kind {
        // A dmesg record is written once. Afterwards its header agrees with its parity.
        ZoneKind::Dmesg if trust == Trust::Verified => 1.min(data),
        _ => longest_write(place),
    };
    let behind = match writer {
        Writer::DataFirst => 0,
        Writer::HeaderFirst => ahead,
    };
    let window = ahead.saturating_add(behind);
    let from = distance(data, behind, header.start as usize % data);
    let block = index * BLOCK;
    window >= data
        || distance(data, from, block) < window
        || distance(data, block, from) < place.division.block_len(index)
}

/// Returns the largest number of bytes written to a zone at once.
pub(super) fn longest_write(place: &Place) -> usize {
    let data = place.division.data();
    let longest = match place.kind {
        ZoneKind::Ftrace => crate::trace::LONGEST_TRACE,
        // Linux's longest line, `CONSOLE_LOG_MAX`.
        ZoneKind::Console => 1024,
        // Longest message of Android's logger.
        ZoneKind::Pmsg => 5 * 1024,
        ZoneKind::Dmesg => data,
    };
    longest.min(data)
}

/// Returns the forward distance around the ring.
const fn distance(data: usize, from: usize, to: usize) -> usize {
    if to >= from {
        to - from
    } else {
        data - (from - to)
    }
}

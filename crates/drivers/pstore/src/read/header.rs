//! Header of a zone, checked against its parity, and the choice of a header if they disagree.

use super::block::{code_for, mended};
use super::{CorrectionPolicy, Reader, Trust};
use crate::code::Code;
use crate::format::{ByteOrder, HEADER, LinuxVersion, MAX_PARITY, SIGNATURE, ZoneHeader, ZoneKind};
use crate::layout::Place;
use crate::memory::Load;

/// Header that is used for reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loaded {
    pub header: ZoneHeader,
    pub trust: Trust,
    pub framing: Framing,
}

/// Trust in the positions that the header implies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// The positions are right.
    Sure,
    /// If `by` bytes are one record, the cut was between the header and its parity, and the
    /// positions are right. Otherwise the header implied by the parity is right.
    Ahead { by: usize, parity: ZoneHeader },
    /// The positions cannot be checked.
    Doubtful,
}

/// Smallest number of parity bytes for a reliable correction. With fewer, a cut header is too often
/// corrected to another value.
const SOME: usize = 8;

/// Loads the header of a zone. `place` must be inside the memory.
pub(crate) fn load<M: Load + ?Sized>(memory: &M, place: &Place, reader: &Reader<'_>) -> Loaded {
    let mut bytes = [0; HEADER];
    memory.load(place.offset, &mut bytes);
    let found = ZoneHeader::decode(bytes, reader.order);
    let is_careful = reader.policy == CorrectionPolicy::Careful;
    let Some(code) = code_for(reader, place) else {
        return match halved(found, place.division.data()) {
            Some(header) if is_careful => loaded(header, Trust::Unverified, Framing::Doubtful),
            _ => loaded(found, Trust::Unchecked, Framing::Sure),
        };
    };
    let mut parity = [0; MAX_PARITY];
    let parity = &mut parity[..code.parity()];
    memory.load(place.offset + place.division.header_parity(), parity);
    let careful = correct(found, parity, place, code, reader.order);
    if is_careful || careful.trust == Trust::Verified {
        return careful;
    }
    let trust = mended(code.correct_like_linux(&mut bytes, parity));
    let header = ZoneHeader::decode(bytes, reader.order);
    let framing = match careful.framing {
        Framing::Ahead { parity, .. } if parity == header => Framing::Sure,
        framing if careful.header == header => framing,
        _ => Framing::Doubtful,
    };
    loaded(header, trust, framing)
}

const fn loaded(header: ZoneHeader, trust: Trust, framing: Framing) -> Loaded {
    Loaded {
        header,
        trust,
        framing,
    }
}

/// Corrects a header that was `found` with this parity.
fn correct(
    found: ZoneHeader,
    stored: &[u8],
    place: &Place,
    code: &Code,
    order: ByteOrder,
) -> Loaded {
    let data = place.division.data();
    let (mut bytes, mut parity) = (found.encode(order), [0; MAX_PARITY]);
    parity[..stored.len()].copy_from_slice(stored);
    let trust = mended(code.correct(&mut bytes, &mut parity));
    let corrected = ZoneHeader::decode(bytes, order);
    if trust <= Trust::Unchecked || trust != Trust::Unverified && corrected == found {
        return loaded(corrected, trust, Framing::Sure);
    }
    // Every write changes the header, so the cut may have left it ahead of its parity.
    let good = |header| is_of(header, place.kind) && header.is_valid(data);
    if good(found)
        && let Some((by, parity)) = cut(found, stored, place, code, order)
    {
        return loaded(found, Trust::Unverified, Framing::Ahead { by, parity });
    }
    let is_corrected = trust != Trust::Unverified && good(corrected);
    if is_corrected && code.is_trusted() {
        loaded(corrected, trust, Framing::Sure)
    } else if is_corrected && (code.parity() >= SOME || !good(found)) {
        loaded(corrected, trust, Framing::Doubtful)
    } else {
        let header = halved(found, data).unwrap_or(found);
        loaded(header, Trust::Unverified, Framing::Doubtful)
    }
}

/// Restores the header of a ring that has not wrapped, after a cut between its two words or in the
/// store of one of them. The start is then beyond the size, and correct.
fn halved(found: ZoneHeader, data: usize) -> Option<ZoneHeader> {
    let torn = found.size < found.start && found.start as usize <= data;
    torn.then_some(ZoneHeader {
        size: found.start,
        ..found
    })
}

/// Returns whether the signature belongs to the zone's kind, for any kernel.
pub(super) fn is_of(header: ZoneHeader, kind: ZoneKind) -> bool {
    match kind {
        ZoneKind::Ftrace => version(header).is_some(),
        _ => header.signature == SIGNATURE,
    }
}

/// Returns the version in a trace zone's signature.
pub(super) fn version(header: ZoneHeader) -> Option<LinuxVersion> {
    let code = header.signature ^ SIGNATURE;
    // Three numbers of one byte each.
    (code < 1 << 24).then_some(LinuxVersion(code))
}

/// Returns the number of bytes being written, and the previous header.
///
/// Returns `None` unless the cut was between the header's first word and the last byte of its
/// parity, `stored`.
fn cut(
    found: ZoneHeader,
    stored: &[u8],
    place: &Place,
    code: &Code,
    order: ByteOrder,
) -> Option<(usize, ZoneHeader)> {
    let parity = |header: ZoneHeader| {
        let mut parity = [0; MAX_PARITY];
        code.encode(&header.encode(order), &mut parity);
        parity
    };
    let is_between = |(before, after): &(ZoneHeader, ZoneHeader)| {
        let (before, after) = (parity(*before), parity(*after));
        (0..=stored.len()).any(|count| {
            let (new, old) = stored.split_at(count);
            new == &after[..count] && old == &before[count..stored.len()]
        })
    };
    let lengths = match place.kind {
        ZoneKind::Ftrace => 16..=24,
        // Linux's longest line, `CONSOLE_LOG_MAX`.
        _ => 1..=1024,
    };
    let step = if place.kind == ZoneKind::Ftrace { 8 } else { 1 };
    lengths.step_by(step).find_map(|by| {
        let writes = writes(found, by, place.division.data());
        let (before, _) = writes.into_iter().flatten().find(is_between)?;
        Some((by, before))
    })
}

/// Returns the headers before and after a write of `by` bytes during which the header is `found`.
fn writes(found: ZoneHeader, by: usize, data: usize) -> [Option<(ZoneHeader, ZoneHeader)>; 2] {
    let (start, size) = (found.start as usize, found.size as usize);
    let header = |start: usize, size: usize| ZoneHeader {
        start: start as u32,
        size: size as u32,
        ..found
    };
    let at = |end: usize| header(end, end);
    if size == data {
        let before = (start + data).checked_sub(by).map(|start| start % data);
        let full = before.map(|start| (header(start, data), found));
        let filled = before.filter(|start| start + by >= data);
        [full, filled.map(|start| (at(start), found))]
    } else if start == size {
        [size.checked_sub(by).map(|before| (at(before), found)), None]
    } else {
        // One of the words is stored, and the other is not.
        let grown = (start + by == size).then(|| (at(start), at(size)));
        let filled = (size + by == data + start).then(|| (at(size), header(start, data)));
        [grown, filled]
    }
}

//! A zone's header, checked by its parity, and what to believe if they disagree.

use super::block::{code_for, is_enough, mended};
use super::{Policy, Reader, Trust};
use crate::format::{HEADER, Header, Kind, LinuxVersion, MAX_PARITY, SIGNATURE};
use crate::layout::Place;
use crate::memory::Load;

/// The header to read by. `place` lies within the memory.
pub(super) fn load<M: Load + ?Sized>(
    memory: &M,
    place: &Place,
    reader: &Reader<'_>,
) -> (Header, Trust) {
    let mut bytes = [0; HEADER];
    memory.load(place.offset, &mut bytes);
    let found = Header::decode(bytes, reader.order);
    let Some(code) = code_for(reader, place) else {
        return (found, Trust::Unchecked);
    };
    let mut parity = [0; MAX_PARITY];
    let parity = &mut parity[..code.parity()];
    memory.load(place.offset + place.division.header_parity(), parity);

    let trust = match reader.policy {
        Policy::Faithful => mended(code.correct_like_linux(&mut bytes, parity)),
        Policy::Careful => mended(code.correct(&mut bytes, parity)),
    };
    let corrected = Header::decode(bytes, reader.order);
    if reader.policy == Policy::Faithful || trust <= Trust::Unchecked {
        return (corrected, trust);
    }
    // The header is always where the cut was: it may be ahead of its parity.
    let good = |header| is_of(header, place.kind) && header.is_valid(place.division.data());
    let as_found = (found, Trust::Unverified);
    match (good(found), good(corrected)) {
        (true, true) if !is_enough(code) || is_ahead(found, corrected, place) => as_found,
        (_, true) => (corrected, trust),
        _ => as_found,
    }
}

/// Whether the signature is right for what the zone should hold, by any kernel.
pub(super) fn is_of(header: Header, kind: Kind) -> bool {
    match kind {
        Kind::Ftrace => version(header).is_some(),
        _ => header.signature == SIGNATURE,
    }
}

/// The version in a trace zone's signature.
pub(super) fn version(header: Header) -> Option<LinuxVersion> {
    let code = header.signature ^ SIGNATURE;
    // Three numbers of a byte each.
    (code < 1 << 24).then_some(LinuxVersion(code))
}

/// Whether `found` is what `before` becomes when something is written: then the
/// cut fell between the header and its parity, and nothing is wrong with it.
fn is_ahead(found: Header, before: Header, place: &Place) -> bool {
    let data = place.division.data();
    let (from, to) = (before.start as usize % data, found.start as usize % data);
    let written = if to >= from {
        to - from
    } else {
        data - (from - to)
    };
    let size = (before.size as usize).saturating_add(written).min(data);
    let plausible = match place.kind {
        // In a full ring only the start changes, as a flipped bit would change it.
        Kind::Ftrace => matches!(written, 16 | 24),
        _ => (before.size as usize) < data,
    };
    found.signature == before.signature && found.size as usize == size && plausible
}

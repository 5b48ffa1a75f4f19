//! Markers of lines that were cut by more urgent ones; the book has their grammar.

use std::mem;

/// Before lines that come again.
pub(super) const AGAIN: &[u8] = b"{again}";

/// Bytes on the wire that may come again: those of an offer, and a CR for each LF.
pub(super) const OFFER: usize = 256 + 16;

/// What has come of the lines that are cut, by the number in their marks.
#[derive(Default)]
pub(super) struct Cut {
    pub(super) begun: [Vec<u8>; 3],
}

impl Cut {
    /// A line, with what came of it before it was cut.
    pub(super) fn whole(&mut self, line: &[u8]) -> Vec<u8> {
        match lane(line, b"{rest ") {
            Some(lane) => {
                let mut whole = mem::take(&mut self.begun[lane]);
                whole.extend_from_slice(&line[b"{rest 0}".len()..]);
                whole
            }
            None => line.to_vec(),
        }
    }
}

/// The number in a marker that starts so.
pub(super) fn lane(line: &[u8], start: &[u8]) -> Option<usize> {
    match line.strip_prefix(start)? {
        [digit @ b'0'..=b'2', b'}', ..] => Some(usize::from(digit - b'0')),
        _ => None,
    }
}

/// A marker of which not all was sent: no other line begins with a brace.
pub(super) fn is_begun(line: &[u8]) -> bool {
    line.first() == Some(&b'{') && line != AGAIN && !line.contains(&b'}')
}

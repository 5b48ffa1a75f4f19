//! Memory that a dump has only in part.

use std::borrow::Cow;
use std::ops::Range;

/// Bytes of which some may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partial<'a> {
    /// The bytes; those in `missing` have no meaning.
    bytes: Cow<'a, [u8]>,
    /// Missing ranges, in order. They are not empty and do not touch.
    missing: Vec<Range<usize>>,
}

impl<'a> Partial<'a> {
    pub(super) const fn new(bytes: Cow<'a, [u8]>, missing: Vec<Range<usize>>) -> Self {
        Self { bytes, missing }
    }

    /// Returns the number of bytes, including missing ones.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the missing ranges, in order.
    pub fn missing(&self) -> &[Range<usize>] {
        &self.missing
    }

    /// Returns the number of missing bytes.
    pub fn missing_bytes(&self) -> usize {
        self.missing.iter().map(Range::len).sum()
    }

    /// Returns whether the bytes are neither missing nor copied.
    pub(crate) fn is_borrowed(&self) -> bool {
        self.missing.is_empty() && matches!(self.bytes, Cow::Borrowed(_))
    }

    /// Returns a part of the bytes; `None` if it is outside, or if any of them is missing.
    pub fn get(&self, part: Range<usize>) -> Option<&[u8]> {
        let is_missing = lacks(&self.missing, &part);
        self.bytes.get(part).filter(|_| !is_missing)
    }

    /// Returns all bytes. Bytes in the missing ranges have no meaning.
    pub(crate) fn with_gaps(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes without a borrow of the memory.
    pub(crate) fn into_owned(self) -> Partial<'static> {
        Partial {
            bytes: Cow::Owned(self.bytes.into_owned()),
            missing: self.missing,
        }
    }

    /// Returns the bytes with others before them.
    pub(crate) fn after(&self, before: &[u8]) -> Partial<'static> {
        let skip = |gap: &Range<usize>| gap.start + before.len()..gap.end + before.len();
        Partial {
            bytes: Cow::Owned([before, &self.bytes].concat()),
            missing: self.missing.iter().map(skip).collect(),
        }
    }

    /// Returns the bytes with other ones at their start.
    pub(crate) fn starting_with(self, start: &[u8]) -> Partial<'static> {
        let mut bytes = self.bytes.into_owned();
        if let Some(to) = bytes.get_mut(..start.len()) {
            to.copy_from_slice(start);
        }
        let mut missing = self.missing;
        missing.retain_mut(|gap| {
            gap.start = gap.start.max(start.len());
            gap.start < gap.end
        });
        Partial {
            bytes: Cow::Owned(bytes),
            missing,
        }
    }
}

/// Returns whether a byte of a part is in one of the ranges, which are in order.
pub(crate) fn lacks(missing: &[Range<usize>], part: &Range<usize>) -> bool {
    let next = missing.partition_point(|gap| gap.end <= part.start);
    missing.get(next).is_some_and(|gap| gap.start < part.end)
}

impl nostall_trace::Image for Partial<'_> {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let start = usize::try_from(at).ok();
        let end = start.and_then(|start| start.checked_add(into.len()));
        let part = start.zip(end).and_then(|(start, end)| self.get(start..end));
        part.map(|part| into.copy_from_slice(part)).is_some()
    }
}

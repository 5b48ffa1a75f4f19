//! A zone's trace records.

use super::alignment::{self, Misaligned};
use super::zone::PreviousBootZone;
use super::{Trust, Writer};
use crate::memory::Load;
use crate::trace::{LONGEST_TRACE, RecordFormat, TraceRecord};

/// A trace record that was read, and its trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Contents of the record.
    pub record: TraceRecord,
    /// Set if the cut may have left the record half written. That is the oldest record of a
    /// ring that is full or that the next record fills. If the header is stored first, it is
    /// the newest.
    pub suspect: bool,
    /// Trust in the record's bytes.
    pub trust: Trust,
}

/// A zone's trace records, oldest first.
///
/// Whole records are counted from the newest end back: in a ring whose size is no
/// multiple of theirs, the rest of the oldest is left out.
///
/// Where they are not plausible as records, and would be a few bytes earlier, the header
/// is damaged: all are [`Unverified`](Trust::Unverified) then. See
/// [`misaligned`](Self::misaligned).
#[derive(Clone, Debug)]
pub struct Traces<'a, M: ?Sized> {
    zone: PreviousBootZone<'a, M>,
    record_format: RecordFormat,
    at: usize,
    misaligned: Option<Misaligned>,
}

impl<M: Load + ?Sized> Iterator for Traces<'_, M> {
    type Item = Trace;

    fn next(&mut self) -> Option<Trace> {
        let mut bytes = [0; LONGEST_TRACE];
        let bytes = &mut bytes[..self.record_format.len()];
        let trust = self.zone.read(self.at, bytes)?;
        let record = self.record_format.decode(bytes, self.zone.reader().order)?;
        let suspect = self.is_oldest() && self.wraps_next()
            || self.is_newest() && self.zone.reader().writer == Writer::HeaderFirst;
        self.at += self.record_format.len();
        Some(Trace {
            record,
            suspect,
            trust: match self.misaligned {
                Some(_) => Trust::Unverified,
                None => trust,
            },
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.zone.len().saturating_sub(self.at) / self.record_format.len();
        (left, Some(left))
    }
}

impl<M: Load + ?Sized> ExactSizeIterator for Traces<'_, M> {}

impl<'a, M: Load + ?Sized> PreviousBootZone<'a, M> {
    /// The trace records, oldest first.
    pub fn traces(self, record_format: RecordFormat) -> Traces<'a, M> {
        Traces::new(self.of_records(record_format.len()), record_format)
    }
}

impl<'a, M: Load + ?Sized> Traces<'a, M> {
    fn new(mut zone: PreviousBootZone<'a, M>, record_format: RecordFormat) -> Self {
        let at = zone.len() % record_format.len();
        let misaligned = alignment::check(&mut zone, record_format);
        Self {
            zone,
            record_format,
            at,
            misaligned,
        }
    }
}

impl<M: ?Sized> Traces<'_, M> {
    /// The zone.
    pub const fn zone(&self) -> &PreviousBootZone<'_, M> {
        &self.zone
    }

    /// Returns how the records' positions differ from the header, if they do.
    pub const fn misaligned(&self) -> Option<Misaligned> {
        self.misaligned
    }

    const fn is_oldest(&self) -> bool {
        self.at < self.record_format.len()
    }

    /// Returns whether the next record overwrites all or a part of the oldest.
    const fn wraps_next(&self) -> bool {
        self.zone.len() + self.record_format.len() > self.zone.place().division.data()
    }

    const fn is_newest(&self) -> bool {
        self.at + self.record_format.len() >= self.zone.len()
    }
}

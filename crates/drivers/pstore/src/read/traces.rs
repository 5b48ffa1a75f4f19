//! Trace records of a zone.

use super::alignment::{self, Misaligned};
use super::zone::PreviousBootZone;
use super::{Trust, Writer};
use crate::memory::Load;
use crate::trace::{LONGEST_TRACE, RecordFormat, TraceRecord};

/// A trace record with its trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Contents of the record.
    pub record: TraceRecord,
    /// Set if the cut may have left the record incomplete. This concerns the oldest record of a
    /// ring that is full or that the next record fills. If the header is stored first, it concerns
    /// the newest record.
    pub suspect: bool,
    /// Trust in the record's bytes.
    pub trust: Trust,
}

/// Iterator over a zone's trace records, oldest first.
///
/// Whole records are counted backwards from the newest. If the ring's size is no multiple of
/// theirs, the rest of the oldest is left out.
///
/// If the records are implausible at their positions, but plausible a few bytes earlier, the header
/// is damaged. Then all records are [`Unverified`](Trust::Unverified). See
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
    /// Returns the trace records, oldest first.
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
    /// Returns the zone.
    pub const fn zone(&self) -> &PreviousBootZone<'_, M> {
        &self.zone
    }

    /// Returns the difference between the records' positions and the header, if there is one.
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

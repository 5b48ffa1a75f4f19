//! Ranges of which no byte is assigned twice.

use std::collections::BTreeMap;
use std::ops::Range;

/// Ranges already assigned, from start to end. They do not touch.
#[derive(Debug, Default)]
pub(super) struct Taken(BTreeMap<u64, u64>);

impl Taken {
    /// Returns the number of ranges.
    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// Assigns a range. Passes the parts of it that were free to `each`, in order.
    pub(super) fn take(&mut self, range: Range<u64>, mut each: impl FnMut(Range<u64>)) {
        let Range { start: mut at, end } = range;
        let mut joined = at..end;
        let before = self.0.range(..at).next_back();
        let first = before.map_or(at, |(start, _)| *start);
        let near = self.0.range(first..=end).map(|(start, end)| *start..*end);
        let touching: Vec<_> = near.filter(|part| part.end >= at).collect();
        for part in touching {
            if at < part.start {
                each(at..part.start);
            }
            at = at.max(part.end);
            joined = joined.start.min(part.start)..joined.end.max(part.end);
            self.0.remove(&part.start);
        }
        if at < end {
            each(at..end);
        }
        self.0.insert(joined.start, joined.end);
    }
}

//! Places in the file that page descriptors have named.

use std::mem;
use std::ops::Range;

use super::super::taken::Taken;

/// Maximum number of ranges, which need about 32 bytes each. Writers leave no gaps between pages,
/// so their files need one.
const MOST: usize = 1 << 20;

/// Places that were named. Except for the page of zeros, writers name each place once. A damaged
/// file of megabytes could otherwise name terabytes of pages to search.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// The range with the highest end.
    newest: Range<u64>,
    others: Taken,
}

impl Named {
    /// Adds a place, and returns whether no byte of it was named before. With more than [`MOST`]
    /// ranges, all bytes before the highest end count as named.
    pub(super) fn name(&mut self, place: Range<u64>) -> bool {
        if place.start == self.newest.end {
            self.newest.end = place.end;
            return true;
        }
        if place.start > self.newest.end {
            let before = mem::replace(&mut self.newest, place);
            if !before.is_empty() {
                self.others.take(before, |_| {});
            }
            self.limit();
            return true;
        }
        if place.end > self.newest.start {
            return false;
        }
        let len = place.end - place.start;
        let mut free = 0;
        self.others
            .take(place, |range| free += range.end - range.start);
        self.limit();
        free == len
    }

    fn limit(&mut self) {
        if self.others.count() > MOST {
            self.newest.start = 0;
            self.others = Taken::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_new_once_in_any_order() {
        let mut named = Named::default();
        let expected = [
            (100..110, true),
            (110..120, true),
            (119..121, false),
            (200..210, true),
            (150..160, true),
            (159..161, false),
            (205..206, false),
            (100..110, false),
            (160..200, false),
            (10..20, true),
            (210..220, true),
        ];
        for (place, is_new) in expected {
            assert_eq!(named.name(place.clone()), is_new, "{place:?}");
        }
    }

    #[test]
    fn ranges_are_limited() {
        let mut named = Named::default();
        for nth in 1..3 * MOST as u64 {
            assert!(named.name(nth * 2..nth * 2 + 1));
            assert!(named.others.count() <= MOST);
        }
        assert!(!named.name(1..2));
    }
}

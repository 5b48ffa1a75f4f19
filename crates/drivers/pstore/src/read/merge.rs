//! Merge of the traces of all CPUs.

use core::iter::Peekable;
use core::marker::PhantomData;

use super::Trace;

/// The traces of several zones, merged by their stamps.
///
/// Only the first records of the zones are compared. Within a zone the order is that of writing,
/// even if a stamp decreases (Linux's sometimes do, by a few). If stamps are equal, the later
/// zone's record comes first, as in Linux.
#[derive(Clone, Debug)]
pub struct Merge<Z, I> {
    zones: Z,
    traces: PhantomData<I>,
}

impl<Z: AsMut<[Peekable<I>]>, I: Iterator<Item = Trace>> Merge<Z, I> {
    /// Merges these zones in order: an array, a vector or a borrowed slice.
    pub const fn new(zones: Z) -> Self {
        Self {
            zones,
            traces: PhantomData,
        }
    }
}

impl<Z: AsMut<[Peekable<I>]>, I: Iterator<Item = Trace>> Iterator for Merge<Z, I> {
    type Item = Trace;

    fn next(&mut self) -> Option<Trace> {
        let zones = self.zones.as_mut();
        let mut next = None::<(usize, u64)>;
        for (zone, traces) in zones.iter_mut().enumerate() {
            let Some(head) = traces.peek() else { continue };
            if next.is_none_or(|(_, earliest)| head.record.stamp <= earliest) {
                next = Some((zone, head.record.stamp));
            }
        }
        zones.get_mut(next?.0)?.next()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::read::Trust;
    use crate::trace::TraceRecord;
    use proptest::prelude::*;
    use std::{vec, vec::Vec};

    /// Merges as Linux does: one zone after the other into the result.
    fn fold(zones: &[Vec<Trace>]) -> Vec<Trace> {
        zones.iter().fold(vec![], |merged, zone| {
            let (mut left, mut right) = (merged.into_iter().peekable(), zone.iter().peekable());
            let mut both = vec![];
            while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
                let earlier = a.record.stamp < b.record.stamp;
                both.extend(if earlier {
                    left.next()
                } else {
                    right.next().copied()
                });
            }
            both.extend(left.chain(right.copied()));
            both
        })
    }

    proptest! {
        #[test]
        fn merging_gives_linuxs_order_even_if_stamps_decrease(
            stamps in prop::collection::vec(prop::collection::vec(0u64..8, 0..12), 0..6),
        ) {
            let trace = |cpu: usize, nth: usize, stamp| Trace {
                record: TraceRecord { ip: nth as u64, parent: 0, stamp, cpu: cpu as u8 },
                suspect: false,
                trust: Trust::Unchecked,
            };
            let zones: Vec<Vec<Trace>> = stamps.iter().enumerate().map(|(cpu, stamps)| {
                stamps.iter().enumerate().map(|(nth, &stamp)| trace(cpu, nth, stamp)).collect()
            }).collect();
            let mut heads: Vec<_> =
                zones.iter().map(|zone| zone.iter().copied().peekable()).collect();
            let merged: Vec<Trace> = Merge::new(&mut heads[..]).collect();
            prop_assert_eq!(merged, fold(&zones));
        }
    }
}

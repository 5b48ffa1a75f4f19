//! Merging of several CPUs' events.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

/// Merges streams, one for each CPU, by time. Stores two items of each stream.
///
/// The items of one stream keep their order, even if its clock steps back: the stream is then
/// delayed by the size of the step. A single item with a time that is too high does not delay later
/// items.
#[derive(Debug)]
pub struct Merge<I: Iterator> {
    streams: Vec<Stream<I>>,
    order: BinaryHeap<Reverse<(u64, usize)>>,
    time: fn(&I::Item) -> u64,
}

#[derive(Debug)]
struct Stream<I: Iterator> {
    items: I,
    first: Option<I::Item>,
    second: Option<I::Item>,
    /// Position of the last item in the merged order.
    last: u64,
    /// Sum of the clock's backward steps.
    late: u64,
}

impl<I: Iterator> Merge<I> {
    /// Merges `streams` by the `time` of their items.
    ///
    /// At equal times, items of earlier streams come first. An item with time 0, such as an error,
    /// is returned at once.
    pub fn new(streams: impl IntoIterator<Item = I>, time: fn(&I::Item) -> u64) -> Self {
        let streams = streams.into_iter().map(|mut items| Stream {
            first: items.next(),
            second: items.next(),
            items,
            last: 0,
            late: 0,
        });
        let mut streams: Vec<_> = streams.collect();
        let order = streams.iter_mut().enumerate();
        let order = order.filter_map(|(index, stream)| Some(Reverse((stream.place(time)?, index))));
        Self {
            order: order.collect(),
            streams,
            time,
        }
    }

    /// Returns the streams, for example for their positions.
    pub fn streams(&self) -> impl Iterator<Item = &I> {
        self.streams.iter().map(|stream| &stream.items)
    }
}

impl<I: Iterator> Stream<I> {
    /// Returns the position of the first item in the merged order.
    fn place(&mut self, time: fn(&I::Item) -> u64) -> Option<u64> {
        let now = time(self.first.as_ref()?);
        if now >= self.last {
            // The clock has caught up.
            self.late = 0;
        }
        let mut place = now.saturating_add(self.late);
        if place < self.last {
            self.late = self.last - now;
            place = self.last;
        } else if let Some(second) = &self.second {
            let second = time(second).saturating_add(self.late);
            if (self.last..place).contains(&second) {
                place = second;
            }
        }
        self.last = place;
        Some(place)
    }

    fn take(&mut self) -> Option<I::Item> {
        let second = self.second.take();
        let item = std::mem::replace(&mut self.first, second);
        self.second = self.items.next();
        item
    }
}

impl<I: Iterator> Iterator for Merge<I> {
    /// An item and the number of its stream.
    type Item = (usize, I::Item);

    fn next(&mut self) -> Option<Self::Item> {
        let mut next = self.order.peek_mut()?;
        let Reverse((_, index)) = *next;
        let stream = &mut self.streams[index];
        let item = stream.take()?;
        match stream.place(self.time) {
            Some(place) => *next = Reverse((place, index)),
            None => drop(PeekMut::pop(next)),
        }
        Some((index, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(streams: &[&[u64]]) -> Vec<(usize, u64)> {
        let streams = streams.iter().map(|times| times.iter().copied());
        Merge::new(streams, |time| *time).collect()
    }

    #[test]
    fn streams_are_merged_by_time_and_equal_times_by_stream() {
        let merged = merged(&[&[1, 4, 5], &[], &[2, 4, 6]]);
        assert_eq!(merged, [(0, 1), (2, 2), (0, 4), (2, 4), (0, 5), (2, 6)]);
    }

    #[test]
    fn a_clock_that_steps_back_on_all_cpus_leaves_them_interleaved() {
        let merged = merged(&[&[100, 102, 104, 50, 52, 54], &[101, 103, 105, 51, 53, 55]]);
        let cpus: Vec<_> = merged.iter().map(|(cpu, _)| *cpu).collect();
        let times: Vec<_> = merged.iter().map(|(_, time)| *time).collect();
        assert_eq!(times[..4], [100, 101, 102, 103]);
        // The CPUs take turns behind the step, too.
        let runs = cpus.chunk_by(|a, b| a == b).map(<[_]>::len);
        assert!(runs.clone().all(|run| run <= 2), "{merged:?}");
    }

    #[test]
    fn a_step_back_on_one_cpu_neither_stalls_it_nor_reorders_it() {
        let stepped = [10, 20, 30, 5, 15, 25, 35];
        let merged = merged(&[&stepped, &[12, 22, 32, 42, 52, 62]]);
        let own = merged.iter().filter(|(cpu, _)| *cpu == 0);
        assert!(own.map(|(_, time)| *time).eq(stepped));
        let before = merged.iter().position(|it| *it == (0, 25)).unwrap();
        let after = merged.iter().position(|it| *it == (1, 62)).unwrap();
        assert!(before < after, "{merged:?}");
    }

    #[test]
    fn one_time_that_is_too_high_delays_no_other_item() {
        let merged = merged(&[&[1, u64::MAX, 3, 5], &[2, 4, 6]]);
        let times: Vec<_> = merged.iter().map(|(_, time)| *time).collect();
        assert_eq!(times, [1, 2, u64::MAX, 3, 4, 5, 6]);
    }
}

//! Ring in the caller's memory.

/// Queue of as many entries as the memory holds.
#[derive(Debug)]
pub(super) struct Ring<'a, T> {
    slots: &'a mut [T],
    /// Slot of the oldest entry.
    first: usize,
    len: usize,
}

impl<'a, T: Copy> Ring<'a, T> {
    pub(super) const fn new(slots: &'a mut [T]) -> Self {
        Self {
            slots,
            first: 0,
            len: 0,
        }
    }

    /// Appends `entry`. Returns whether there was room.
    pub(super) fn push(&mut self, entry: T) -> bool {
        let at = self.slot(self.len);
        let full = self.free() == 0;
        if !full && let Some(slot) = self.slots.get_mut(at) {
            *slot = entry;
            self.len += 1;
        }
        !full
    }

    /// Removes and returns the oldest entry.
    pub(super) fn pop(&mut self) -> Option<T> {
        let entry = self.front()?;
        self.first = self.slot(1);
        self.len -= 1;
        Some(entry)
    }

    /// Returns the oldest entry without removing it.
    pub(super) fn front(&self) -> Option<T> {
        let slot = self.slots.get(self.first)?;
        (self.len > 0).then_some(*slot)
    }

    /// Appends as many of `entries` as there is room for. Returns their number.
    pub(super) fn extend(&mut self, entries: &[T]) -> usize {
        entries.iter().take_while(|&&e| self.push(e)).count()
    }

    /// Moves the oldest entries to `into`, until it is full or the ring is empty. Returns the moved
    /// entries.
    pub(super) fn drain<'p>(&mut self, into: &'p mut [T]) -> &'p [T] {
        let mut len = 0;
        while let Some(place) = into.get_mut(len)
            && let Some(entry) = self.pop()
        {
            *place = entry;
            len += 1;
        }
        &into[..len]
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) const fn capacity(&self) -> usize {
        self.slots.len()
    }

    pub(super) const fn free(&self) -> usize {
        self.capacity() - self.len
    }

    /// Returns the slot of the entry `ahead` places after the oldest; `ahead` is at most the
    /// capacity. Uses no division, because small CPUs have none.
    const fn slot(&self, ahead: usize) -> usize {
        let until_end = self.capacity() - self.first;
        if ahead < until_end {
            self.first + ahead
        } else {
            ahead - until_end
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn a_ring_in_no_memory_is_full_and_empty() {
        let mut ring = Ring::<u8>::new(&mut []);
        assert!(!ring.push(1));
        assert_eq!((ring.pop(), ring.free()), (None, 0));
    }

    proptest! {
        #[test]
        fn a_ring_is_a_queue_of_bounded_length(
            capacity in 0..9usize,
            steps in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..20),
            takes in prop::collection::vec(0..12usize, 20),
        ) {
            let mut memory = vec![0; capacity];
            let mut ring = Ring::new(&mut memory);
            let mut queue = VecDeque::new();
            for (bytes, take) in steps.iter().zip(takes) {
                let room = capacity - queue.len();
                prop_assert_eq!(ring.extend(bytes), bytes.len().min(room));
                queue.extend(bytes.iter().take(room));
                let expected: Vec<u8> = queue.drain(..take.min(queue.len())).collect();
                let mut taken = vec![0; take];
                prop_assert_eq!(ring.drain(&mut taken), expected);
                prop_assert_eq!(ring.free(), capacity - queue.len());
                prop_assert_eq!(ring.front(), queue.front().copied());
            }
        }
    }
}

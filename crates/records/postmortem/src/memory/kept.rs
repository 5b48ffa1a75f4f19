//! Parts of a dump that were decompressed.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Cache of decompressed parts, and a list of the damaged ones. A part has a number.
#[derive(Debug)]
pub(super) struct Kept {
    state: Mutex<State>,
    /// Maximum number of parts in the cache.
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    /// Number of the latest use, and bytes, by part.
    bytes: BTreeMap<u64, (u64, Box<[u8]>)>,
    /// Parts, by the number of their latest use.
    by_use: BTreeMap<u64, u64>,
    uses: u64,
    /// Damaged parts: a bit each, in words by number.
    damaged: BTreeMap<u64, u64>,
}

impl State {
    fn is_damaged(&self, part: u64) -> bool {
        let word = self.damaged.get(&(part / 64));
        word.is_some_and(|word| word >> (part % 64) & 1 == 1)
    }

    /// Returns the bytes of a part in the cache.
    fn get(&mut self, part: u64) -> Option<&[u8]> {
        let (latest, bytes) = self.bytes.get_mut(&part)?;
        self.uses += 1;
        self.by_use.remove(latest);
        self.by_use.insert(self.uses, part);
        *latest = self.uses;
        Some(bytes)
    }

    fn insert(&mut self, part: u64, bytes: Box<[u8]>, most: usize) {
        self.uses += 1;
        if let Some((latest, _)) = self.bytes.insert(part, (self.uses, bytes)) {
            self.by_use.remove(&latest);
        }
        self.by_use.insert(self.uses, part);
        if self.bytes.len() > most
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.bytes.remove(&oldest);
        }
    }
}

impl Kept {
    /// Creates a cache for at most `most` parts.
    pub(super) fn new(most: usize) -> Self {
        Self {
            state: Mutex::default(),
            most,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a range of a part to `to`. `decompress` appends the whole part, or returns `None` if
    /// it is damaged. Returns `None` for a damaged part, and leaves `to` as it was.
    pub(super) fn append(
        &self,
        part: u64,
        range: Range<usize>,
        to: &mut Vec<u8>,
        decompress: impl FnOnce(&mut Vec<u8>) -> Option<()>,
    ) -> Option<()> {
        {
            let mut state = self.state();
            if state.is_damaged(part) {
                return None;
            }
            if let Some(bytes) = state.get(part) {
                to.extend_from_slice(bytes.get(range)?);
                return Some(());
            }
        }
        let start = to.len();
        if decompress(to).is_none() {
            to.truncate(start);
            *self.state().damaged.entry(part / 64).or_default() |= 1 << (part % 64);
            return None;
        }
        // A search reads each part as a whole, and once.
        if range == (0..to.len() - start) {
            return Some(());
        }
        let whole = to.split_off(start);
        to.extend_from_slice(whole.get(range)?);
        self.state().insert(part, whole.into(), self.most);
        Some(())
    }

    /// Returns the sum of `len` over the damaged parts.
    pub(super) fn damaged(&self, len: impl Fn(u64) -> u64) -> u64 {
        let state = self.state();
        let parts = state.damaged.iter().flat_map(|(word, bits)| {
            let set = (0..64).filter(move |bit| bits >> bit & 1 == 1);
            set.map(move |bit| word * 64 + bit)
        });
        parts.map(len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_whose_last_use_is_oldest_leaves_the_cache() {
        let kept = Kept::new(2);
        let read = |part: u64| {
            let (mut to, mut is_new) = (vec![9], false);
            let read = kept.append(part, 1..3, &mut to, |to| {
                is_new = true;
                to.extend([part as u8; 4]);
                (part != 7).then_some(())
            });
            let expected = read.map_or(vec![9], |()| vec![9, part as u8, part as u8]);
            assert_eq!(to, expected);
            (read.is_some(), is_new)
        };
        assert_eq!(
            [1, 2, 1, 3].map(|part| read(part).1),
            [true, true, false, true]
        );
        // Part 2 has left the cache, and part 1 leaves for it.
        assert_eq!([1, 2, 3].map(|part| read(part).1), [false, true, true]);
        assert_eq!([read(7), read(7)], [(false, true), (false, false)]);
        assert_eq!(kept.damaged(|part| part * 10), 70);
    }
}

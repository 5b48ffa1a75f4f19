//! A VMM's side of a shadow, in plain memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use thiserror::Error;

use super::registers::SIZE;
use super::shadow::{Change, Contents, Run, Shadow};

/// A guest's view of a [`Shadow`], in plain memory. It applies the shadow's changes, as a VMM would
/// with its mappings. For tests, and machines without a hypervisor.
#[derive(Debug, Default)]
pub struct ShadowMemory {
    /// By offset: a run, and its memory if it is not all ones.
    mapped: BTreeMap<u64, (Run, Option<Pages>)>,
    /// Actions so far.
    counts: ShadowCounts,
}

/// Pages with memory of their own, by offset. All others share one page of ones.
type Pages = BTreeMap<u64, Box<[u8; SIZE]>>;

/// Number of a VMM's actions, by their cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowCounts {
    /// Mappings made or taken away.
    pub mappings: u64,
    /// Pages of functions filled for new mappings.
    pub pages: u64,
    /// Stretches of memory changed.
    pub updates: u64,
}

/// The shadow asked for something that no VMM could do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShadowError {
    /// It wants a run mapped over another.
    #[error("{0:x?} is mapped already, in part")]
    Overlap(Run),
    /// It wants a run unmapped that is not mapped.
    #[error("{0:x?} is not mapped: is it this shadow's?")]
    NotMapped(Run),
    /// It wants memory changed that is not mapped, or not words, or all ones for
    /// good.
    #[error("no memory is mapped at {0:#x} to change")]
    Update(u64),
}

impl ShadowMemory {
    /// Nothing mapped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies a shadow's changes; `shadow` gives the contents of new runs.
    ///
    /// # Errors
    ///
    /// If it cannot be done, which would be a defect of the shadow, or it is not
    /// the shadow that was followed so far.
    pub fn apply(&mut self, changes: &[Change], shadow: &Shadow) -> Result<(), ShadowError> {
        changes
            .iter()
            .try_for_each(|change| self.apply_one(change, shadow))
    }

    fn apply_one(&mut self, change: &Change, shadow: &Shadow) -> Result<(), ShadowError> {
        match change {
            Change::Unmap(run) => {
                self.counts.mappings += 1;
                match self.mapped.remove(&run.offset) {
                    Some((was, _)) if was == *run => Ok(()),
                    _ => Err(ShadowError::NotMapped(*run)),
                }
            }
            Change::Map(run, contents) => self.map(*run, *contents, shadow),
            Change::Update { offset, bytes } => {
                self.counts.updates += 1;
                self.update(*offset, bytes)
                    .ok_or(ShadowError::Update(*offset))
            }
            Change::Clear(run) => {
                self.counts.updates += 1;
                self.clear(*run).ok_or(ShadowError::Update(run.offset))
            }
        }
    }

    fn map(&mut self, run: Run, contents: Contents, shadow: &Shadow) -> Result<(), ShadowError> {
        self.counts.mappings += 1;
        let end = run.offset + run.length;
        let before = self.mapped.range(..end).next_back();
        if before.is_some_and(|(_, (other, _))| other.offset + other.length > run.offset) {
            return Err(ShadowError::Overlap(run));
        }
        let pages = match contents {
            Contents::AllOnes => None,
            Contents::Functions => {
                let pages = shadow.pages(run);
                let pages: Pages = pages.map(|(at, bytes)| (at, Box::new(*bytes))).collect();
                self.counts.pages += pages.len() as u64;
                Some(pages)
            }
        };
        self.mapped.insert(run.offset, (run, pages));
        Ok(())
    }

    fn update(&mut self, offset: u64, bytes: &[u8]) -> Option<()> {
        if !offset.is_multiple_of(4) || !bytes.len().is_multiple_of(4) {
            return None;
        }
        let at = offset as usize % SIZE;
        let start = offset - at as u64;
        let page = self.functions_at(start, SIZE as u64)?.entry(start);
        let page = page.or_insert_with(|| Box::new([0xff; SIZE]));
        page.get_mut(at..at.checked_add(bytes.len())?)?
            .copy_from_slice(bytes);
        Some(())
    }

    fn clear(&mut self, run: Run) -> Option<()> {
        self.functions_at(run.offset, run.length)?
            .retain(|at, _| !(run.offset..run.offset + run.length).contains(at));
        Some(())
    }

    /// The pages of the mapped run that has all of these bytes, if it has functions.
    fn functions_at(&mut self, offset: u64, length: u64) -> Option<&mut Pages> {
        let (_, (run, pages)) = self.mapped.range_mut(..=offset).next_back()?;
        let fits = offset.checked_add(length)? <= run.offset + run.length;
        pages.as_mut().filter(|_| fits)
    }

    /// A guest's read of the window: `true` if memory answered, `false` if it
    /// traps, in whole or in part.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> bool {
        let below = (Bound::Unbounded, Bound::Included(offset));
        let Some((start, (run, pages))) = self.mapped.range(below).next_back() else {
            return false;
        };
        let at = offset - start;
        if at.saturating_add(data.len() as u64) > run.length {
            return false;
        }
        data.fill(0xff);
        let Some(pages) = pages else {
            return true;
        };
        let mut rest = data;
        let mut at = offset;
        while !rest.is_empty() {
            let within = at as usize % SIZE;
            let (now, later) = rest.split_at_mut(rest.len().min(SIZE - within));
            if let Some(page) = pages.get(&(at - within as u64)) {
                now.copy_from_slice(&page[within..within + now.len()]);
            }
            at += now.len() as u64;
            rest = later;
        }
        true
    }

    /// Returns the number of actions so far.
    pub fn counts(&self) -> ShadowCounts {
        self.counts
    }

    /// Pages that have memory of their own now: those of functions, and no others.
    pub fn pages(&self) -> usize {
        let functions = self.mapped.values().filter_map(|(_, pages)| pages.as_ref());
        functions.map(BTreeMap::len).sum()
    }
}

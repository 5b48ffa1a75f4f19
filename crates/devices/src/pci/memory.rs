//! A VMM's side of the shadow, in plain memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use thiserror::Error;

use super::registers::SIZE;
use super::shadow::{Change, Contents, Run, Shadow};

/// A guest's view of a [`Shadow`], in plain memory. It applies the shadow's changes as a VMM
/// applies them to its mappings. It serves tests, and machines without a hypervisor.
#[derive(Debug, Default)]
pub struct ShadowMemory {
    /// Mapped runs by offset. All-ones runs have no memory.
    mapped: BTreeMap<u64, (Run, Option<Pages>)>,
    /// Number of actions so far.
    counts: ShadowCounts,
}

/// Pages with their own memory, by offset. All other pages share one page of ones.
type Pages = BTreeMap<u64, Box<[u8; SIZE]>>;

/// Numbers of a VMM's actions, by cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowCounts {
    /// Mappings created or removed.
    pub mappings: u64,
    /// Pages of functions filled for new mappings.
    pub pages: u64,
    /// Memory ranges updated.
    pub updates: u64,
}

/// A change that no VMM could apply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShadowError {
    /// The run to map overlaps a mapped run.
    #[error("{0:x?} overlaps a mapped run")]
    Overlap(Run),
    /// The run to unmap is not mapped.
    #[error("{0:x?} is not mapped: use the shadow of the earlier changes")]
    NotMapped(Run),
    /// The memory to update is not mapped, not in whole words, or permanently all ones.
    #[error("no mapped memory can be updated at {0:#x}")]
    Update(u64),
}

impl ShadowMemory {
    /// Creates an empty view.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies a shadow's changes. New runs get their contents from `shadow`.
    ///
    /// # Errors
    ///
    /// If a change cannot be applied: the shadow has a defect, or it is not the shadow of the
    /// previous calls.
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

    /// Returns the pages of the mapped run that contains this whole range, if the run has
    /// functions.
    fn functions_at(&mut self, offset: u64, length: u64) -> Option<&mut Pages> {
        let (_, (run, pages)) = self.mapped.range_mut(..=offset).next_back()?;
        let fits = offset.checked_add(length)? <= run.offset + run.length;
        pages.as_mut().filter(|_| fits)
    }

    /// Handles a guest's read of the window. Returns `true` if memory covers the range; `false` if
    /// any of it traps.
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

    /// Returns the number of actions so far, by kind.
    pub fn counts(&self) -> ShadowCounts {
        self.counts
    }

    /// Returns the number of pages with their own memory: only those of functions.
    pub fn pages(&self) -> usize {
        let functions = self.mapped.values().filter_map(|(_, pages)| pages.as_ref());
        functions.map(BTreeMap::len).sum()
    }
}

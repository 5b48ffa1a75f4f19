//! A VMM's side of a shadow, in plain memory.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::shadow::{Change, Contents, Run, Shadow};

/// What a guest sees of a [`Shadow`], in plain memory: it does what the shadow
/// says, as a VMM would with its mappings. For tests, and machines without a
/// hypervisor.
#[derive(Debug, Default)]
pub struct ShadowMemory {
    /// By offset: a run, and its memory if it is not all ones.
    mapped: BTreeMap<u64, (Run, Option<Vec<u8>>)>,
    /// What was done so far.
    counts: ShadowCounts,
}

/// How often a VMM had to act, by what it costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowCounts {
    /// Mappings made or taken away.
    pub mappings: u64,
    /// Stretches of memory changed.
    pub updates: u64,
}

/// The shadow asked for something that no VMM could do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShadowError {
    /// It wants a run mapped over another.
    Overlap(Run),
    /// It wants a run unmapped that is not mapped.
    NotMapped(Run),
    /// It wants memory changed that is not mapped, or not words, or all ones for
    /// good.
    Update(u64),
}

impl ShadowMemory {
    /// Nothing mapped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Does what a shadow says; `shadow` is asked for the contents of new runs.
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
        }
    }

    fn map(&mut self, run: Run, contents: Contents, shadow: &Shadow) -> Result<(), ShadowError> {
        self.counts.mappings += 1;
        let end = run.offset + run.length;
        let before = self.mapped.range(..end).next_back();
        if before.is_some_and(|(_, (other, _))| other.offset + other.length > run.offset) {
            return Err(ShadowError::Overlap(run));
        }
        let memory = match contents {
            Contents::AllOnes => None,
            Contents::Functions => {
                let mut memory = vec![0; run.length as usize];
                shadow.copy(run.offset, &mut memory);
                Some(memory)
            }
        };
        self.mapped.insert(run.offset, (run, memory));
        Ok(())
    }

    fn update(&mut self, offset: u64, bytes: &[u8]) -> Option<()> {
        if !offset.is_multiple_of(4) || !bytes.len().is_multiple_of(4) {
            return None;
        }
        let (start, (_, memory)) = self.mapped.range_mut(..=offset).next_back()?;
        let at = (offset - start) as usize;
        let memory = memory.as_mut()?.get_mut(at..at.checked_add(bytes.len())?)?;
        memory.copy_from_slice(bytes);
        Some(())
    }

    /// A guest's read of the window: `true` if memory answered, `false` if it
    /// traps, in whole or in part.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> bool {
        let below = (Bound::Unbounded, Bound::Included(offset));
        let Some((start, (run, memory))) = self.mapped.range(below).next_back() else {
            return false;
        };
        let at = offset - start;
        if at.saturating_add(data.len() as u64) > run.length {
            return false;
        }
        match memory {
            Some(memory) => data.copy_from_slice(&memory[at as usize..at as usize + data.len()]),
            None => data.fill(0xff),
        }
        true
    }

    /// What it had to do so far.
    pub fn counts(&self) -> ShadowCounts {
        self.counts
    }
}

impl std::fmt::Display for ShadowError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Overlap(run) => write!(f, "{run:x?} is mapped already, in part"),
            Self::NotMapped(run) => write!(f, "{run:x?} is not mapped: is it this shadow's?"),
            Self::Update(offset) => write!(f, "no memory is mapped at {offset:#x} to change"),
        }
    }
}

impl std::error::Error for ShadowError {}

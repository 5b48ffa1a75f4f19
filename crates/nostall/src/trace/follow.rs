//! Reads a recording while it grows.

use std::collections::HashMap;
use std::fs::TryLockError;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use nostall_trace::layout::{FROZEN, ZONES_OF_THREADS};
use nostall_trace::model::{Catalog, Event, EventKind, Name, Source, Task, TimeUnit};
use nostall_trace::{Image, recover};

use super::input::Options;
use super::region::{FileImage, events};

/// A recording that grows. Each look yields the events since the last one.
///
/// Memory depends on the number of names and of tasks. Events that were overwritten between two
/// looks are lost.
pub struct Follow {
    path: PathBuf,
    options: Options,
    catalog: Catalog,
    /// Newest event of each CPU and task, and the number of events at its time.
    newest: HashMap<(u32, Task), (u64, u64)>,
    boot: u64,
}

/// Findings of a look.
pub struct Look {
    pub unit: TimeUnit,
    /// The recording grows no more.
    pub is_over: bool,
}

impl Follow {
    pub fn new(path: &Path, options: &Options) -> Self {
        Self {
            path: path.to_owned(),
            options: options.clone(),
            catalog: Catalog::default(),
            newest: HashMap::new(),
            boot: 0,
        }
    }

    /// The names in all events so far.
    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Hands the new events to `sink`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is no recording of nostall.
    pub fn look(&mut self, mut sink: impl FnMut(&Event, &Catalog)) -> Result<Look> {
        // Asked before reading: the last events come before the end.
        let is_over = is_over(&FileImage::open(&self.path, true)?);
        let image = FileImage::open(&self.path, true)?;
        let mut source = events(image, &self.options)?
            .map_err(|fault| anyhow!("not a recording of nostall, which --live needs: {fault}"))?;
        let boot = source.boot();
        if std::mem::replace(&mut self.boot, boot) != boot {
            self.newest.clear();
        }
        // The source's numbers of names and tasks are new with each look.
        let mut names = Vec::new();
        let mut newest = self.newest.clone();
        let mut passed: HashMap<(u32, Task), u64> = HashMap::new();
        while let Some(event) = source.next_event()? {
            let task = source.catalog().task_name(event.task);
            let task = self.catalog.task(task.id, &task.name);
            let key = (event.cpu, task);
            let (limit, count) = self.newest.get(&key).copied().unwrap_or((0, 0));
            if event.time < limit {
                continue;
            }
            let is_lost = matches!(event.kind, EventKind::Lost { .. });
            if event.time == limit {
                let passed = passed.entry(key).or_default();
                *passed += 1;
                if *passed <= count || is_lost {
                    continue;
                }
            }
            let seen = newest.entry(key).or_default();
            match event.time > seen.0 {
                true => *seen = (event.time, 1),
                false => seen.1 += u64::from(event.time == seen.0),
            }
            let kind = event.kind.renamed(|name| {
                let at = name.0 as usize;
                if at >= names.len() {
                    names.resize(at + 1, None);
                }
                *names[at].get_or_insert_with(|| -> Name {
                    let text = source.catalog().text(name);
                    self.catalog.name(text)
                })
            });
            let event = Event {
                task,
                kind,
                ..event
            };
            sink(&event, &self.catalog);
        }
        self.newest = newest;
        Ok(Look {
            unit: source.unit(),
            is_over,
        })
    }
}

/// Whether the recording is frozen, or the program has ended, which locks its file.
fn is_over(image: &FileImage) -> bool {
    let mut word = [0; 8];
    let is_frozen = image.read(FROZEN as u64, &mut word) && word != [0; 8];
    let region = recover(image).ok();
    let header = region.as_ref().and_then(|region| region.header());
    let is_program = header.is_some_and(|it| it.flags & ZONES_OF_THREADS != 0);
    let is_locked = matches!(
        image.file().try_lock_shared(),
        Err(TryLockError::WouldBlock)
    );
    is_frozen || (is_program && !is_locked)
}

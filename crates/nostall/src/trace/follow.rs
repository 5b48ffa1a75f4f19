//! Reads recordings while they grow.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::{File, TryLockError};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Result, bail};
use nostall_postmortem::image::Image as Memory;
use nostall_postmortem::trace_region::{self, HeaderState};
use nostall_trace::graph::{Graph, Step};
use nostall_trace::layout::{FROZEN, RegionHeader, ZONES_OF_THREADS};
use nostall_trace::model::{Catalog, Event, EventKind, Name, Source, Task, TimeUnit};
use nostall_trace::{Image, ZoneEvents};

use super::candidate::Options;
use super::names::Names;
use super::region::{FileImage, events};

/// Recordings that grow in one file. Each look yields the steps since the last one.
///
/// Memory depends on the number of names and of tasks. Events that were overwritten between two
/// reads are lost.
pub struct Follow<'f> {
    open: Box<dyn Fn() -> io::Result<File> + 'f>,
    names: Rc<Names>,
    catalog: Catalog,
    recordings: Vec<Recording>,
}

/// Recording at a place in the file.
#[derive(Default)]
struct Recording {
    place: Range<u64>,
    /// Newest event of each CPU and task, and the number of events at its time.
    newest: HashMap<(u32, Task), (u64, u64)>,
    boot: u64,
    graph: Graph,
}

impl<'f> Follow<'f> {
    /// Follows the recording in the file at `path`, or those in the guest RAM that the file is.
    ///
    /// # Errors
    ///
    /// If there is none, or if a file cannot be read.
    pub fn new(path: &'f Path, options: &Options) -> Result<Self> {
        let names = Names::new(path, options)?;
        let whole = FileImage::open(path, true)?;
        let places = match whole.header(0) {
            Ok(_) => std::iter::once(0..whole.len()).collect(),
            Err(fault) => match places(path)? {
                places if places.is_empty() => {
                    bail!("not a recording of nostall, which --live needs: {fault}")
                }
                places => places,
            },
        };
        Ok(Self::of(Box::new(move || File::open(path)), places, names))
    }

    /// Follows the recordings that are begun at these places of a guest's RAM.
    ///
    /// # Errors
    ///
    /// None: there are no symbols.
    pub fn guest(
        ram: impl Fn() -> io::Result<File> + 'f,
        places: impl Iterator<Item = Range<u64>>,
    ) -> Result<Self> {
        let names = Names::new(Path::new(""), &Options::default())?;
        Ok(Self::of(Box::new(ram), places.collect(), names))
    }

    fn of(
        open: Box<dyn Fn() -> io::Result<File> + 'f>,
        places: Vec<Range<u64>>,
        names: Rc<Names>,
    ) -> Self {
        let recordings = places.into_iter().map(|place| Recording {
            place,
            ..Recording::default()
        });
        Self {
            open,
            names,
            catalog: Catalog::default(),
            recordings: recordings.collect(),
        }
    }

    /// The names in all events so far.
    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Hands the new steps to `sink`. Returns whether the recordings grow no more.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or if the rate of a recording's clock is not known.
    pub fn look(&mut self, mut sink: impl FnMut(&Step, &Catalog)) -> Result<bool> {
        let (mut begun, mut over) = (0, 0);
        for recording in &mut self.recordings {
            let image = FileImage::part((self.open)()?, &recording.place);
            let Ok(header) = image.header(0) else {
                continue; // not begun
            };
            // Asked before reading: the last events come before the end.
            let is_over = is_over(&image, &header);
            let image = FileImage::part((self.open)()?, &recording.place);
            let Ok(source) = events(image, &self.names) else {
                continue; // begun again
            };
            if source.unit() != TimeUnit::Nanoseconds {
                bail!("a rate needs seconds, and the rate of this recording's clock is not known");
            }
            recording.look(source, &mut self.catalog, &mut sink)?;
            begun += 1;
            over += usize::from(is_over);
        }
        Ok(begun > 0 && over == begun)
    }
}

impl Recording {
    /// Hands the new steps in `source` to `sink`.
    fn look(
        &mut self,
        mut source: ZoneEvents<'static, FileImage>,
        catalog: &mut Catalog,
        sink: &mut impl FnMut(&Step, &Catalog),
    ) -> Result<()> {
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
            let task = catalog.task(task.id, &task.name);
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
                    catalog.name(text)
                })
            });
            let event = Event {
                task,
                kind,
                ..event
            };
            let pushed = self.graph.push(&event, catalog, &mut |step| {
                sink(&step, catalog);
                Ok::<_, Infallible>(())
            });
            let Ok(()) = pushed;
        }
        self.newest = newest;
        Ok(())
    }
}

/// Places of the recordings in a file that is a guest's RAM.
fn places(path: &Path) -> Result<Vec<Range<u64>>> {
    let memory = Memory::open(path)?;
    let found = trace_region::find(&memory, &(0..u64::MAX), &[]);
    let sound = found.iter().filter(|region| {
        // In a dump with segments, an address is no place in the file.
        let header = FileImage::open(path, true).map(|file| file.header(region.start));
        region.state == HeaderState::Sound && matches!(header, Ok(Ok(_)))
    });
    Ok(sound.map(|region| region.range()).collect())
}

/// Whether the recording is frozen, or the program has ended, which locks its file.
fn is_over(image: &FileImage, header: &RegionHeader) -> bool {
    let mut word = [0; 8];
    let is_frozen = image.read(FROZEN as u64, &mut word) && word != [0; 8];
    let is_program = header.flags & ZONES_OF_THREADS != 0;
    let lock = || image.file().try_lock_shared();
    is_frozen || (is_program && !matches!(lock(), Err(TryLockError::WouldBlock)))
}

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

/// Limits for the stored names and tasks. Further ones have no name.
const MOST_NAMES: usize = 1 << 20;

/// Recordings that grow in one file. Each look yields the steps since the last one.
///
/// Memory depends on the numbers of functions, counters and tasks so far, up to a limit, and on the
/// size of the recordings. Marks are left out. Events that were overwritten between two reads are
/// lost.
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
            self.graph = Graph::default();
        }
        // The source's numbers of names and tasks are new with each look.
        let mut names = Vec::new();
        // Without the tasks whose events are all overwritten.
        let mut newest = HashMap::new();
        let mut passed: HashMap<(u32, Task), u64> = HashMap::new();
        while let Some(event) = source.next_event()? {
            let task = source.catalog().task_name(event.task);
            let task = match catalog.tasks().len() <= MOST_NAMES {
                true => catalog.task(task.id, &task.name),
                false => Task::NONE,
            };
            let key = (event.cpu, task);
            let (limit, count) = self.newest.get(&key).copied().unwrap_or((0, 0));
            let seen = newest.entry(key).or_insert((limit, count));
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
            match event.time > seen.0 {
                true => *seen = (event.time, 1),
                false => seen.1 += u64::from(event.time == seen.0),
            }
            if let EventKind::Mark { .. } = event.kind {
                continue; // It has no rate, and each value has a name of its own.
            }
            let kind = event.kind.renamed(|name| {
                let at = name.0 as usize;
                if at >= names.len() {
                    names.resize(at + 1, None);
                }
                *names[at].get_or_insert_with(|| -> Name {
                    match catalog.names() < MOST_NAMES {
                        true => catalog.name(source.catalog().text(name)),
                        false => catalog.name("?"),
                    }
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io::Write;

    use nostall_io::Processor;
    use nostall_trace::{Options as RegionOptions, Recorder, Region, Site, Ticks};

    use super::*;

    const LEN: usize = 2048;

    #[repr(align(64))]
    struct Memory([u8; LEN]);

    /// A clock that advances with each read.
    #[derive(Default)]
    struct Count(Cell<u64>);

    impl Ticks for Count {
        fn now(&self) -> u64 {
            self.0.replace(self.0.get() + 1)
        }
    }

    struct OneCpu;

    impl Processor for OneCpu {
        fn id(&self) -> usize {
            0
        }
        fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
            critical()
        }
    }

    static CALL: Site = Site::new("call", "tests");
    static MARK: Site = Site::new("mark", "tests");

    /// Begins a recording with 64 slots.
    fn region(memory: &mut Memory, boot: u64) -> Region<'_> {
        let options = RegionOptions {
            zones: 1,
            names: 256,
            ticks_per_second: 1_000_000_000,
            boot,
            ..RegionOptions::default()
        };
        Region::format(&mut memory.0, &options).unwrap()
    }

    fn recorder(memory: &mut Memory) -> Recorder<'_, Count, OneCpu> {
        let recorder = Recorder::new(Count::default(), OneCpu);
        recorder.start(region(memory, 1));
        recorder
    }

    fn bytes(recorder: &Recorder<'_, Count, OneCpu>) -> Vec<u8> {
        let live = recorder.dump().unwrap();
        let mut bytes = vec![0; live.len() as usize];
        assert!(live.read(0, &mut bytes));
        bytes
    }

    fn file(bytes: &[u8]) -> io::Result<File> {
        let mut file = tempfile::tempfile()?;
        file.write_all(bytes)?;
        Ok(file)
    }

    #[test]
    fn a_recording_that_is_begun_again_during_a_look_is_read_at_the_next_one() {
        let mut memory = Memory([0; LEN]);
        let recorder = recorder(&mut memory);
        recorder.exit(recorder.enter_site(&CALL, None));
        let whole = bytes(&recorder);
        // `Region::format` clears the header first, then each zone.
        let mut cleared = whole.clone();
        cleared[..512].fill(0);
        let opened = Cell::new(0);
        let open = || {
            opened.set(opened.get() + 1);
            file(if opened.get() == 2 { &cleared } else { &whole })
        };
        let place = 0..whole.len() as u64;
        let mut follow = Follow::guest(open, std::iter::once(place)).unwrap();
        let steps = Cell::new(0);
        let count = |_: &Step, _: &Catalog| steps.set(steps.get() + 1);
        assert!(!follow.look(count).unwrap());
        assert_eq!(steps.get(), 0);
        follow.look(count).unwrap();
        assert_eq!(steps.get(), 2);
    }

    #[test]
    fn a_recording_with_ever_new_names_and_tasks_is_followed_in_bounded_memory() {
        let mut memory = Memory([0; LEN]);
        let recorder = recorder(&mut memory);
        recorder.task(7, "");
        recorder.exit(recorder.enter_site(&CALL, None));
        let content = bytes(&recorder);
        let place = 0..content.len() as u64;
        let mut follow = Follow::guest(|| file(&content), std::iter::once(place)).unwrap();
        for number in 0..MOST_NAMES {
            follow.catalog.name(&number.to_string());
            follow.catalog.task(100 + number as i64, "");
        }
        let mut shown = Vec::new();
        let show = |step: &Step, catalog: &Catalog| {
            if let Step::Leave(slice) = step {
                shown.push((catalog.text(slice.function.unwrap()).to_owned(), slice.task));
            }
        };
        follow.look(show).unwrap();
        assert_eq!(shown, [("?".to_owned(), Task::NONE)]);
        assert_eq!(follow.catalog.names(), MOST_NAMES + 1);
        assert_eq!(follow.catalog.tasks().len(), MOST_NAMES + 1);
    }

    #[test]
    fn an_exit_is_not_paired_with_an_entry_before_the_recording_was_begun_again() {
        let [mut first, mut second] = [0; 2].map(|byte| Memory([byte; LEN]));
        let recorder = recorder(&mut first);
        let open = recorder.enter(100);
        let content = std::cell::RefCell::new(bytes(&recorder));
        let place = 0..content.borrow().len() as u64;
        let mut follow = Follow::guest(|| file(&content.borrow()), std::iter::once(place)).unwrap();
        follow.look(|_, _| {}).unwrap();
        recorder.start(region(&mut second, 2));
        recorder.exit(open);
        content.replace(bytes(&recorder));
        let mut starts = Vec::new();
        let show = |step: &Step, _: &Catalog| {
            if let Step::Leave(slice) = step {
                starts.push(slice.start);
            }
        };
        follow.look(show).unwrap();
        assert_eq!(starts, [None]);
    }

    #[test]
    fn tasks_and_marks_that_are_overwritten_take_no_memory() {
        let mut memory = Memory([0; LEN]);
        let recorder = recorder(&mut memory);
        let content = std::cell::RefCell::new(bytes(&recorder));
        let open = || file(&content.borrow());
        let place = 0..content.borrow().len() as u64;
        let mut follow = Follow::guest(open, std::iter::once(place)).unwrap();
        let mut calls = 0;
        for round in 0..50 {
            recorder.task(round + 1, "");
            for value in 0..20 {
                recorder.mark(&MARK, Some(round * 100 + value));
                recorder.exit(recorder.enter_site(&CALL, None));
            }
            content.replace(bytes(&recorder));
            let count =
                |step: &Step, _: &Catalog| calls += u32::from(matches!(step, Step::Leave(_)));
            follow.look(count).unwrap();
        }
        assert!(calls > 500, "{calls}");
        let newest = follow.recordings[0].newest.len();
        assert!(newest <= 2, "{newest} tasks are remembered");
        let names = follow.catalog().names();
        assert!(names <= 2, "{names} names are stored");
    }
}

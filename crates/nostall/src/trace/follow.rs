//! Reads recordings while they grow.

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
use nostall_trace::model::{Catalog, Event, EventKind, Source, Task, TimeUnit};
use nostall_trace::{Image, ZoneEvents, ZonePositions};

use super::candidate::Options;
use super::names::Names;
use super::region::{FileImage, recovered};

/// Limit for the stored names, and for the tasks with a name. Further ones have none.
const MOST_NAMES: usize = 1 << 20;

/// Recordings that grow in one file. Each [`look`](Self::look) passes on the steps since the last
/// one.
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
    /// Positions after the last look.
    positions: ZonePositions,
    boot: u64,
    graph: Graph,
}

impl<'f> Follow<'f> {
    /// Follows the recording in the file at `path`, or the recordings in a file with a guest's RAM.
    ///
    /// # Errors
    ///
    /// If there is no recording, or if a file cannot be read.
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

    /// Follows the recordings that the guest may start at these places of its RAM.
    ///
    /// # Errors
    ///
    /// Never: no file with symbols is read.
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

    /// Returns the names in all events so far.
    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Passes the new steps to `sink`. Returns whether at least one recording has started and all
    /// started ones have ended.
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
            // Checked before reading, so that events before the end are not missed.
            let is_over = is_over(&image, &header);
            let image = FileImage::part((self.open)()?, &recording.place);
            let Ok((region, names)) = recovered(image, &self.names) else {
                continue; // begun again
            };
            let source = ZoneEvents::resume(region, Box::new(names), &recording.positions);
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
    /// Passes the new steps in `source` to `sink`.
    fn look(
        &mut self,
        mut source: ZoneEvents<'static, FileImage>,
        catalog: &mut Catalog,
        sink: &mut impl FnMut(&Step, &Catalog),
    ) -> Result<()> {
        let boot = source.boot();
        if std::mem::replace(&mut self.boot, boot) != boot {
            self.graph = Graph::default();
        }
        // The source's numbers of names and tasks are new with each look.
        let (mut names, mut tasks) = (Vec::new(), Vec::new());
        while let Some(event) = source.next_event()? {
            if let EventKind::Mark { .. } = event.kind {
                continue; // A mark has no rate, and each of its values would be a new name.
            }
            let task = *slot(&mut tasks, event.task.0).get_or_insert_with(|| {
                let task = source.catalog().task_name(event.task);
                let known = catalog.task_up_to(MOST_NAMES + 1, task.id, &task.name);
                known.unwrap_or(Task::NONE)
            });
            let kind = event.kind.renamed(|name| {
                *slot(&mut names, name.0).get_or_insert_with(|| {
                    let text = source.catalog().text(name);
                    let known = catalog.name_up_to(MOST_NAMES, text);
                    known.unwrap_or_else(|| catalog.name("?"))
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
        self.positions = source.positions();
        Ok(())
    }
}

/// Returns the slot with this number.
fn slot<T>(slots: &mut Vec<Option<T>>, number: u32) -> &mut Option<T> {
    let number = number as usize;
    if number >= slots.len() {
        slots.resize_with(number + 1, || None);
    }
    &mut slots[number]
}

/// Finds the recordings in a file with a guest's RAM.
fn places(path: &Path) -> Result<Vec<Range<u64>>> {
    let memory = Memory::open(path)?;
    let found = trace_region::find(&memory, &(0..u64::MAX), &[]);
    let sound = found.iter().filter(|region| {
        // In a dump with segments, an address is not an offset in the file.
        let header = FileImage::open(path, true).map(|file| file.header(region.start));
        region.state == HeaderState::Sound && matches!(header, Ok(Ok(_)))
    });
    Ok(sound.map(|region| region.range()).collect())
}

/// Returns whether the recording is frozen, or whether the program has ended. A running program
/// locks its file.
fn is_over(image: &FileImage, header: &RegionHeader) -> bool {
    let mut word = [0; 8];
    let is_frozen = image.read(FROZEN as u64, &mut word) && word != [0; 8];
    let is_program = header.flags & ZONES_OF_THREADS != 0;
    let lock = || image.file().try_lock_shared();
    is_frozen || (is_program && !matches!(lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::io::Write;

    use nostall_io::Processor;
    use nostall_trace::{Entered, Options as RegionOptions, Recorder, Region, Site, Ticks};

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
    static LONG: Site = Site::new("long", "tests");
    static MARK: Site = Site::new("mark", "tests");

    const OPTIONS: RegionOptions<'_> = RegionOptions {
        zones: 1,
        names: 256,
        stop_when_full: false,
        zones_of_threads: false,
        ticks_per_second: 1_000_000_000,
        epoch: None,
        anchor: None,
        boot: 1,
        build_id: &[],
        program: "",
    };

    /// Begins a recording with 64 slots.
    fn region(memory: &mut Memory, boot: u64) -> Region<'_> {
        let options = RegionOptions { boot, ..OPTIONS };
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

    /// A recording of 64 slots that a test writes, and its follower.
    struct Followed<'m> {
        recorder: Recorder<'m, Count, OneCpu>,
        content: Rc<RefCell<Vec<u8>>>,
        follow: Follow<'static>,
    }

    impl<'m> Followed<'m> {
        fn new(memory: &'m mut Memory, zones_of_threads: bool) -> Self {
            let recorder = Recorder::new(Count::default(), OneCpu);
            let options = RegionOptions {
                zones_of_threads,
                ..OPTIONS
            };
            recorder.start(Region::format(&mut memory.0, &options).unwrap());
            let content = Rc::new(RefCell::new(bytes(&recorder)));
            let place = 0..content.borrow().len() as u64;
            let of_ram = content.clone();
            let ram = move || file(&of_ram.borrow());
            Self {
                recorder,
                content,
                follow: Follow::guest(ram, std::iter::once(place)).unwrap(),
            }
        }

        fn calls(&self, count: usize) {
            (0..count).for_each(|_| self.recorder.exit(self.recorder.enter_site(&CALL, None)));
        }

        /// Returns the calls that ended since the last look: name, task and argument.
        fn look(&mut self) -> Vec<(String, String, Option<u64>)> {
            self.content.replace(bytes(&self.recorder));
            self.look_again()
        }

        /// Looks at the content as it is.
        fn look_again(&mut self) -> Vec<(String, String, Option<u64>)> {
            let mut ended = Vec::new();
            let show = |step: &Step, catalog: &Catalog| {
                if let Step::Leave(slice) = step {
                    let function = catalog.text(slice.function.unwrap()).to_owned();
                    let task = catalog.task_name(slice.task).name.clone();
                    ended.push((function, task, slice.argument));
                }
            };
            self.follow.look(show).unwrap();
            ended
        }
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
        let content = RefCell::new(bytes(&recorder));
        let place = 0..content.borrow().len() as u64;
        let mut follow = Follow::guest(|| file(&content.borrow()), std::iter::once(place)).unwrap();
        follow.look(|_, _| {}).unwrap();
        recorder.start(region(&mut second, 2));
        let inside = recorder.enter(200);
        recorder.exit(inside);
        // Recorders of others may write such an exit.
        let exit = Entered {
            time: inside.time,
            ..open
        };
        recorder.exit(exit);
        content.replace(bytes(&recorder));
        let mut starts = Vec::new();
        let show = |step: &Step, _: &Catalog| {
            if let Step::Leave(slice) = step {
                starts.push(slice.start.is_some());
            }
        };
        follow.look(show).unwrap();
        assert_eq!(starts, [true, false]);
    }

    #[test]
    fn calls_of_an_ended_thread_are_counted_once_after_its_task_record_is_overwritten() {
        let mut memory = Memory([0; LEN]);
        let mut followed = Followed::new(&mut memory, true);
        followed.recorder.set_owner(0, 7, "first");
        followed.recorder.task(7, "first");
        followed.calls(10);
        assert_eq!(followed.look().len(), 10);
        followed.calls(2);
        followed.recorder.set_owner(0, 8, "second");
        followed.recorder.task(8, "second");
        // 72 slots: the task record of the first thread and three of its calls are overwritten.
        followed.calls(22);
        let tasks: Vec<_> = followed
            .look()
            .into_iter()
            .map(|(_, task, _)| task)
            .collect();
        assert_eq!(tasks.len(), 24);
        assert_eq!(tasks[..2], ["first", "first"]);
        assert_eq!(tasks[2..], ["second"; 22]);
    }

    #[test]
    fn calls_of_a_task_that_runs_for_long_are_counted_once() {
        let mut memory = Memory([0; LEN]);
        let mut followed = Followed::new(&mut memory, false);
        followed.recorder.task(7, "busy");
        let counts = [20, 15, 25, 0, 3];
        let seen = counts.map(|calls| {
            followed.calls(calls);
            followed.look().len()
        });
        assert_eq!(seen, counts);
    }

    #[test]
    fn a_call_keeps_its_argument_after_its_tasks_record_is_overwritten() {
        let mut memory = Memory([0; LEN]);
        let mut followed = Followed::new(&mut memory, false);
        followed.recorder.task(7, "busy");
        let open = followed.recorder.enter_site(&LONG, Some(42));
        for _ in 0..3 {
            followed.look();
            followed.calls(20);
        }
        followed.look();
        followed.recorder.exit(open);
        let long = ("long".to_owned(), "busy".to_owned(), Some(42));
        assert_eq!(followed.look(), [long]);
    }

    #[test]
    fn a_record_that_is_written_during_a_look_is_no_lost_one() {
        let mut memory = Memory([0; LEN]);
        let mut followed = Followed::new(&mut memory, false);
        followed.calls(1);
        assert_eq!(followed.look().len(), 1);
        let open = followed.recorder.enter_site(&LONG, Some(42));
        let call = followed.recorder.enter_site(&CALL, None);
        // The last slot is reserved, and not yet written.
        let mut content = bytes(&followed.recorder);
        let slot = 512 + 256 + 128 + 4 * 16;
        assert_ne!(content[slot + 8..slot + 16], [0; 8]);
        content[slot..slot + 16].fill(0);
        followed.content.replace(content);
        assert_eq!(followed.look_again(), []);
        followed.recorder.exit(call);
        followed.recorder.exit(open);
        let [call, long] = [("call", None), ("long", Some(42))]
            .map(|(name, argument)| (name.to_owned(), String::new(), argument));
        assert_eq!(followed.look(), [call, long]);
    }

    #[test]
    fn known_names_and_tasks_are_kept_at_the_limit() {
        let mut memory = Memory([0; LEN]);
        let mut followed = Followed::new(&mut memory, false);
        followed.recorder.task(7, "known");
        followed.calls(1);
        let known = ("call".to_owned(), "known".to_owned(), None);
        assert_eq!(followed.look(), std::slice::from_ref(&known));
        for number in 0..MOST_NAMES {
            followed.follow.catalog.name(&number.to_string());
            followed.follow.catalog.task(100 + number as i64, "");
        }
        followed.calls(1);
        followed.recorder.task(8, "new");
        followed
            .recorder
            .exit(followed.recorder.enter_site(&LONG, None));
        followed.recorder.task(7, "known");
        followed.calls(1);
        let new = ("?".to_owned(), String::new(), None);
        assert_eq!(followed.look(), [known.clone(), new, known]);
    }

    #[test]
    fn marks_that_are_overwritten_take_no_memory() {
        let mut memory = Memory([0; LEN]);
        let recorder = recorder(&mut memory);
        let content = RefCell::new(bytes(&recorder));
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
        let names = follow.catalog().names();
        assert!(names <= 2, "{names} names are stored");
    }
}

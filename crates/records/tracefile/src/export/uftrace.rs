//! A data directory of uftrace.
//!
//! The format is that of uftrace's file version 4, read back with uftrace 0.13:
//!
//! - `TID.dat`: records of 16 bytes, one file per task. Word 1 is the time. Word 2 has the type
//!   (bits 0 to 1), a magic (bits 3 to 5), the depth (bits 6 to 15) and the address.
//! - `info`: a header of 40 bytes, and lines with the program and the task numbers.
//! - `task.txt`: one session and its tasks.
//! - `sid-*.map` and `*.sym`: the session's only mapping, and its functions. A trace has names but
//!   no addresses, so the addresses are invented.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use super::ExportError;
use super::lane::Lane;
use super::nest::{Ended, Leave, Nest};
use super::text::plain;
use crate::graph::{Match, Step};
use crate::model::{Catalog, Name, Task};

/// Total size of the records in memory, in bytes.
const BUFFER: usize = 4 << 20;

/// Maximum depth of a call. The record's field has 10 bits.
const DEEPEST: u32 = 1023;

/// First number of lanes that are no task, or whose task number uftrace does not support.
const FIRST_OWN: i32 = 1 << 30;

/// Address of the mapping, and distance between its functions.
const BASE: u64 = 0x40_0000;
const SPACING: u64 = 16;

const SESSION: &str = "006e6f7374616c6c";

/// Writer of a function graph's steps as a data directory of uftrace, in bounded memory.
///
/// uftrace cannot express missing records. A call whose exit is missing ends with the call around
/// it. Exits without an entry, marks, stalls, counters, and calls inside more than 1,023 others are
/// omitted.
///
/// ```no_run
/// use nostall_tracefile::export::{ExportError, Uftrace};
/// use nostall_tracefile::graph;
/// # fn source() -> nostall_tracefile::model::Events { Default::default() }
/// use nostall_tracefile::model::Source;
///
/// let mut source = source();
/// std::fs::create_dir("uftrace.data").map_err(ExportError::from)?;
/// let mut uftrace = Uftrace::new("uftrace.data");
/// graph::walk(&mut source, |catalog, step| uftrace.step(catalog, &step))?;
/// let left_out = uftrace.finish(source.catalog(), "vmlinux")?;
/// # Ok::<_, ExportError>(())
/// ```
#[derive(Debug)]
pub struct Uftrace {
    folder: PathBuf,
    lanes: HashMap<Lane, Calls>,
    numbers: HashSet<i32>,
    next_own: i32,
    bytes: usize,
    start: Option<u64>,
    too_deep: u64,
}

/// Calls of one lane.
#[derive(Debug)]
struct Calls {
    number: i32,
    nest: Nest,
    /// Functions of the open calls, outermost first.
    functions: Vec<Name>,
    records: Vec<u8>,
    /// Time of the first entry.
    start: u64,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Entry = 0,
    Exit = 1,
}

impl Uftrace {
    /// Creates the export for `folder`, an existing empty directory.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
            lanes: HashMap::new(),
            numbers: HashSet::new(),
            next_own: FIRST_OWN,
            bytes: 0,
            start: None,
            too_deep: 0,
        }
    }

    /// Adds a step of the function graph.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn step(&mut self, catalog: &Catalog, step: &Step) -> Result<(), ExportError> {
        match step {
            Step::Enter(entry) => {
                self.start.get_or_insert(entry.time);
                let calls = self.calls(catalog, entry.task, entry.cpu, entry.time);
                let before = calls.records.len();
                calls.release(Some(entry.time));
                let depth = calls.nest.depth();
                let time = calls.nest.at(entry.time);
                calls.nest.enter();
                calls.record(time, Kind::Entry, depth, Some(entry.function));
                self.bytes += calls.records.len() - before;
                self.too_deep += u64::from(depth > DEEPEST);
            }
            Step::Leave(slice) => match slice.matched {
                Match::Paired | Match::Skipped | Match::Lost => {
                    let calls = self.calls(catalog, slice.task, slice.cpu, 0);
                    let before = calls.records.len();
                    calls.leave(slice.into());
                    self.bytes += calls.records.len() - before;
                }
                Match::TooDeep => {
                    let calls = self.calls(catalog, slice.task, slice.cpu, 0);
                    calls.nest.abandon();
                }
                Match::NoEntry | Match::Open => {}
            },
            Step::Event(_) => {}
        }
        if self.bytes >= BUFFER {
            self.drain()?;
        }
        Ok(())
    }

    /// Writes the rest. Returns the number of calls that were too deep for the format.
    ///
    /// `program` is the name of the kernel or program.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn finish(mut self, catalog: &Catalog, program: &str) -> Result<u64, ExportError> {
        for calls in self.lanes.values_mut() {
            calls.release(None);
        }
        self.drain()?;
        // A path in the map ends at a space.
        let is_kept = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let program: String = program.chars().filter(|c| is_kept(*c)).collect();
        let program = match program.trim_matches('.') {
            "" => "trace",
            program => program,
        };
        let mut tasks: Vec<_> = self.lanes.values().collect();
        tasks.sort_by_key(|calls| calls.number);
        self.write_info(program, &tasks)?;
        self.write_tasks(program, &tasks)?;
        self.write_symbols(program, catalog)?;
        Ok(self.too_deep)
    }

    fn calls(&mut self, catalog: &Catalog, task: Task, cpu: u32, start: u64) -> &mut Calls {
        let lane = Lane::of(catalog, task, cpu);
        let (numbers, next_own) = (&mut self.numbers, &mut self.next_own);
        self.lanes.entry(lane).or_insert_with(|| {
            let id = i32::try_from(catalog.task_name(task).id);
            let id = id.ok().filter(|id| *id > 0 && numbers.insert(*id));
            let number = id.unwrap_or_else(|| {
                while !numbers.insert(*next_own) {
                    *next_own += 1;
                }
                *next_own
            });
            Calls {
                number,
                nest: Nest::default(),
                functions: Vec::new(),
                records: Vec::new(),
                start,
            }
        })
    }

    /// Appends the records in memory to their files. Only one file is open at a time.
    fn drain(&mut self) -> io::Result<()> {
        for calls in self.lanes.values_mut() {
            if !calls.records.is_empty() {
                let path = self.folder.join(format!("{}.dat", calls.number));
                let mut file = OpenOptions::new().create(true).append(true).open(path)?;
                file.write_all(&calls.records)?;
                calls.records.clear();
            }
        }
        self.bytes = 0;
        Ok(())
    }

    fn create(&self, name: &str) -> io::Result<BufWriter<File>> {
        Ok(BufWriter::new(File::create_new(self.folder.join(name))?))
    }

    fn write_info(&self, program: &str, tasks: &[&Calls]) -> io::Result<()> {
        // Features: tasks and sessions, addresses relative to the mapping, deepest call.
        const FEATURES: u64 = 1 << 1 | 1 << 5 | 1 << 6;
        // Lines: program's name, command line, tasks.
        const LINES: u64 = 1 | 1 << 3 | 1 << 7;
        let mut info = self.create("info")?;
        info.write_all(b"Ftrace!\0")?;
        info.write_all(&4_u32.to_le_bytes())?; // version
        info.write_all(&40_u16.to_le_bytes())?; // length of this header
        info.write_all(&[1, 2])?; // little endian, 64 bits
        info.write_all(&FEATURES.to_le_bytes())?;
        info.write_all(&LINES.to_le_bytes())?;
        info.write_all(&(DEEPEST as u16 + 1).to_le_bytes())?;
        info.write_all(&[0; 6])?;
        writeln!(info, "exename:/{program}")?;
        writeln!(info, "cmdline:nostall trace convert")?;
        writeln!(info, "taskinfo:lines=2")?;
        writeln!(info, "taskinfo:nr_tid={}", tasks.len())?;
        let numbers: Vec<_> = tasks.iter().map(|task| task.number.to_string()).collect();
        writeln!(info, "taskinfo:tids={}", numbers.join(","))?;
        info.flush()
    }

    fn write_tasks(&self, program: &str, tasks: &[&Calls]) -> io::Result<()> {
        let mut file = self.create("task.txt")?;
        let pid = tasks.first().map_or(1, |task| task.number);
        let start = stamp(self.start.unwrap_or(0));
        writeln!(
            file,
            "SESS timestamp={start} pid={pid} sid={SESSION} exename=\"/{program}\""
        )?;
        for task in tasks {
            let start = stamp(task.start);
            let number = task.number;
            writeln!(file, "TASK timestamp={start} tid={number} pid={pid}")?;
        }
        file.flush()
    }

    fn write_symbols(&self, program: &str, catalog: &Catalog) -> io::Result<()> {
        let names = catalog.names() as u64;
        let end = (BASE + (names + 1) * SPACING).next_multiple_of(0x1000);
        let mut map = self.create(&format!("sid-{SESSION}.map"))?;
        writeln!(map, "{BASE:x}-{end:x} r-xp 00000000 00:00 0 /{program}")?;
        // Without a stack mapping, uftrace would treat all addresses as the kernel's.
        writeln!(
            map,
            "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]"
        )?;
        map.flush()?;

        let mut symbols = self.create(&format!("{program}.sym"))?;
        writeln!(symbols, "# symbols: {names}")?;
        writeln!(symbols, "# path name: /{program}")?;
        for number in 0..catalog.names() as u32 {
            let address = u64::from(number) * SPACING;
            let name = match catalog.text(Name(number)) {
                "" => "[unnamed]".into(),
                name => plain(name),
            };
            writeln!(symbols, "{address:016x} T {name}")?;
        }
        writeln!(symbols, "{:016x} ? __sym_end", names * SPACING)?;
        symbols.flush()?;
        self.create("default.opts")?.flush()
    }
}

impl Calls {
    fn record(&mut self, time: u64, kind: Kind, depth: u32, function: Option<Name>) {
        const MAGIC: u64 = 5 << 3;
        if depth > DEEPEST {
            return;
        }
        let index = depth as usize;
        if let Some(function) = function {
            self.functions.truncate(index);
            self.functions.push(function);
        }
        let address = BASE + u64::from(self.functions[index].0) * SPACING;
        let word = kind as u64 | MAGIC | u64::from(depth) << 6 | address << 16;
        self.records.extend(time.to_le_bytes());
        self.records.extend(word.to_le_bytes());
    }

    fn leave(&mut self, leave: Leave) {
        let mut nest = std::mem::take(&mut self.nest);
        let Ok(()) = nest.leave(leave, |ended| self.ended(&ended));
        self.nest = nest;
    }

    fn release(&mut self, next: Option<u64>) {
        let mut nest = std::mem::take(&mut self.nest);
        let Ok(()) = nest.release(next, |ended| self.ended(&ended));
        self.nest = nest;
    }

    fn ended(&mut self, ended: &Ended) -> Result<(), Infallible> {
        self.record(ended.time, Kind::Exit, ended.depth, None);
        Ok(())
    }
}

fn stamp(time: u64) -> String {
    format!("{}.{:09}", time / 1_000_000_000, time % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::export::random;
    use crate::graph;
    use crate::model::{Event, EventKind, Events, Source, TimeUnit};

    /// Writes the trace. Returns each file's records, and the number of calls left out.
    fn export(source: &mut Events) -> (Vec<Vec<[u64; 2]>>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let mut uftrace = Uftrace::new(folder.path());
        graph::walk(source, |catalog, step| uftrace.step(catalog, &step)).unwrap();
        let left_out = uftrace.finish(source.catalog(), "p").unwrap();
        let files = std::fs::read_dir(folder.path()).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        let paths = paths.filter(|path| path.extension().is_some_and(|end| end == "dat"));
        let read = |path| {
            let bytes = std::fs::read(path).unwrap();
            let (words, rest) = bytes.as_chunks::<8>();
            assert_eq!(rest, []);
            let words: Vec<_> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
            words.as_chunks().0.to_vec()
        };
        (paths.map(read).collect(), left_out)
    }

    proptest! {
        #[test]
        fn each_entry_is_a_record_and_each_exit_belongs_to_the_innermost_entry(
            trace in random::trace(),
        ) {
            let (mut entries, mut exits) = (0, 0);
            graph::walk(&mut trace.clone(), |_, step| {
                match step {
                    Step::Enter(_) => entries += 1,
                    Step::Leave(slice) => exits += usize::from(matches!(
                        slice.matched,
                        Match::Paired | Match::Skipped | Match::Lost
                    )),
                    Step::Event(_) => {}
                }
                Ok::<_, ExportError>(())
            })
            .unwrap();
            let (files, left_out) = export(&mut trace.clone());
            prop_assert_eq!(left_out, 0);
            for file in files {
                let mut stack = Vec::new();
                let mut last = 0;
                for [time, word] in file {
                    prop_assert!(last <= time);
                    last = time;
                    let (kind, magic) = (word & 3, word >> 3 & 7);
                    let (depth, address) = (word >> 6 & 0x3ff, word >> 16);
                    prop_assert_eq!(magic, 5);
                    if kind == Kind::Entry as u64 {
                        prop_assert_eq!(depth, stack.len() as u64);
                        stack.push(address);
                        entries -= 1;
                    } else {
                        prop_assert_eq!(stack.pop(), Some(address));
                        prop_assert_eq!(depth, stack.len() as u64);
                        exits -= 1;
                    }
                }
            }
            prop_assert_eq!((entries, exits), (0, 0));
        }
    }

    #[test]
    fn calls_that_are_too_deep_for_a_record_are_omitted_and_counted() {
        let mut catalog = Catalog::default();
        let function = catalog.name("a");
        let enter = EventKind::Enter {
            function,
            depth: None,
            argument: None,
        };
        let exit = EventKind::Exit {
            function: None,
            depth: None,
            duration: None,
        };
        let kinds = [enter; 1_030].into_iter().chain([exit; 1_030]);
        let events = (0..).zip(kinds).map(|(time, kind)| Event {
            time,
            cpu: 0,
            task: Task::NONE,
            kind,
        });
        let events = events.collect();
        let mut trace = Events::new(catalog, events, TimeUnit::Nanoseconds, Vec::new());
        let (files, left_out) = export(&mut trace);
        assert_eq!(left_out, 6);
        assert_eq!(files[0].len(), 2 * 1_024);
    }

    #[test]
    fn tasks_with_numbers_that_uftrace_does_not_support_get_others() {
        let mut catalog = Catalog::default();
        let function = catalog.name("a");
        let ids = [
            (5, "a"),
            (5, "b"),
            (-1, ""),
            (i64::MAX, ""),
            (1 << 30, ""),
            (0, ""),
        ];
        let enter = EventKind::Enter {
            function,
            depth: None,
            argument: None,
        };
        let events = ids.map(|(id, name)| Event {
            time: 1,
            cpu: 0,
            task: catalog.task(id, name),
            kind: enter,
        });
        let mut trace = Events::new(catalog, events.into(), TimeUnit::Nanoseconds, Vec::new());
        assert_eq!(export(&mut trace).0.len(), ids.len());
    }
}

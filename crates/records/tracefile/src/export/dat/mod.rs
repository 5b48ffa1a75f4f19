//! trace.dat, the file of trace-cmd, version 6.
//!
//! Calls become Linux's `funcgraph_entry` and `funcgraph_exit` records. Stalls, counters and other
//! events become `print` records. Lost records become lost events of their CPU. Functions have
//! invented addresses, which the file's symbols name.

mod file;
mod pages;

pub use file::{Description, Recording};

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Write};

use self::pages::{HEADER, PAGE, Pages};
use super::ExportError;
use crate::graph::{self, Slice, Step};
use crate::model::{Catalog, Event, EventKind, Name, Source, Task, TimeUnit};

/// Linux's event numbers.
const FUNCTION: u16 = 1;
const PRINT: u16 = 5;
const EXIT: u16 = 10;
const ENTRY: u16 = 11;

/// Invented address of the first function.
const FIRST: u64 = 0xffff_ffff_8000_0000;
/// Distance between functions in bytes.
const STEP: u64 = 16;
/// Address of the function that writes `print` records.
const PRINTER: u64 = FIRST - STEP;

/// Maximum number of CPUs, as in nostall's reader.
const MOST_CPUS: u32 = 4096;
/// Length limit for a text, so that it fits into a page.
const LONGEST_TEXT: usize = 3800;
/// First invented task identifier.
const FIRST_TASK: i64 = 1 << 30;

/// Writes the whole trace.
///
/// The pages are in a temporary file until the names are known. A call without an exit stays open,
/// and an exit without an entry stays alone. An exit with an unknown duration becomes a `print`
/// record.
///
/// # Errors
///
/// [`ExportError`] of the source, of the temporary file or of `out`, or for a CPU number of 4,096
/// or more. `out` is then incomplete.
pub fn write(source: &mut (impl Source + ?Sized), mut out: impl Write) -> Result<(), ExportError> {
    let mut writer = Writer {
        pages: Pages::new()?,
        tasks: HashMap::new(),
        used: HashSet::from([0]),
        functions: BTreeSet::new(),
        payload: Vec::new(),
    };
    graph::walk(source, |catalog, step| {
        writer.step(catalog, step).map_err(ExportError::from)
    })?;
    writer.finish(source.catalog(), source.unit(), &mut out)?;
    Ok(())
}

struct Writer {
    pages: Pages,
    /// Identifiers of tasks.
    tasks: HashMap<Task, i32>,
    used: HashSet<i32>,
    /// Names that are used as functions.
    functions: BTreeSet<Name>,
    payload: Vec<u8>,
}

impl Writer {
    fn step(&mut self, catalog: &Catalog, step: Step) -> io::Result<()> {
        match step {
            Step::Enter(entry) => {
                let task = self.task(catalog, entry.task);
                let function = self.address(entry.function);
                self.begin(ENTRY, task).long(function).int(entry.depth);
                self.end(entry.cpu, entry.time)
            }
            Step::Leave(slice) => self.leave(catalog, &slice),
            Step::Event(event) => self.event(catalog, &event),
        }
    }

    fn leave(&mut self, catalog: &Catalog, slice: &Slice) -> io::Result<()> {
        let Some(end) = slice.end else {
            return Ok(());
        };
        let task = self.task(catalog, slice.task);
        let Some(duration) = slice.duration else {
            let name = slice
                .function
                .map_or("a function", |name| catalog.text(name));
            let text = format!("exit of {name}: its duration is unknown");
            return self.print(slice.last_cpu, end, task, &text);
        };
        // Only the difference matters, and a call may have started before the clock did.
        let (call, ret) = match end.checked_sub(duration) {
            Some(call) => (call, end),
            None => (0, duration),
        };
        let function = slice.function.map_or(0, |name| self.address(name));
        self.begin(EXIT, task)
            .long(function)
            .int(slice.depth)
            .int(0)
            .long(call)
            .long(ret);
        self.end(slice.last_cpu, end)
    }

    fn event(&mut self, catalog: &Catalog, event: &Event) -> io::Result<()> {
        let Event {
            time,
            cpu,
            task,
            kind,
        } = *event;
        let task = self.task(catalog, task);
        let text = match kind {
            EventKind::Call { function, caller } => {
                let function = self.address(function);
                let caller = caller.map_or(0, |name| self.address(name));
                self.begin(FUNCTION, task).long(function).long(caller);
                return self.end(cpu, time);
            }
            EventKind::Lost { records } => return self.pages.lost(known_cpu(cpu)?, time, records),
            EventKind::Stall {
                condition,
                place,
                duration,
            } => {
                let condition = catalog.text(condition);
                match place {
                    Some(place) => {
                        let place = catalog.text(place);
                        format!("stall: {condition} in {place}: {duration}")
                    }
                    None => format!("stall: {condition}: {duration}"),
                }
            }
            EventKind::Counter { counter, value } => {
                format!("counter: {}: {value}", catalog.text(counter))
            }
            EventKind::Mark { text } => catalog.text(text).to_owned(),
            EventKind::Enter { .. } | EventKind::Exit { .. } => return Ok(()),
        };
        self.print(cpu, time, task, &text)
    }

    fn print(&mut self, cpu: u32, time: u64, task: i32, text: &str) -> io::Result<()> {
        let len = (0..=LONGEST_TEXT.min(text.len()))
            .rev()
            .find(|len| text.is_char_boundary(*len));
        let text = text[..len.unwrap_or(0)].replace('\0', " ");
        self.begin(PRINT, task).long(PRINTER);
        self.payload.extend(text.as_bytes());
        self.payload.push(0);
        self.end(cpu, time)
    }

    /// Starts a record with the common fields.
    fn begin(&mut self, id: u16, task: i32) -> Payload<'_> {
        self.payload.clear();
        self.payload.extend(id.to_le_bytes());
        // Flags and preemption count.
        self.payload.extend([0; 2]);
        self.payload.extend(task.to_le_bytes());
        Payload(&mut self.payload)
    }

    fn end(&mut self, cpu: u32, time: u64) -> io::Result<()> {
        let len = self.payload.len().next_multiple_of(4);
        self.payload.resize(len, 0);
        self.pages.record(known_cpu(cpu)?, time, &self.payload)
    }

    /// Returns the invented address of a function.
    fn address(&mut self, name: Name) -> u64 {
        self.functions.insert(name);
        address(name)
    }

    /// Returns a task's identifier in the file: its own if it is free and positive, otherwise an
    /// invented one. Idle tasks have 0.
    fn task(&mut self, catalog: &Catalog, task: Task) -> i32 {
        if let Some(known) = self.tasks.get(&task) {
            return *known;
        }
        let id = catalog.task_name(task).id;
        let made_up = FIRST_TASK + i64::from(task.0);
        let id = if id == 0 {
            0
        } else {
            let ids = [id, made_up].into_iter();
            let mut ids = ids.filter_map(|id| i32::try_from(id).ok().filter(|id| *id > 0));
            ids.find(|id| self.used.insert(*id)).unwrap_or(i32::MAX)
        };
        self.tasks.insert(task, id);
        id
    }

    fn finish(mut self, catalog: &Catalog, unit: TimeUnit, out: &mut impl Write) -> io::Result<()> {
        for (cpu, time) in self.pages.lost_at_the_end() {
            self.print(cpu, time, 0, "records are missing")?;
        }
        let symbols = symbols(&self.functions, catalog);
        let commands = names(&self.tasks, catalog);
        let description = Description {
            header_page: header_page().into_bytes(),
            header_event: HEADER_EVENT.into(),
            ftrace: formats().into_iter().map(String::into_bytes).collect(),
            systems: Vec::new(),
            symbols: symbols.into_bytes(),
            commands: commands.into_bytes(),
            clock: clock(unit).into(),
        };
        description.write(self.pages.finish()?, out)
    }
}

/// Fields of a record after the common ones.
struct Payload<'a>(&'a mut Vec<u8>);

impl Payload<'_> {
    fn int(self, number: u32) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn long(self, number: u64) -> Self {
        self.0.extend(number.to_le_bytes());
        self
    }
}

fn address(name: Name) -> u64 {
    FIRST + u64::from(name.0) * STEP
}

fn known_cpu(cpu: u32) -> io::Result<u32> {
    if cpu < MOST_CPUS {
        return Ok(cpu);
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("CPU {cpu} is too high for trace.dat: at most {MOST_CPUS} CPUs"),
    ))
}

/// Returns the list of clocks, with the trace's in brackets.
fn clock(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Nanoseconds => "[local] global counter",
        TimeUnit::Ticks => "local global [counter]",
    }
}

fn header_page() -> String {
    let data = PAGE - HEADER;
    let fields = [
        ("u64 timestamp", 0, 8, 0),
        ("local_t commit", 8, 8, 1),
        ("int overwrite", 8, 1, 1),
        ("char data", HEADER, data, 1),
    ];
    let lines = fields.map(|(name, offset, size, signed)| {
        format!("\tfield: {name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
    });
    lines.concat()
}

/// Format of a record's first word.
const HEADER_EVENT: &str = "\
# compressed entry header
\ttype_len    :    5 bits
\ttime_delta  :   27 bits
\tarray       :   32 bits

\tpadding     : type == 29
\ttime_extend : type == 30
\ttime_stamp : type == 31
\tdata max type_len  == 28
";

/// Returns the format files of the events.
fn formats() -> Vec<String> {
    let format = |name: &str, id: u16, fields: &[(&str, usize, usize)], print: &str| {
        let common = [
            ("unsigned short common_type", 0, 2),
            ("unsigned char common_flags", 2, 1),
            ("unsigned char common_preempt_count", 3, 1),
            ("int common_pid", 4, 4),
        ];
        let line = |(name, offset, size): &(&str, usize, usize)| {
            let signed = u8::from(name.starts_with("int "));
            format!("\tfield:{name};\toffset:{offset};\tsize:{size};\tsigned:{signed};\n")
        };
        let common: String = common.iter().map(line).collect();
        let fields: String = fields.iter().map(line).collect();
        format!("name: {name}\nID: {id}\nformat:\n{common}\n{fields}\nprint fmt: {print}\n")
    };
    vec![
        format(
            "function",
            FUNCTION,
            &[
                ("unsigned long ip", 8, 8),
                ("unsigned long parent_ip", 16, 8),
            ],
            "\" %ps <-- %ps\", (void *)REC->ip, (void *)REC->parent_ip",
        ),
        format(
            "funcgraph_entry",
            ENTRY,
            &[("unsigned long func", 8, 8), ("int depth", 16, 4)],
            "\"--> %ps (%d)\", (void *)REC->func, REC->depth",
        ),
        format(
            "funcgraph_exit",
            EXIT,
            &[
                ("unsigned long func", 8, 8),
                ("int depth", 16, 4),
                ("unsigned int overrun", 20, 4),
                ("unsigned long long calltime", 24, 8),
                ("unsigned long long rettime", 32, 8),
            ],
            "\"<-- %ps (%d) (start: %llx  end: %llx) over: %d\", (void *)REC->func, REC->depth, \
             REC->calltime, REC->rettime, REC->depth",
        ),
        format(
            "print",
            PRINT,
            &[("unsigned long ip", 8, 8), ("char buf[]", 16, 0)],
            "\"%ps: %s\", (void *)REC->ip, REC->buf",
        ),
    ]
}

/// Returns the functions in the format of kallsyms. Spaces in names are replaced, because they end
/// a name.
fn symbols(functions: &BTreeSet<Name>, catalog: &Catalog) -> String {
    let mut symbols = format!("{PRINTER:016x} T tracing_mark_write\n");
    for name in functions {
        let text = catalog.text(*name);
        let text: String = text
            .chars()
            .take(LONGEST_TEXT)
            .map(|c| {
                if c.is_whitespace() || c.is_control() {
                    '_'
                } else {
                    c
                }
            })
            .collect();
        // A leading dollar sign would mark an ARM mapping symbol.
        let before = if text.is_empty() || text.starts_with('$') {
            "_"
        } else {
            ""
        };
        symbols += &format!("{:016x} T {before}{text}\n", address(*name));
    }
    symbols
}

/// Returns the tasks in the format of saved_cmdlines.
fn names(tasks: &HashMap<Task, i32>, catalog: &Catalog) -> String {
    let mut tasks: Vec<_> = tasks.iter().filter(|(_, id)| **id != 0).collect();
    tasks.sort();
    let lines = tasks.iter().map(|(task, id)| {
        let name = catalog.task_name(**task).name.replace(['\n', '\0'], " ");
        let name = if name.is_empty() { "<...>" } else { &name };
        format!("{id} {name}\n")
    });
    lines.collect()
}

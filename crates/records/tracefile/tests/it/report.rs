//! Every report on one trace, as text and as JSON, and on hostile traces.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use nostall_tracefile::graph::{Step, walk};
use nostall_tracefile::model::{
    Catalog, Event, EventKind, Events, Name, ReadError, Source, Task, TimeUnit,
};
use nostall_tracefile::report::{
    Diff, Graph, GraphLine, Histogram, Interval, Look, Rate, Selection, Sort, StallRow, Stalls,
    Table, TableRow,
};

/// Builder of a trace, event by event.
#[derive(Default)]
struct Writer {
    catalog: Catalog,
    events: Vec<Event>,
    cpu: u32,
    task: Option<Task>,
}

impl Writer {
    fn event(&mut self, time: u64, kind: EventKind) {
        self.events.push(Event {
            time,
            cpu: self.cpu,
            task: self.task.unwrap_or(Task::NONE),
            kind,
        });
    }

    fn enter(&mut self, time: u64, name: &str, argument: Option<u64>) {
        let function = self.catalog.name(name);
        let depth = None;
        self.event(
            time,
            EventKind::Enter {
                function,
                depth,
                argument,
            },
        );
    }

    fn exit(&mut self, time: u64, name: &str) {
        let function = Some(self.catalog.name(name));
        self.event(
            time,
            EventKind::Exit {
                function,
                depth: None,
                duration: None,
            },
        );
    }

    fn call(&mut self, time: u64, duration: u64, name: &str) {
        self.enter(time, name, None);
        self.exit(time + duration, name);
    }

    fn source(self) -> Events {
        let notes = Vec::new();
        Events::new(self.catalog, self.events, TimeUnit::Nanoseconds, notes)
    }
}

/// Returns two console writes on two CPUs, a stall, a counter, a mark, lost records, and cut calls.
fn trace() -> Events {
    let mut w = Writer::default();
    w.exit(500, "cut_at_the_start");
    w.enter(1_000, "console_write", Some(16));
    w.call(1_200, 384, "lock");
    w.enter(2_000, "wait_for_xmitr", None);
    w.cpu = 1;
    w.call(2_100, 12_787, "io_serial_in");
    w.cpu = 0;
    w.call(20_000, 1_635, "io_serial_in");
    let condition = w.catalog.name("THR empty");
    let place = Some(w.catalog.name("wait_for_xmitr"));
    w.event(
        400_000,
        EventKind::Stall {
            condition,
            place,
            duration: 370_000,
        },
    );
    w.exit(402_000, "wait_for_xmitr");
    w.exit(412_342, "console_write");
    let counter = w.catalog.name("bytes");
    for (time, value) in [(412_400, 16), (1_500_000_000, 64)] {
        w.event(time, EventKind::Counter { counter, value });
    }
    let text = w.catalog.name("printk: \x1b[2Jhello\nworld");
    w.event(1_500_000_001, EventKind::Mark { text });
    w.cpu = 1;
    w.enter(2_000_000_000, "console_write", Some(32));
    w.event(2_100_000_000, EventKind::Lost { records: 3 });
    w.exit(3_200_000_000, "console_write");
    let (function, caller) = (w.catalog.name("schedule"), Some(w.catalog.name("idle")));
    w.event(3_200_000_100, EventKind::Call { function, caller });
    w.enter(3_200_000_200, "cut_at_the_end", None);
    w.source()
}

fn safe(text: &str) -> Cow<'_, str> {
    text.replace('\x1b', "\\x1b").into()
}

const PLAIN: Look = Look {
    width: None,
    has_colour: false,
    escape: safe,
    unit: TimeUnit::Nanoseconds,
};

fn text(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn steps(source: &mut Events, mut push: impl FnMut(&Step, &Catalog)) {
    let ended = walk(source, |catalog, step| {
        push(&step, catalog);
        Ok::<_, ReadError>(())
    });
    ended.unwrap();
}

fn table(source: &mut Events, selection: Selection) -> Table {
    let mut table = Table::new(selection);
    steps(source, |step, catalog| table.push(step, catalog));
    table
}

fn graph(selection: Selection, limit: Option<u64>, has_time: bool, look: Look) -> String {
    let mut source = trace();
    text(|out| {
        let mut graph = Graph::new(selection, limit, has_time, look, out);
        graph.heading(source.catalog())?;
        steps(&mut source, |step, catalog| {
            graph.push(step, catalog).unwrap();
        });
        graph.finish(source.catalog())
    })
}

fn named(patterns: &[&str]) -> Selection {
    let owned = patterns.iter().map(|pattern| (*pattern).to_owned());
    Selection::new(owned.collect(), Vec::new())
}

/// Compares `found` with a file of `tests/snapshots`. With `NOSTALL_BLESS` it writes the file
/// instead.
fn assert_snapshot(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots");
    let path = path.join(name);
    if std::env::var_os("NOSTALL_BLESS").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(
        found == expected,
        "found:
{found}
expected:
{expected}"
    );
}

#[test]
fn a_graph_has_linuxs_form_marks_leaves_and_unmatched_calls() {
    assert_snapshot(
        "graph.txt",
        &graph(Selection::default(), None, false, PLAIN),
    );
}

#[test]
fn a_graph_of_one_function_has_its_callees_and_nothing_else() {
    assert_snapshot(
        "graph-of-one.txt",
        &graph(named(&["wait_*"]), None, false, PLAIN),
    );
}

#[test]
fn a_graph_on_a_narrow_terminal_has_cut_lines_times_and_a_limit() {
    let look = Look {
        width: Some(50),
        has_colour: true,
        ..PLAIN
    };
    assert_snapshot(
        "graph-narrow.txt",
        &graph(Selection::default(), Some(9), true, look),
    );
}

#[test]
fn a_table_has_calls_times_and_quantiles_of_each_function() {
    let mut source = trace();
    let table = table(&mut source, Selection::default());
    let rows = table.rows(source.catalog(), Sort::Total);
    let found = text(|out| TableRow::write(&rows, &PLAIN, out));
    assert_snapshot("table.txt", &found);
    let rows = serde_json::to_string_pretty(&rows[..2]).unwrap();
    assert_snapshot("table.json", &rows);
}

#[test]
fn a_table_is_sorted_and_filtered() {
    let mut source = trace();
    let table = table(&mut source, Selection::new(vec!["*o*".into()], vec![0]));
    let names = |sort| {
        let rows = table.rows(source.catalog(), sort);
        rows.into_iter().map(|row| row.function).collect::<Vec<_>>()
    };
    let by_name = ["console_write", "io_serial_in", "lock", "wait_for_xmitr"];
    assert_eq!(names(Sort::Name), by_name);
    let by_own = ["wait_for_xmitr", "console_write", "io_serial_in", "lock"];
    assert_eq!(names(Sort::Own), by_own);
}

#[test]
fn a_histogram_has_powers_of_two_with_bars() {
    let mut source = trace();
    let table = table(&mut source, named(&["io_serial_in"]));
    let histograms = Histogram::of(&table, source.catalog());
    assert_eq!(histograms.len(), 1);
    let found = text(|out| histograms[0].write(&PLAIN, out));
    assert_snapshot("histogram.txt", &found);
}

#[test]
fn a_rate_has_calls_bytes_and_throughput_in_calls() {
    let mut source = trace();
    let mut rate = Rate::new(named(&["console_write"]), 1_000_000_000);
    let mut intervals = Vec::new();
    steps(&mut source, |step, catalog| {
        intervals.extend(rate.push(step, catalog));
    });
    intervals.extend(rate.finish(source.catalog()));
    let found = text(|out| {
        Interval::heading(&PLAIN, out)?;
        let mut all = intervals.iter();
        all.try_for_each(|interval| interval.write((500, 1e9), &PLAIN, out))
    });
    assert_snapshot("rate.txt", &found);
}

#[test]
fn stalls_are_summed_by_condition_and_place() {
    let mut source = trace();
    let mut stalls = Stalls::new(Selection::default());
    steps(&mut source, |step, catalog| stalls.push(step, catalog));
    let rows = stalls.rows(source.catalog());
    assert_snapshot(
        "stalls.txt",
        &text(|out| StallRow::write(&rows, &PLAIN, out)),
    );
}

#[test]
fn a_diff_has_both_sides_and_the_greatest_change_first() {
    let mut before = trace();
    let before_table = table(&mut before, Selection::default());
    let mut w = Writer::default();
    w.call(10, 3_270, "io_serial_in");
    w.call(5_000, 384, "lock");
    w.call(6_000, 100, "new_function");
    let mut after = w.source();
    let after_table = table(&mut after, Selection::default());
    let diff = Diff::new(
        before_table.rows(before.catalog(), Sort::Total),
        after_table.rows(after.catalog(), Sort::Total),
    );
    assert_snapshot("diff.txt", &text(|out| diff.write(&PLAIN, out)));
}

#[test]
fn a_call_is_one_line_of_json() {
    let mut source = trace();
    let mut lines = Vec::new();
    steps(&mut source, |step, catalog| {
        if let Step::Leave(slice) = step {
            lines.push(
                serde_json::to_string(&GraphLine::new(slice, catalog, TimeUnit::Nanoseconds))
                    .unwrap(),
            );
        }
    });
    assert_snapshot("graph.json", &(lines.join("\n") + "\n"));
}

/// Events of all kinds with extreme numbers.
struct Hostile {
    catalog: Catalog,
    left: u64,
}

impl Source for Hostile {
    fn next_event(&mut self) -> Result<Option<Event>, ReadError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let n = self.left.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let name = Name((n >> 8) as u32);
        let extreme = [0, 1, u64::MAX, n][(n >> 40) as usize % 4];
        let kind = match n % 11 {
            0..3 => EventKind::Exit {
                function: (n & 16 == 0).then_some(name),
                depth: (n & 32 == 0).then_some(extreme as u32),
                duration: (n & 64 == 0).then_some(extreme),
            },
            3..6 => EventKind::Enter {
                function: name,
                depth: (n & 32 == 0).then_some(extreme as u32),
                argument: Some(extreme),
            },
            6 => EventKind::Call {
                function: name,
                caller: Some(name),
            },
            7 => EventKind::Stall {
                condition: name,
                place: Some(name),
                duration: extreme,
            },
            8 => EventKind::Counter {
                counter: name,
                value: extreme as i64,
            },
            9 => EventKind::Mark { text: name },
            _ => EventKind::Lost { records: extreme },
        };
        Ok(Some(Event {
            time: extreme,
            cpu: (n >> 20) as u32,
            task: Task((n >> 50) as u32),
            kind,
        }))
    }
    fn catalog(&self) -> &Catalog {
        &self.catalog
    }
    fn progress(&self) -> nostall_tracefile::model::Progress {
        Default::default()
    }
}

#[test]
fn hostile_events_pass_through_every_report() {
    let mut source = Hostile {
        catalog: Catalog::default(),
        left: 300_000,
    };
    let mut table = Table::new(Selection::default());
    let mut stalls = Stalls::new(Selection::default());
    let mut rate = Rate::new(Selection::default(), 1);
    let mut sink = io::sink();
    let mut graph = Graph::new(Selection::default(), None, true, PLAIN, &mut sink);
    let mut leaves = 0;
    let ended = walk(&mut source, |catalog, step| {
        leaves += u64::from(matches!(step, Step::Leave(_)));
        table.push(&step, catalog);
        stalls.push(&step, catalog);
        if let Some(interval) = rate.push(&step, catalog) {
            interval.write((0, 1e9), &PLAIN, &mut io::sink()).unwrap();
        }
        graph.push(&step, catalog).unwrap();
        Ok::<_, ReadError>(())
    });
    ended.unwrap();
    graph.finish(&source.catalog).unwrap();
    let rows = table.rows(&source.catalog, Sort::P99);
    let calls: u64 = rows.iter().map(|row| row.calls).sum();
    assert!(calls >= leaves, "{calls} of {leaves}");
    assert!(rows.len() <= (1 << 17) + 2);
    TableRow::write(&rows, &PLAIN, &mut io::sink()).unwrap();
    for histogram in Histogram::of(&table, &source.catalog) {
        histogram.write(&PLAIN, &mut io::sink()).unwrap();
    }
    assert!(stalls.rows(&source.catalog).len() <= (1 << 16) + 1);
}

#[test]
fn the_total_of_a_recursive_function_is_that_of_its_outermost_calls() {
    for (depth, around) in [(3, 0), (100, 0), (100, 90), (70_000, 0)] {
        let mut w = Writer::default();
        let mut time = 0;
        for _ in 0..around {
            w.enter(time, "around", None);
        }
        for _ in 0..depth {
            time += 10;
            w.enter(time, "walk", None);
        }
        let start = 10;
        for _ in 0..depth {
            time += 1;
            w.exit(time, "walk");
        }
        let mut source = w.source();
        let table = table(&mut source, Selection::default());
        let rows = table.rows(source.catalog(), Sort::Total);
        let row = rows.iter().find(|row| row.function == "walk").unwrap();
        if depth < 65_536 {
            assert_eq!(
                (row.calls, row.timed, row.total),
                (depth, depth, time - start)
            );
        } else {
            // The outermost calls are dropped, and the total is that of the outermost known one.
            assert!(row.total < 2 * (time - start), "{row:?}");
        }
    }
}

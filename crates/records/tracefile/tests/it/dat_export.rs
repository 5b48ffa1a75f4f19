//! trace.dat files that nostall writes, read with nostall and with trace-cmd.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::process::Command;

use nostall_tracefile::export::dat;
use nostall_tracefile::graph::{self, Match, Step};
use nostall_tracefile::model::{
    Catalog, Event, EventKind, Events, Name, ReadError, Source, Task, TimeUnit,
};
use nostall_tracefile::read::{open_dat, open_text};

/// Reproducible pseudo-random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// Returns a trace of some thousand events on three CPUs. It has nested calls of five tasks that
/// migrate between CPUs, long gaps, marks, lost records, exits without entries and entries without
/// exits.
fn trace(seed: u64, most_lost: u64) -> Events {
    let mut random = Random(seed);
    let mut catalog = Catalog::default();
    let functions: Vec<Name> = (0..30)
        .map(|number| match number {
            0 => catalog.name("<alloc::vec::Vec<T> as core::ops::Drop>::drop"),
            1 => catalog.name("core::ops::FnOnce::call_once{{closure}}"),
            number => catalog.name(&format!("function_{number}")),
        })
        .collect();
    let mark = catalog.name("a mark: with | bars");
    let mut tasks = vec![Task::NONE];
    tasks.extend([
        catalog.task(7, "sh"),
        catalog.task(1 << 40, "huge number"),
        catalog.task(9, "kworker/0:1-ev"),
        catalog.task(9, "same number"),
    ]);
    let mut stacks = vec![Vec::<(Name, u64)>::new(); tasks.len()];
    let mut running = [0, 1, 2];
    let mut is_lost = [false; 3];
    let mut time = 1_000_000_000;
    let mut events = Vec::new();
    for _ in 0..4_000 {
        time += match random.below(200) {
            0 => 1 << 28,
            _ => 1 + random.below(5_000),
        };
        let cpu = random.below(3) as usize;
        let at = running[cpu];
        let stack = &mut stacks[at];
        let depth = stack.len() as u32;
        let function = functions[random.below(30) as usize];
        let kind = match random.below(100) {
            0 => EventKind::Mark { text: mark },
            1 => EventKind::Call {
                function,
                caller: Some(functions[2]),
            },
            2 if most_lost > 0 && !is_lost[cpu] => EventKind::Lost {
                records: random.below(most_lost),
            },
            // The idle task stays on its CPU.
            3..10 if at != 0 => {
                let free: Vec<_> = (1..tasks.len())
                    .filter(|at| !running.contains(at))
                    .collect();
                running[cpu] = free[random.below(free.len() as u64) as usize];
                continue;
            }
            10..15 if stack.is_empty() => EventKind::Exit {
                function: Some(function),
                depth: Some(depth),
                duration: Some(random.below(50_000)),
            },
            15 if !stack.is_empty() => {
                // The function was left by a jump.
                stack.pop();
                continue;
            }
            16..60 if !stack.is_empty() => {
                let (function, start) = stack.pop().unwrap();
                EventKind::Exit {
                    function: Some(function),
                    depth: Some(depth - 1),
                    duration: Some(time - start),
                }
            }
            _ if depth < 40 => {
                stack.push((function, time));
                EventKind::Enter {
                    function,
                    depth: Some(depth),
                    argument: None,
                }
            }
            _ => continue,
        };
        is_lost[cpu] = matches!(kind, EventKind::Lost { .. });
        events.push(Event {
            time,
            cpu: cpu as u32,
            task: tasks[at],
            kind,
        });
    }
    events.extend((0..3).map(|cpu| Event {
        time: time + 1,
        cpu,
        task: Task::NONE,
        kind: EventKind::Mark { text: mark },
    }));
    Events::new(catalog, events, TimeUnit::Nanoseconds, Vec::new())
}

fn written(source: &mut impl Source) -> Vec<u8> {
    let mut file = Vec::new();
    dat::write(source, &mut file).unwrap();
    file
}

/// A call: function, start, end, duration, depth, CPUs, task, and how it was paired.
type Call = (
    Option<String>,
    Option<u64>,
    Option<u64>,
    Option<u64>,
    (u32, u32, u32),
    String,
    Match,
);

/// Returns the calls in a fixed order, and the other events of each CPU in their order.
fn graph_of(source: &mut impl Source) -> (Vec<Call>, BTreeMap<u32, Vec<String>>) {
    let mut calls = Vec::new();
    let mut others = BTreeMap::<u32, Vec<String>>::new();
    graph::walk(source, |catalog, step| {
        let name = |name| catalog.text(name).replace(' ', "_");
        let task = |task| catalog.task_name(task).name.clone();
        match step {
            Step::Enter(_) => {}
            Step::Leave(slice) => calls.push((
                slice.function.map(name),
                slice.start,
                slice.end,
                slice.duration,
                (slice.depth, slice.cpu, slice.last_cpu),
                task(slice.task).replace("<idle>", ""),
                slice.matched,
            )),
            Step::Event(event) => {
                let text = match event.kind {
                    EventKind::Call { function, caller } => {
                        format!("{} from {}", name(function), name(caller.unwrap()))
                    }
                    EventKind::Mark { text } => {
                        let text = catalog.text(text);
                        let text = text.strip_prefix("print: ").unwrap_or(text).trim();
                        text.trim_start_matches("tracing_mark_write: ").to_owned()
                    }
                    EventKind::Lost { records } => format!("lost {records}"),
                    ref other => panic!("{other:?}"),
                };
                others.entry(event.cpu).or_default().push(text);
            }
        }
        Ok::<_, ReadError>(())
    })
    .unwrap();
    calls.sort_by_key(|call| (call.1.or(call.2), call.4));
    (calls, others)
}

#[test]
fn a_written_file_yields_the_graph_of_its_source() {
    for seed in 1..20 {
        let expected = graph_of(&mut trace(seed, 3));
        let paired = expected.0.iter().filter(|call| call.6 == Match::Paired);
        assert!(paired.count() > 500);
        let file = written(&mut trace(seed, 3));
        let mut source = open_dat(Cursor::new(file)).unwrap();
        let read = graph_of(&mut source);
        assert_eq!(read.0.len(), expected.0.len());
        for (read, expected) in read.0.iter().zip(&expected.0) {
            assert_eq!(read, expected, "seed {seed}");
        }
        assert_eq!(read.1, expected.1, "seed {seed}");
        assert_eq!(source.notes(), [""; 0]);
    }
}

/// Returns the output of `trace-cmd report`; `None` if trace-cmd is missing.
fn report(file: &[u8]) -> Option<String> {
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(path.path(), file).unwrap();
    let output = Command::new("trace-cmd")
        .args([
            "report",
            "-t",
            "-O",
            "fgraph:tailprint",
            "-O",
            "ftrace:parent",
            "-i",
        ])
        .arg(path.path())
        .output();
    match output {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{errors}");
            assert_eq!(errors, "");
            Some(String::from_utf8(output.stdout).unwrap())
        }
        Err(error) => {
            let is_required = std::env::var_os("NOSTALL_REQUIRE_TOOLS").is_some();
            assert!(!is_required, "trace-cmd: {error}");
            // The test harness captures the output of std's macros, so they are not used here.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: there is no trace-cmd: run scripts/setup trace-tools"
            );
            None
        }
    }
}

/// Returns whether trace-cmd prints `exact` as `printed`: it rounds long durations.
fn is_printed(exact: u64, printed: u64) -> bool {
    let step = match (exact / 1_000).max(1).ilog10() {
        ..4 => 1,
        4 => 10,
        5 => 100,
        _ => 1_000,
    };
    (printed..printed + step).contains(&exact)
}

#[test]
fn trace_cmd_reports_every_function_time_and_duration_of_the_graph() {
    for seed in 1..6 {
        let Some(text) = report(&written(&mut trace(seed, 0))) else {
            return;
        };
        let (expected, others) = graph_of(&mut trace(seed, 0));
        let mut source = open_text(text.as_bytes(), 0);
        let (read, read_others) = graph_of(&mut source);
        assert_eq!(source.notes(), [""; 0]);
        assert_eq!(read.len(), expected.len());
        for (read, expected) in read.iter().zip(&expected) {
            let context = format!("{read:?} instead of {expected:?}, seed {seed}");
            // Exits without an entry are printed without a name.
            assert!(read.0 == expected.0 || read.0.is_none(), "{context}");
            assert_eq!(read.1, expected.1, "{context}");
            assert_eq!(read.2.is_some(), expected.2.is_some(), "{context}");
            if let (Some(read), Some(expected)) = (read.2, expected.2) {
                assert!(
                    is_printed(expected, read) || expected - read < 1_000,
                    "{context}"
                );
            }
            assert_eq!(read.3.is_some(), expected.3.is_some(), "{context}");
            if let (Some(read), Some(expected)) = (read.3, expected.3) {
                assert!(is_printed(expected, read), "{context}");
            }
            assert_eq!((read.4, &read.6), (expected.4, &expected.6), "{context}");
        }
        assert_eq!(read_others, others);
    }
}

#[test]
fn trace_cmd_reports_lost_records_where_they_are_missing() {
    let mut catalog = Catalog::default();
    let function = catalog.name("f");
    let event = |time, cpu, kind| Event {
        time,
        cpu,
        task: Task::NONE,
        kind,
    };
    let call = EventKind::Call {
        function,
        caller: Some(function),
    };
    let events = vec![
        event(1_000, 1, call),
        event(2_000, 1, EventKind::Lost { records: 23 }),
        event(3_000, 1, call),
        event(4_000, 1, EventKind::Lost { records: 0 }),
        event(5_000, 1, call),
        event(6_000, 1, EventKind::Lost { records: 1 }),
    ];
    let mut source = Events::new(catalog, events, TimeUnit::Nanoseconds, Vec::new());
    let Some(text) = report(&written(&mut source)) else {
        return;
    };
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    assert_eq!(
        lines,
        [
            "cpus=2",
            "<idle>-0     [001]     0.000001000: function:             f <-- f",
            "CPU:1 [23 EVENTS DROPPED]",
            "<idle>-0     [001]     0.000003000: function:             f <-- f",
            "CPU:1 [EVENTS DROPPED]",
            "<idle>-0     [001]     0.000005000: function:             f <-- f",
            "CPU:1 [1 EVENTS DROPPED]",
            "<idle>-0     [001]     0.000006000: print:                tracing_mark_write: records are missing",
        ]
    );
}

#[test]
fn a_clock_that_steps_back_keeps_the_order_of_its_cpu() {
    let mut catalog = Catalog::default();
    let mark = catalog.name("m");
    let times = [5_000, 7_000, 1_000, 2_000, 1 << 62, 3];
    let events = times.map(|time| Event {
        time,
        cpu: 0,
        task: Task::NONE,
        kind: EventKind::Mark { text: mark },
    });
    let mut source = Events::new(catalog, events.to_vec(), TimeUnit::Ticks, Vec::new());
    let mut read = open_dat(Cursor::new(written(&mut source))).unwrap();
    assert_eq!(read.unit(), TimeUnit::Ticks);
    for time in times {
        assert_eq!(read.next_event().unwrap().unwrap().time, time);
    }
    assert_eq!(read.next_event().unwrap(), None);
}

#[test]
fn an_impossible_cpu_number_is_an_error_and_takes_no_memory() {
    let mut catalog = Catalog::default();
    let mark = catalog.name("m");
    let event = Event {
        time: 0,
        cpu: u32::MAX,
        task: Task::NONE,
        kind: EventKind::Mark { text: mark },
    };
    let mut source = Events::new(catalog, vec![event], TimeUnit::Ticks, Vec::new());
    let error = dat::write(&mut source, Vec::new()).unwrap_err();
    assert!(error.to_string().contains("4096 CPUs"), "{error}");
}

//! Text of ftrace and of `trace-cmd report`.

use std::io::Read;

use nostall_tracefile::graph::{self, Match, Slice, Step};
use nostall_tracefile::model::{Catalog, Event, EventKind, ReadError, Source, TimeUnit};
use nostall_tracefile::read::{looks_like_text, open_text};

const MAIL: &str = include_str!("../fixtures/text/000_a6df4bf415d4e851.txt");
const ARTICLE: &str = include_str!("../fixtures/text/004_640dd8fb3e5f4342.txt");

struct Trace {
    events: Vec<Event>,
    catalog: Catalog,
    unit: TimeUnit,
    notes: Vec<String>,
}

fn read(text: impl AsRef<[u8]>) -> Trace {
    let text = text.as_ref();
    let mut source = open_text(text, text.len() as u64);
    let mut events = Vec::new();
    while let Some(event) = source.next_event().unwrap() {
        events.push(event);
    }
    assert_eq!(source.progress().done, text.len() as u64);
    Trace {
        events,
        catalog: source.catalog().clone(),
        unit: source.unit(),
        notes: source.notes().to_vec(),
    }
}

fn slices(text: &str) -> Vec<(Option<String>, Slice)> {
    let mut slices = Vec::new();
    let mut source = open_text(text.as_bytes(), 0);
    graph::walk(&mut source, |catalog, step| {
        if let Step::Leave(slice) = step {
            let name = slice.function.map(|name| catalog.text(name).to_owned());
            slices.push((name, slice));
        }
        Ok::<_, ReadError>(())
    })
    .unwrap();
    slices
}

impl Trace {
    /// Returns one line per event: time, CPU, task, and the event.
    fn lines(&self) -> Vec<String> {
        self.events.iter().map(|event| self.line(event)).collect()
    }

    fn line(&self, event: &Event) -> String {
        let text = |name| self.catalog.text(name);
        let task = self.catalog.task_name(event.task);
        let kind = match event.kind {
            EventKind::Enter {
                function, depth, ..
            } => format!("> {}{}", text(function), number(depth.map(u64::from))),
            EventKind::Exit {
                function,
                depth,
                duration,
            } => format!(
                "< {}{}{}",
                function.map_or("?", text),
                number(depth.map(u64::from)),
                number(duration)
            ),
            EventKind::Call { function, caller } => {
                format!("{} from {}", text(function), caller.map_or("?", text))
            }
            EventKind::Mark { text: mark } => text(mark).to_owned(),
            EventKind::Lost { records } => format!("lost {records}"),
            ref other => panic!("{other:?}"),
        };
        format!(
            "{} {} {}-{} {kind}",
            event.time, event.cpu, task.name, task.id
        )
    }

    fn durations(&self, cpu: u32) -> Vec<u64> {
        let exits = self.events.iter().filter(|event| event.cpu == cpu);
        exits
            .filter_map(|event| match event.kind {
                EventKind::Exit { duration, .. } => duration,
                _ => None,
            })
            .collect()
    }
}

fn number(number: Option<u64>) -> String {
    number.map_or(" -".into(), |number| format!(" {number}"))
}

/// Returns every `N.NNN us` in the lines that `select` accepts, in nanoseconds.
fn printed(text: &str, select: impl Fn(&str) -> bool) -> Vec<u64> {
    let lines = text.lines().filter(|line| select(line));
    lines
        .filter_map(|line| {
            let (before, after) = line.split_once(" us")?;
            let is_column = after.trim_start().starts_with('|');
            let number = before.rsplit(' ').next()?;
            let (us, ns) = number.split_once('.')?;
            assert!(ns.len() <= 3, "{line}");
            is_column.then(|| {
                us.parse::<u64>().unwrap() * 1_000 + format!("{ns:0<3}").parse::<u64>().unwrap()
            })
        })
        .collect()
}

#[test]
fn the_excerpt_in_the_mail_yields_every_printed_duration() {
    let trace = read(MAIL);
    let expected = printed(MAIL, |_| true);
    assert_eq!(expected.len(), 16);
    assert!(expected.contains(&411_342));
    assert_eq!(trace.durations(0), expected);
}

#[test]
fn the_excerpts_in_the_article_yield_every_printed_duration() {
    let trace = read(ARTICLE);
    let polled = printed(ARTICLE, |line| !line.contains("[008]"));
    let fifo = printed(ARTICLE, |line| line.contains("[008]"));
    assert_eq!((polled.len(), fifo.len()), (16, 20));
    assert_eq!(trace.durations(0), polled);
    assert_eq!(trace.durations(8), fifo);
    assert!(polled.contains(&411_342) && fifo.contains(&12_787));
}

#[test]
fn nested_calls_of_the_article_are_paired_and_the_cut_ones_are_marked() {
    for text in [MAIL, ARTICLE] {
        let slices = slices(text);
        let of = |name: &str, matched| {
            let slices = slices.iter().filter(|(function, slice)| {
                function.as_deref() == Some(name) && slice.matched == matched && slice.cpu == 0
            });
            slices.map(|(_, slice)| slice.duration).collect::<Vec<_>>()
        };
        let paired = |name| of(name, Match::Paired);
        assert_eq!(paired("wait_for_xmitr"), [Some(2_238)]);
        assert_eq!(paired("serial8250_console_putchar"), [Some(4_318)]);
        assert_eq!(paired("uart_console_write"), [Some(4_675)]);
        assert_eq!(paired("__const_udelay"), [Some(1_429), Some(1_486)]);
        assert_eq!(paired("_raw_spin_lock_irqsave"), [Some(384)]);
        // Dots hide the exits of the two calls that were already open.
        assert_eq!(
            of("serial8250_console_write", Match::Open).len()
                + of("serial8250_console_write", Match::Lost).len(),
            1
        );
        assert_eq!(of("wait_for_xmitr", Match::Lost), [None]);
        // The last exit has the duration of the whole call, but no certain entry.
        let unnamed: Vec<_> = slices.iter().filter(|(name, _)| name.is_none()).collect();
        assert_eq!(unnamed.len(), if text == MAIL { 1 } else { 2 });
        assert_eq!(unnamed[0].1.matched, Match::NoEntry);
        assert_eq!(unnamed[0].1.duration, Some(411_342));
    }
}

#[test]
fn the_end_of_the_raw_lines_is_open_and_their_first_exit_has_no_entry() {
    let slices = slices(ARTICLE);
    let fifo: Vec<_> = slices.iter().filter(|(_, slice)| slice.cpu == 8).collect();
    let unpaired: Vec<_> = fifo
        .iter()
        .filter(|(_, slice)| slice.matched != Match::Paired)
        .map(|(name, slice)| (name.as_deref(), slice.matched, slice.duration))
        .collect();
    assert_eq!(
        unpaired,
        [
            (None, Match::NoEntry, Some(1_942)),
            (Some("__const_udelay"), Match::Open, None)
        ]
    );
    // Each entry with a duration is a whole call, and so is each closed pair.
    assert_eq!(fifo.len(), 20 + 1);
    assert_eq!(fifo[0].1.end, Some(2_360_845_784_000));
}

#[test]
fn the_share_of_an_article_that_is_no_trace_is_reported() {
    let notes = read(ARTICLE).notes;
    assert!(
        notes[0].starts_with("23 lines have no time stamp"),
        "{notes:?}"
    );
    assert!(notes[1].contains("lines are not of a trace"), "{notes:?}");
    assert!(
        notes.iter().any(|note| note.starts_with("1 times, dots")),
        "{notes:?}"
    );
}

fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes)
        .read_to_string(&mut text)
        .unwrap();
    text
}

#[test]
fn every_line_of_a_recorded_graph_is_read() {
    let text = unpacked(include_bytes!("../fixtures/text/graph-2cpu.trace.gz"));
    let trace = read(&text);
    for cpu in [0, 1] {
        let column = format!(" [00{cpu}] ");
        let expected = printed(&text, |line| line.contains(&column));
        assert!(expected.len() > 1_000);
        assert_eq!(trace.durations(cpu), expected);
    }
    assert_eq!(trace.notes, [""; 0]);
    let opened = text.lines().filter(|line| line.ends_with('{')).count();
    let leaves = text.lines().filter(|line| line.ends_with("();")).count();
    let enters = trace
        .events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Enter { .. }));
    assert_eq!(enters.count(), opened + leaves);
}

#[test]
fn every_line_of_recorded_function_calls_is_read() {
    let text = unpacked(include_bytes!("../fixtures/text/func-2cpu.trace.gz"));
    let trace = read(&text);
    let expected: Vec<_> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (head, call) = line.split_once(": ")?;
            let (us, call) = (head.rsplit(' ').next()?, call.replace(" <-", " from "));
            Some(format!(
                "{}000 {call}",
                us.replace('.', "").trim_start_matches('0')
            ))
        })
        .collect();
    let read: Vec<_> = trace
        .lines()
        .iter()
        .map(|line| {
            let mut words = line.splitn(4, ' ');
            format!("{} {}", words.next().unwrap(), words.nth(2).unwrap())
        })
        .collect();
    assert!(expected.len() > 1_000);
    assert_eq!(read, expected);
    assert_eq!(trace.notes, [""; 0]);
}

#[test]
fn the_graph_tracer_s_columns_may_all_be_there_or_missing() {
    let text = "\
# tracer: function_graph
#
# CPU  DURATION                  FUNCTION CALLS
# |     |   |                     |   |   |   |
  360.774522 |   1)  sh-4802  |  d..1. |               |  a() {
  360.774523 |   1)  sh-4802  |  d..1. |   0.541 us    |    b [ext4]();
  360.774524 |   1)  sh-4802  |  d..1. | + 10.663 us   |  } /* a ret=0x1f */
 2)               |  c(flags=0x2 | 1) { /* <-vfs_read+0x10/0x20 */
 2)               |    /* sched_switch: prev=a | next=b */
 2) # 1755.720 us |  } /* ret=0x0 */
 2)   ==========> |
 3)  d() {
 3)  }
 ! 123.400 us  |  e();
# 1000.001 us |  f();
";
    assert_eq!(
        read(text).lines(),
        [
            "360774522000 1 sh-4802 > a 0",
            "360774523000 1 sh-4802 > b 1",
            "360774523541 1 sh-4802 < b 1 541",
            "360774524000 1 sh-4802 < a 0 10663",
            "360774524000 2 -0 > c 0",
            "360774524000 2 -0 sched_switch: prev=a | next=b",
            "360776279720 2 -0 < ? 0 1755720",
            "360776279720 2 -0 ==========>",
            "360776279720 3 -0 > d 0",
            "360776279720 3 -0 < ? 0 -",
            "360776279720 0 -0 > e 0",
            "360776403120 0 -0 < e 0 123400",
            "360776403120 0 -0 > f 0",
            "360777403121 0 -0 < f 0 1000001",
        ]
    );
}

#[test]
fn without_time_stamps_each_cpu_runs_by_its_durations_and_no_event_is_before_another() {
    let text = "\
 0)               |  a() {
 0)   2.000 us    |    b();
 1)   3.000 us    |  c();
 0) + 10.000 us   |  }
 0)   1.000 us    |  d();
";
    let trace = read(text);
    assert_eq!(
        trace.lines(),
        [
            "0 0 -0 > a 0",
            "0 0 -0 > b 1",
            "0 1 -0 > c 0",
            "2000 0 -0 < b 1 2000",
            "3000 1 -0 < c 0 3000",
            "10000 0 -0 < ? 0 10000",
            "10000 0 -0 > d 0",
            "11000 0 -0 < d 0 1000",
        ]
    );
    assert!(trace.notes[0].starts_with("5 lines have no time stamp"));
}

#[test]
fn without_time_stamps_the_idle_tasks_of_two_cpus_have_calls_of_their_own() {
    let text = "\
 0)    <idle>-0    |               |  a() {
 1)    <idle>-0    | + 90.000 us   |  before();
 1)    <idle>-0    |               |  b() {
 0)    <idle>-0    |   5.000 us    |  }
 1)    <idle>-0    |   1.000 us    |  }
";
    assert_eq!(
        read(text).lines(),
        [
            "0 0 <idle>-0 > a 0",
            "0 1 <idle>-0 > before 0",
            "90000 1 <idle>-0 < before 0 90000",
            "90000 1 <idle>-0 > b 0",
            "90000 0 <idle>-0 < ? 0 5000",
            "91000 1 <idle>-0 < ? 0 1000",
        ]
    );
}

#[test]
fn an_exit_stays_before_the_next_line_of_its_cpu_although_stamps_are_rounded() {
    let text = "\
 a-7 [000] 1.000001: funcgraph_entry: 1.400 us | f();
 a-7 [000] 1.000002: funcgraph_entry: 0.100 us | g();
 a-7 [000] 0.500000: funcgraph_entry: 0.100 us | stepped_back();
";
    assert_eq!(
        read(text).lines(),
        [
            "1000001000 0 a-7 > f -",
            "1000002000 0 a-7 < f - 1400",
            "1000002000 0 a-7 > g -",
            "1000002000 0 a-7 < g - 100",
            "500000000 0 a-7 > stepped_back -",
            "500000100 0 a-7 < stepped_back - 100",
        ]
    );
}

#[test]
fn a_switch_of_tasks_moves_the_calls_to_the_task_and_back() {
    let text = "\
 0)               |  schedule() {
 ------------------------------------------
 0)   sh-1234    =>  kworker-77
 ------------------------------------------

 0)   1.000 us    |  work();
 ------------------------------------------
 0)  kworker-77  =>   sh-1234
 ------------------------------------------

 0)   9.000 us    |  }
 0)   1.000 us    |  after();
";
    let trace = read(text);
    assert_eq!(
        trace.lines(),
        [
            "0 0 -0 > schedule 0",
            "0 0 kworker-77 > work 0",
            "1000 0 kworker-77 < work 0 1000",
            // The task that ran before the first switch was not known.
            "9000 0 -0 < ? 0 9000",
            "9000 0 sh-1234 > after 0",
            "10000 0 sh-1234 < after 0 1000",
        ]
    );
    let schedule = &slices(text)[1];
    assert_eq!(schedule.0.as_deref(), Some("schedule"));
    assert_eq!(schedule.1.matched, Match::Paired);
}

#[test]
fn lines_of_trace_cmd_and_of_the_latency_tracers_are_read() {
    let text = "\
cpus=2
CPU 1 is empty
   my task-x-12  [001] d..1.  10.000000001: function:             vfs_read <-- ksys_read
 <...>-13 (  12) [001] ....    10.000001: vfs_write+0x4/0x20 [m] <-ksys_write
 <...>-13 (-----) [001] 10.000002: sched_waking: comm=a pid=5
CPU:1 [LOST 23 EVENTS]
 <idle>-0 [000] 10.000003: funcgraph_entry: --> do_idle (2)
 <idle>-0 [000] 10.000004: funcgraph_exit: <-- do_idle (2) (start: ff  end: 1ff) over: 0
CPU:0 [EVENTS DROPPED]
  sshd-99    0d..1.   15us!: lock <-unlock
";
    assert_eq!(
        read(text).lines(),
        [
            "10000000001 1 my task-x-12 vfs_read from ksys_read",
            "10000001000 1 -13 vfs_write from ksys_write",
            "10000002000 1 -13 sched_waking: comm=a pid=5",
            "10000003000 1 -0 lost 23",
            "10000003000 0 <idle>-0 > do_idle 2",
            "10000004000 0 <idle>-0 < do_idle 2 256",
            "15000 0 -0 lost 0",
            "15000 0 sshd-99 lock from unlock",
        ]
    );
}

#[test]
fn stamps_of_a_counting_clock_are_ticks() {
    let trace = read(" a-1 [000] 123456789012: f <-g\n");
    assert_eq!(trace.unit, TimeUnit::Ticks);
    assert_eq!(trace.lines(), ["123456789012 0 a-1 f from g"]);
}

#[test]
fn damaged_lines_are_skipped_counted_and_marked_where_they_were() {
    let mut text = b" a-1 [000] 1.000000: f <-g\n".to_vec();
    text.extend(b" a-1 [000] 1.0000\xff\0\x01\n");
    text.extend(b" a-1 [99999999] 1.000001: f <-g\n");
    text.extend([b'x'; 100_000]);
    text.extend(b"\n a-1 [000] 1.000003: f <-g\n");
    text.extend(b" a-1 [000] 1.000004: funcgraph_entry: 0.1");
    let trace = read(text);
    assert_eq!(
        trace.lines(),
        [
            "1000000000 0 a-1 f from g",
            "1000003000 0 -0 lost 0",
            "1000003000 0 a-1 f from g",
        ]
    );
    assert_eq!(
        trace.notes,
        [
            "2 lines are not of a trace, or damaged: they were skipped",
            "2 lines are cut: they were skipped",
        ]
    );
}

#[test]
fn a_text_cut_at_any_byte_gives_no_record_that_the_whole_does_not_give() {
    // An exit is clamped to the next line's time, which may be missing.
    let untimed = |text: &str| -> Vec<String> {
        let lines = read(text).lines();
        let lines = lines.iter().map(|line| line.split_once(' ').unwrap().1);
        lines.map(str::to_owned).collect()
    };
    let whole = untimed(ARTICLE);
    for end in 0..ARTICLE.len() {
        let Some(text) = ARTICLE.get(..end) else {
            continue;
        };
        let cut = untimed(text);
        assert_eq!(cut[..], whole[..cut.len()], "cut at {end}");
    }
}

#[test]
fn traces_are_distinguished_from_other_texts() {
    let excerpt = "# tracer: nop\n#\n";
    for text in [MAIL, ARTICLE, excerpt, " a-1 [000] 1.000000: f <-g\n"] {
        assert!(looks_like_text(text.as_bytes()));
    }
    let program = "# comment\nif (a || b) {\n\tf();\n}\n| name | value |\n| f() {\n";
    for text in [
        program,
        "",
        include_str!("text.rs").split("const").next().unwrap(),
    ] {
        assert!(!looks_like_text(text.as_bytes()), "{text}");
    }
    let binary = [b"\0\x01\x02\x03 0) 1.000 us | f();\n".as_slice(), &[0; 100]].concat();
    assert!(!looks_like_text(&binary));
}

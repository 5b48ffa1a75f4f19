//! Reads arbitrary bytes as ftrace text: the events are bounded by the lines, and text that is
//! written in tracefs' form is read back.

#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use nostall_tracefile::graph;
use nostall_tracefile::model::{Event, EventKind, ReadError, Source};
use nostall_tracefile::read::{looks_like_text, open_text};

#[derive(Arbitrary, Debug)]
struct Call {
    cpu: u16,
    task: u16,
    us: u32,
    duration: u32,
    depth: u8,
    is_leaf: bool,
}

fn events(text: &[u8]) -> Vec<Event> {
    let mut source = open_text(text, text.len() as u64);
    let mut events = Vec::new();
    while let Some(event) = source.next_event().unwrap() {
        events.push(event);
    }
    assert_eq!(source.progress().done, text.len() as u64);
    assert!(source.notes().len() < 10);
    let names = source.catalog().names();
    for event in &events {
        assert!(event.cpu < 1 << 16);
        assert!((event.task.0 as usize) < source.catalog().tasks().len());
        if let EventKind::Enter { function, .. } = event.kind {
            assert!((function.0 as usize) < names);
        }
    }
    events
}

fuzz_target!(|text: &[u8]| {
    looks_like_text(text);
    let lines = text.split(|byte| *byte == b'\n').count();
    // A whole call has two events. Lost records before a line have one event per CPU.
    assert!(events(text).len() <= 4 * lines);
    let mut source = open_text(text, 0);
    graph::walk(&mut source, |_, _| Ok::<_, ReadError>(())).unwrap();

    let mut input = Unstructured::new(text);
    let calls: Vec<Call> = input.arbitrary().unwrap_or_default();
    let mut written = String::from("# tracer: function_graph\n");
    let mut durations = 0_u64;
    for call in &calls {
        let Call {
            cpu,
            task,
            us,
            duration,
            depth,
            is_leaf,
        } = call;
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        let (indent, end) = ("  ".repeat((*depth).into()), if *is_leaf { "f();" } else { "}" });
        let (whole, rest) = (duration / 1_000, duration % 1_000);
        written += &format!(
            " a b-{task} [{cpu:03}] d..1. {s}.{us:06}: {cpu}) ! {whole}.{rest:03} us |  {indent}{end}\n"
        );
        durations += u64::from(*duration);
    }
    let read = events(written.as_bytes());
    let mut read_durations = 0;
    for event in &read {
        if let EventKind::Exit { duration, .. } = event.kind {
            read_durations += duration.unwrap();
        }
    }
    assert_eq!(read_durations, durations);
    let leaves = calls.iter().filter(|call| call.is_leaf).count();
    assert_eq!(read.len(), calls.len() + leaves);
});

//! The file has exactly the graph's slices.

use std::collections::HashMap;

use proptest::prelude::*;
use prost::Message;

use super::messages::{DebugAnnotation, TrackDescriptor, Type};
use super::*;
use crate::export::random;
use crate::graph;
use crate::model::{Events, Source, TimeUnit};

#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<messages::TracePacket>,
}

/// A call in the graph or in the file.
#[derive(Clone, Debug, PartialEq)]
struct Call {
    track: String,
    name: String,
    start: u64,
    depth: u32,
    cpu: u64,
    argument: Option<u64>,
    end: How,
}

#[derive(Clone, Debug, PartialEq)]
enum How {
    Paired(Option<u64>),
    Cut(String),
    Open,
}

/// Condition, start and duration.
type Stall = (String, u64, u64);

/// Returns the stalls, counters and number of marks of a trace.
fn others(source: &mut Events) -> (Vec<Stall>, Vec<(String, i64)>, usize) {
    let (mut stalls, mut counters, mut instants) = (Vec::new(), Vec::new(), 0);
    while let Ok(Some(event)) = source.next_event() {
        let text = |name| source.catalog().text(name).to_owned();
        match event.kind {
            EventKind::Stall {
                condition,
                duration,
                ..
            } => {
                stalls.push((text(condition), event.time - duration, duration));
            }
            EventKind::Counter { counter, value } => counters.push((text(counter), value)),
            EventKind::Mark { .. } | EventKind::Lost { .. } => instants += 1,
            _ => {}
        }
    }
    (stalls, counters, instants)
}

/// Returns the graph's calls in the order of their entries, and its exits without entries.
fn of_graph(source: &mut Events) -> (Vec<Call>, Vec<(String, u64)>) {
    let (mut calls, mut exits) = (Vec::new(), Vec::new());
    let mut stacks: HashMap<String, Vec<usize>> = HashMap::new();
    // The first task of a lane provides the lane's name.
    let mut lanes = HashMap::new();
    let mut track = |catalog: &Catalog, task, cpu| {
        let lane = Lane::of(catalog, task, cpu);
        let name = lanes
            .entry(lane)
            .or_insert_with(|| lane.name(catalog, task));
        name.clone()
    };
    graph::walk(source, |catalog, step| {
        match step {
            Step::Enter(entry) => {
                let track = track(catalog, entry.task, entry.cpu);
                stacks.entry(track.clone()).or_default().push(calls.len());
                calls.push(Call {
                    track,
                    name: catalog.text(entry.function).to_owned(),
                    start: entry.time,
                    depth: entry.depth,
                    cpu: entry.cpu.into(),
                    argument: entry.argument,
                    end: How::Open,
                });
            }
            Step::Leave(slice) => {
                let track = track(catalog, slice.task, slice.cpu);
                let end = match slice.matched {
                    Match::NoEntry => {
                        let function = slice.function.map(|name| catalog.text(name));
                        let name = function.unwrap_or("exit of an unknown function");
                        exits.push((name.to_owned(), slice.end.unwrap()));
                        return Ok(());
                    }
                    Match::Paired => How::Paired(slice.duration),
                    Match::Skipped => How::Cut("skipped".into()),
                    Match::Lost => How::Cut("lost".into()),
                    Match::Open | Match::TooDeep => How::Open,
                };
                let call = stacks.get_mut(&track).unwrap().pop().unwrap();
                calls[call].end = end;
            }
            Step::Event(Event {
                kind: EventKind::Mark { .. },
                task,
                cpu,
                ..
            }) => {
                track(catalog, task, cpu);
            }
            Step::Event(_) => {}
        }
        Ok::<_, crate::model::ReadError>(())
    })
    .unwrap();
    (calls, exits)
}

fn export(source: &mut Events) -> File {
    let mut perfetto = Perfetto::new(Vec::new());
    graph::walk(source, |catalog, step| perfetto.step(catalog, &step)).unwrap();
    File::decode(&perfetto.finish().unwrap()[..]).unwrap()
}

/// Slices that Perfetto reads from a file: an end closes the innermost slice of its track.
#[derive(Debug, Default)]
struct Read {
    calls: Vec<Call>,
    stalls: Vec<Stall>,
    counters: Vec<(String, i64)>,
    exits: Vec<(String, u64)>,
    instants: usize,
    /// Number of annotations for moved times.
    moved: usize,
}

fn read(file: &File) -> Read {
    let mut read = Read::default();
    let mut names = HashMap::new();
    let mut keys = HashMap::new();
    let mut tracks: HashMap<u64, TrackDescriptor> = HashMap::new();
    let mut last: HashMap<u64, u64> = HashMap::new();
    let mut stacks: HashMap<u64, Vec<(Call, u64)>> = HashMap::new();
    let mut done = Vec::new();
    for (number, packet) in file.packets.iter().enumerate() {
        assert_eq!(packet.trusted_packet_sequence_id, Some(1));
        let flags = packet.sequence_flags.unwrap_or(0);
        assert_eq!(
            flags & 1 != 0,
            number == 0,
            "state is cleared once, at the start"
        );
        for name in packet
            .interned_data
            .iter()
            .flat_map(|data| &data.event_names)
        {
            assert!(
                names.insert(name.iid(), name.name().to_owned()).is_none(),
                "interned once"
            );
        }
        let data = packet.interned_data.iter();
        for key in data.flat_map(|data| &data.debug_annotation_names) {
            keys.insert(key.iid(), key.name().to_owned());
        }
        if let Some(track) = &packet.track_descriptor {
            assert!(tracks.insert(track.uuid(), track.clone()).is_none());
            continue;
        }
        let Some(event) = &packet.track_event else {
            continue;
        };
        assert_eq!(flags & 2, 2, "events use interned names");
        let (uuid, time) = (event.track_uuid(), packet.timestamp());
        let before = last.insert(uuid, time).unwrap_or(0);
        assert!(before <= time, "times of a track never decrease");
        let track = &tracks[&uuid];
        let group = tracks[&track.parent_uuid()].name();
        let name = event
            .name_iid
            .map_or(event.name(), |id| &names[&id])
            .to_owned();
        let find = |key: &str| -> Option<&DebugAnnotation> {
            event
                .debug_annotations
                .iter()
                .find(|one| keys[&one.name_iid()] == key)
        };
        let number = |key: &str| find(key).and_then(|one| one.uint_value);
        read.moved += usize::from(find("recorded_time").is_some());
        read.moved += usize::from(find("recorded_duration").is_some());
        let stack = stacks.entry(uuid).or_default();
        match event.r#type() {
            Type::SliceBegin => stack.push((
                Call {
                    track: track.name().to_owned(),
                    name,
                    start: number("recorded_time").unwrap_or(time),
                    depth: number("depth").map_or(stack.len() as u32, |depth| depth as u32),
                    cpu: number("cpu").unwrap(),
                    argument: number("argument"),
                    end: How::Open,
                },
                time,
            )),
            Type::SliceEnd => {
                let (mut call, start) = stack.pop().expect("no end without a start");
                let duration = number("recorded_duration").unwrap_or(time - start);
                if group == "Stalls" {
                    read.stalls.push((call.name, call.start, duration));
                    continue;
                }
                call.end = match (find("exit"), find("recorded_duration")) {
                    (Some(exit), _) => How::Cut(exit.string_value().to_owned()),
                    (None, Some(unknown)) if unknown.uint_value.is_none() => How::Paired(None),
                    (None, _) => How::Paired(Some(duration)),
                };
                done.push(call);
            }
            Type::Counter => {
                assert!(track.counter.is_some());
                let value = event.counter_value.unwrap();
                read.counters.push((track.name().to_owned(), value));
            }
            Type::Instant if find("entry").is_some() => {
                read.exits
                    .push((name, number("recorded_time").unwrap_or(time)));
            }
            Type::Instant => read.instants += 1,
            Type::Unspecified => panic!("an event has a type"),
        }
    }
    let open = stacks.into_values().flatten().map(|(call, _)| call);
    read.calls = done.into_iter().chain(open).collect();
    read
}

fn trace(names: &[&str], events: impl IntoIterator<Item = (u64, EventKind)>) -> Events {
    let mut catalog = Catalog::default();
    for name in names {
        catalog.name(name);
    }
    let events = events.into_iter().map(|(time, kind)| Event {
        time,
        cpu: 0,
        task: Task::NONE,
        kind,
    });
    let events = events.collect();
    Events::new(catalog, events, TimeUnit::Nanoseconds, Vec::new())
}

fn enter(function: u32) -> EventKind {
    EventKind::Enter {
        function: Name(function),
        depth: None,
        argument: None,
    }
}

fn exit(function: u32) -> EventKind {
    EventKind::Exit {
        function: Some(Name(function)),
        depth: None,
        duration: None,
    }
}

/// Returns names, starts and ends, in the order of the ends.
fn slices(source: &mut Events) -> Vec<(String, u64, How)> {
    let calls = read(&export(source)).calls.into_iter();
    calls
        .map(|call| (call.name, call.start, call.end))
        .collect()
}

#[test]
fn a_call_in_which_the_trace_ends_has_no_end() {
    let mut trace = trace(&["a", "b"], [(1, enter(0)), (2, enter(1)), (5, exit(1))]);
    let expected = [
        ("b".to_owned(), 2, How::Paired(Some(3))),
        ("a".to_owned(), 1, How::Open),
    ];
    assert_eq!(slices(&mut trace), expected);
}

#[test]
fn a_call_without_an_exit_ends_with_its_caller_and_is_annotated() {
    let mut trace = trace(&["a", "b"], [(1, enter(0)), (2, enter(1)), (5, exit(0))]);
    let expected = [
        ("b".to_owned(), 2, How::Cut("skipped".into())),
        ("a".to_owned(), 1, How::Paired(Some(4))),
    ];
    assert_eq!(slices(&mut trace), expected);
}

#[test]
fn an_exit_without_an_entry_is_no_slice() {
    let read = read(&export(&mut trace(&["a"], [(7, exit(0))])));
    assert_eq!(read.calls, []);
    assert_eq!(read.exits, [("a".to_owned(), 7)]);
}

#[test]
fn a_recorded_duration_ends_the_slice_where_the_next_event_allows_it() {
    let exit = |duration| EventKind::Exit {
        function: None,
        depth: None,
        duration: Some(duration),
    };
    let packets = |last| {
        let events = [(10, enter(0)), (20, exit(12)), (last, enter(1))];
        let file = export(&mut trace(&["a", "b"], events));
        let times = file.packets.iter().filter(|one| one.track_event.is_some());
        let times: Vec<_> = times.map(|one| one.timestamp()).collect();
        (times, read(&file).moved, read(&file).calls[0].end.clone())
    };
    assert_eq!(packets(30), (vec![10, 22, 30], 0, How::Paired(Some(12))));
    assert_eq!(packets(21), (vec![10, 21, 21], 1, How::Paired(Some(12))));
}

#[test]
fn times_in_microseconds_leave_room_for_durations_in_nanoseconds() {
    let exit = EventKind::Exit {
        function: None,
        depth: None,
        duration: Some(130),
    };
    let calls = (0..3).flat_map(|_| [(5_000, enter(0)), (5_000, exit)]);
    let file = export(&mut trace(&["a"], calls));
    let times = file.packets.iter().filter_map(|one| one.timestamp);
    let expected = [5_000, 5_130, 5_130, 5_260, 5_260, 5_390];
    assert_eq!(times.collect::<Vec<_>>(), expected);
}

#[test]
fn names_of_any_length_and_with_any_character_are_kept() {
    let huge = "x".repeat(1 << 20);
    for name in ["", "\0\n\u{1b}[31m", "\u{202e}\u{10ffff}", &huge] {
        let mut trace = trace(&[name], [(1, enter(0)), (2, exit(0))]);
        assert_eq!(
            slices(&mut trace),
            [(name.to_owned(), 1, How::Paired(Some(1)))]
        );
    }
}

#[test]
fn calls_too_deep_for_the_graph_stay_open_and_the_inner_ones_pair() {
    let deep = (0..70_000).map(|time| (time, enter(0)));
    let back = (70_000..140_000).map(|time| (time, exit(0)));
    let (calls, exits) = of_graph(&mut trace(&["a"], deep.clone().chain(back.clone())));
    let read = read(&export(&mut trace(&["a"], deep.chain(back))));
    let open = |calls: &[Call]| calls.iter().filter(|call| call.end == How::Open).count();
    assert!(open(&calls) > 0);
    assert_eq!(open(&read.calls), open(&calls));
    assert_eq!(read.exits.len(), exits.len());
}

#[test]
fn a_task_has_a_track_and_a_cpu_only_without_tasks() {
    let mut catalog = Catalog::default();
    let function = catalog.name("f");
    let tasks = [
        (catalog.task(7, "sh"), 0),
        (catalog.task(7, "sh"), 1),
        (catalog.task(0, "swapper"), 1),
        (Task::NONE, 3),
    ];
    let events = tasks.into_iter().flat_map(|(task, cpu)| {
        let exit = EventKind::Exit {
            function: Some(function),
            depth: None,
            duration: None,
        };
        [enter(function.0), exit].map(|kind| Event {
            time: 1,
            cpu,
            task,
            kind,
        })
    });
    let events = events.collect();
    let mut source = Events::new(catalog, events, TimeUnit::Nanoseconds, Vec::new());
    let calls = read(&export(&mut source)).calls;
    let tracks: Vec<_> = calls
        .iter()
        .map(|call| (&call.track[..], call.cpu))
        .collect();
    let expected = [
        ("sh (7)", 0),
        ("sh (7)", 1),
        ("swapper on CPU 1", 1),
        ("CPU 3", 3),
    ];
    assert_eq!(tracks, expected);
}

#[test]
fn stalls_inside_stalls_are_on_tracks_of_their_own() {
    let stall = |duration| EventKind::Stall {
        condition: Name(0),
        place: Some(Name(1)),
        duration,
    };
    let file = export(&mut trace(
        &["THR empty", "uart.rs"],
        [(10, stall(2)), (20, stall(15))],
    ));
    let read = read(&file);
    let expected = [
        ("THR empty".to_owned(), 8, 2),
        ("THR empty".to_owned(), 5, 15),
    ];
    assert_eq!(read.stalls, expected);
    assert_eq!(read.moved, 0);
}

fn sorted(mut calls: Vec<Call>) -> Vec<String> {
    calls.sort_by_key(|call| (call.start, format!("{call:?}")));
    calls.iter().map(|call| format!("{call:?}")).collect()
}

proptest! {
    #[test]
    fn a_file_has_exactly_the_slices_of_the_graph(trace in random::trace()) {
        let (calls, mut exits) = of_graph(&mut trace.clone());
        let mut read = read(&export(&mut trace.clone()));
        prop_assert_eq!(sorted(calls), sorted(read.calls));
        exits.sort();
        read.exits.sort();
        prop_assert_eq!(exits, read.exits);
    }

    #[test]
    fn a_file_has_every_stall_counter_and_mark(trace in random::trace()) {
        let (mut stalls, counters, instants) = others(&mut trace.clone());
        let mut read = read(&export(&mut trace.clone()));
        stalls.sort();
        read.stalls.sort();
        prop_assert_eq!(stalls, read.stalls);
        prop_assert_eq!(counters, read.counters);
        prop_assert_eq!(instants, read.instants);
    }

    #[test]
    fn times_and_durations_stay_where_the_clock_never_steps_back(trace in random::steady()) {
        prop_assert_eq!(read(&export(&mut trace.clone())).moved, 0);
    }
}

//! A region as a source of events.

use crate::common;

use std::sync::atomic::Ordering;

use common::{memory, recorder, snapshot};
use nostall_trace::{Filter, Image, Options, Region, Site, recover};
use nostall_tracefile::ZoneEvents;
use nostall_tracefile::graph::{Match, Step, walk};
use nostall_tracefile::model::{Event, EventKind, ReadError, Source, TimeUnit};

const OPTIONS: Options<'_> = Options {
    zones: 2,
    names: 256,
    stop_when_full: false,
    zones_of_threads: false,
    ticks_per_second: 2_000_000,
    epoch: None,
    anchor: Some((0x9000, 0x1000)),
    boot: 1,
    build_id: &[],
    program: "kernel",
};

/// Returns the events as text, the notes, and the unit.
fn events(image: &[u8]) -> (Vec<String>, Vec<String>, TimeUnit) {
    let symbols = |address| (address == 0x1010).then(|| "main".to_owned());
    let mut source = ZoneEvents::new(recover(image).unwrap(), Box::new(symbols));
    let mut all: Vec<Event> = Vec::new();
    while let Some(event) = source.next_event().unwrap() {
        all.push(event);
        assert!(source.progress().done <= source.progress().total);
    }
    assert_eq!(source.progress().done, source.progress().total);
    let text = |name| source.catalog().text(name).to_owned();
    let tell = |event: &Event| {
        let task = &source.catalog().task_name(event.task).name;
        let kind = match event.kind {
            EventKind::Enter {
                function, depth, ..
            } => format!("+{} {depth:?}", text(function)),
            EventKind::Exit {
                function, duration, ..
            } => {
                format!("-{} {duration:?}", text(function.unwrap()))
            }
            EventKind::Stall {
                condition,
                place,
                duration,
            } => {
                format!("{} {} {duration}", text(condition), text(place.unwrap()))
            }
            EventKind::Counter { counter, value } => format!("{} {value}", text(counter)),
            EventKind::Mark { text: name } => text(name),
            EventKind::Lost { records } => format!("lost {records}"),
            _ => unreachable!(),
        };
        format!("{} {}{task} {kind}", event.time, event.cpu)
    };
    (
        all.iter().map(tell).collect(),
        source.notes().to_vec(),
        source.unit(),
    )
}

#[test]
fn times_are_nanoseconds_and_addresses_have_symbols_as_linked() {
    static BYTES: Site = Site::new("bytes", "m");
    static PLACE: Site = Site::new("send", "m");
    let (recorder, cpu) = recorder();
    recorder.start(Region::format(memory(8192), &OPTIONS).unwrap());
    let main = recorder.enter(0x9010);
    cpu.0.store(1, std::sync::atomic::Ordering::Relaxed);
    recorder.task(7, "worker");
    recorder.counter(&BYTES, 3);
    recorder.mark(&BYTES, Some(4));
    recorder.stall(&BYTES, 10, &PLACE);
    recorder.exit(recorder.enter(0x9999));
    cpu.0.store(0, std::sync::atomic::Ordering::Relaxed);
    recorder.exit(main);
    let (events, notes, unit) = events(&snapshot(recorder));
    assert_eq!(
        events,
        [
            "500 0 +main Some(0)",
            "1500 1worker bytes 3",
            "2000 1worker bytes: 4",
            "2500 1worker bytes send 5000",
            "3000 1worker +0x9999 Some(0)",
            "3500 1worker -0x9999 None",
            "4000 0 -main None",
        ]
    );
    assert_eq!((notes.len(), unit), (0, TimeUnit::Nanoseconds));
}

#[test]
fn a_whole_call_is_an_exit_with_its_duration() {
    static FILTER: Filter<'static> = Filter {
        min_ticks: 1,
        ..Filter::ALL
    };
    let (recorder, _) = recorder();
    recorder.start(Region::format(memory(8192), &OPTIONS).unwrap());
    recorder.set_filter(Some(&FILTER));
    recorder.exit(recorder.enter(0x9010));
    assert_eq!(events(&snapshot(recorder)).0, ["1500 0 -main Some(1000)"]);
}

#[test]
fn a_threads_zone_has_its_task_and_no_cpu() {
    let (recorder, cpu) = recorder();
    let threads = Options {
        zones_of_threads: true,
        ticks_per_second: 0,
        ..OPTIONS
    };
    recorder.start(Region::format(memory(8192), &threads).unwrap());
    recorder.set_owner(1, 99, "reader");
    cpu.0.store(1, Ordering::Relaxed);
    let _ = recorder.enter(0x9010);
    let (events, _, unit) = events(&snapshot(recorder));
    assert_eq!(
        (&events[..], unit),
        (&["1 0reader +main Some(0)".to_owned()][..], TimeUnit::Ticks)
    );
}

/// Returns the calls of `main` whose entry or exit is known: start, end, pairing and task.
fn calls_of_main(image: &[u8]) -> Vec<(Option<u64>, Option<u64>, Match, i64)> {
    let symbols = |address| (address == 0x1010).then(|| "main".to_owned());
    let mut source = ZoneEvents::new(recover(image).unwrap(), Box::new(symbols));
    let mut calls = Vec::new();
    let walked = walk(&mut source, |catalog, step| {
        if let Step::Leave(slice) = step
            && slice.function.map(|name| catalog.text(name)) == Some("main")
        {
            let task = catalog.task_name(slice.task).id;
            calls.push((slice.start, slice.end, slice.matched, task));
        }
        Ok::<_, ReadError>(())
    });
    walked.unwrap();
    calls
}

#[test]
fn calls_of_unknown_threads_are_paired_within_their_own_zones() {
    let (recorder, cpu) = recorder();
    let options = Options {
        zones_of_threads: true,
        ticks_per_second: 0,
        ..OPTIONS
    };
    // Zones of 64 slots.
    let zones = 512 + 256 + 2 * (128 + 64 * 16);
    recorder.start(Region::format(memory(zones), &options).unwrap());
    let on = |zone| cpu.0.store(zone, Ordering::Relaxed);
    for zone in 0..2 {
        on(zone);
        recorder.set_owner(zone, 7 + zone as u64, "");
        recorder.task(7 + zone as u64, "");
        // The record of the thread is overwritten.
        (0..40).for_each(|_| recorder.exit(recorder.enter(0x9020)));
    }
    let enter = |zone| {
        on(zone);
        recorder.enter(0x9010)
    };
    let calls = [enter(0), enter(1)];
    for (zone, call) in calls.into_iter().enumerate() {
        on(zone);
        recorder.exit(call);
    }
    // The threads end, the first one inside a call, and others take over.
    let _ = enter(0);
    for zone in 0..2 {
        on(zone);
        recorder.set_owner(zone, 17 + zone as u64, "");
        recorder.set_depth(0);
        recorder.task(17 + zone as u64, "");
        recorder.exit(recorder.enter(0x9010));
    }
    let calls = calls_of_main(&snapshot(recorder));
    let start = calls[0].0.unwrap();
    let at = |time| Some(start + time);
    let expected = [
        (at(0), at(2), Match::Paired, -1),
        (at(1), at(3), Match::Paired, -2),
        (at(6), at(7), Match::Paired, 17),
        (at(9), at(10), Match::Paired, 18),
        (at(4), None, Match::Open, -1),
    ];
    assert_eq!(calls, expected);
}

#[test]
fn damage_and_losses_are_reported() {
    let (recorder, _) = recorder();
    recorder.start(Region::format(memory(512 + 256 + 2 * 384), &OPTIONS).unwrap());
    (0..14).for_each(|i| recorder.exit(recorder.enter(i)));
    let mut image = snapshot(recorder);
    image[512 + 256 + 3] ^= 1;
    let (events, notes, _) = events(&image);
    assert_eq!(events[0], "6500 0 lost 12");
    assert_eq!(
        notes,
        [
            "zone 0: its header is damaged, and its records are read",
            "12 slots were overwritten by newer records"
        ]
    );
}

/// An image without the bytes from `from` to `to`.
struct Holed<'i> {
    image: &'i [u8],
    from: u64,
    to: u64,
}

impl Image for Holed<'_> {
    fn len(&self) -> u64 {
        self.image.len() as u64
    }
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let is_outside = at + into.len() as u64 <= self.from || at >= self.to;
        is_outside && self.image.read(at, into)
    }
}

#[test]
fn a_hole_in_the_image_loses_only_the_records_in_it() {
    let (recorder, _) = recorder();
    recorder.start(Region::format(memory(1 << 16), &OPTIONS).unwrap());
    (0..1000).for_each(|i| _ = recorder.enter(i));
    let image = snapshot(recorder);
    let first = (512 + 256 + 128) as u64;
    let holed = Holed {
        image: &image,
        from: first + 16 * 100,
        to: first + 16 * 300,
    };
    let mut source = ZoneEvents::new(recover(holed).unwrap(), Box::new(|_| None));
    let (mut entries, mut lost) = (0, 0);
    while let Some(event) = source.next_event().unwrap() {
        match event.kind {
            EventKind::Enter { .. } => entries += 1,
            EventKind::Lost { records } => lost += records,
            _ => unreachable!(),
        }
    }
    assert_eq!((entries, lost), (800, 200));
}

#[test]
fn functions_without_a_name_are_reported() {
    static LONG: Site = Site::new(
        "a name that is longer than an area of 64 bytes: there is no room for it",
        "m",
    );
    let (recorder, _) = recorder();
    let tight = Options {
        names: 64,
        ..OPTIONS
    };
    recorder.start(Region::format(memory(8192), &tight).unwrap());
    let _ = recorder.enter_site(&LONG, None);
    let (events, notes, _) = events(&snapshot(recorder));
    assert_eq!(events, ["500 0 +? Some(0)"]);
    assert_eq!(
        notes,
        ["the names area was full: functions without a name are shown as ?"]
    );
}

//! Reading a region again while it grows.

#![cfg(feature = "report")]

mod common;

use std::sync::atomic::Ordering;

use common::{Tested, memory, recorder, snapshot};
use nostall_trace::model::{EventKind, Source};
use nostall_trace::{Options, Region, ZoneEvents, ZonePositions, recover};
use proptest::prelude::*;

const OPTIONS: Options<'_> = Options {
    zones: 2,
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
/// Length of a zone of 64 slots, and the place of the first one.
const ZONE: usize = 128 + 64 * 16;
const FIRST: usize = 512 + 256;

fn started(options: &Options<'_>) -> (&'static Tested<'static>, &'static common::Chosen) {
    let (recorder, cpu) = recorder();
    recorder.start(Region::format(memory(FIRST + 2 * ZONE), options).unwrap());
    (recorder, cpu)
}

/// Returns at most `most` events after the positions as text, and moves the positions behind them.
fn next(image: &[u8], positions: &mut ZonePositions, most: usize) -> Vec<String> {
    let region = recover(image).unwrap();
    let mut source = ZoneEvents::resume(region, Box::new(|_| None), positions);
    let mut events = Vec::new();
    while events.len() < most
        && let Some(event) = source.next_event().unwrap()
    {
        let catalog = source.catalog();
        let kind = match event.kind {
            EventKind::Enter { function, .. } => format!("+{}", catalog.text(function)),
            EventKind::Exit { function, .. } => format!("-{}", catalog.text(function.unwrap())),
            EventKind::Lost { records } => format!("lost {records}"),
            other => format!("{other:?}"),
        };
        let task = &catalog.task_name(event.task).name;
        events.push(format!("{}{task} {kind}", event.cpu));
    }
    *positions = source.positions();
    events
}

fn all(image: &[u8], positions: &mut ZonePositions) -> Vec<String> {
    next(image, positions, usize::MAX)
}

#[test]
fn a_time_that_is_not_between_its_neighbours_is_bounded_and_noted() {
    let (recorder, _) = started(&OPTIONS);
    for round in 0..12 {
        let _ = recorder.enter(round);
    }
    let genuine = snapshot(recorder);
    let word = |index: usize| FIRST + 128 + index * 16;
    let times = |image: &[u8]| {
        let mut source = ZoneEvents::new(recover(image).unwrap(), Box::new(|_| None));
        let mut times = Vec::new();
        while let Some(event) = source.next_event().unwrap() {
            times.push(event.time);
        }
        let doubt = "records have the time of the record before them";
        let noted = source.notes().iter().any(|note| note.contains(doubt));
        (times, noted)
    };
    let (right, noted) = times(&genuine);
    assert!(right.is_sorted() && !noted && right.len() == 12);
    // A time of an earlier lap, and the value of a mark.
    for wrong in [0_u64, 1 << 62] {
        for index in 1..11 {
            let mut image = genuine.clone();
            image[word(index)..][..8].copy_from_slice(&wrong.to_le_bytes());
            let (found, noted) = times(&image);
            let mut expected = right.clone();
            expected[index] = expected[index - 1];
            assert_eq!((found, noted), (expected, true), "{wrong} at {index}");
        }
    }
    // A clock that goes back for good.
    let mut image = genuine;
    for index in 6..12 {
        image[word(index)..][..8].copy_from_slice(&(index as u64).to_le_bytes());
    }
    assert!(!times(&image).1);
}

#[test]
fn events_continue_after_any_number_of_them() {
    let (recorder, cpu) = started(&OPTIONS);
    for round in 0..12 {
        cpu.0.store(round / 3 % 2, Ordering::Relaxed);
        if round % 4 == 1 {
            recorder.task(round as u64, ["first", "second", "third"][round / 4]);
        }
        let _ = recorder.enter(round as u64);
    }
    let mut image = snapshot(recorder);
    // The second entry, and the last one of the other CPU.
    let slot = |zone: usize, index: usize| FIRST + zone * ZONE + 128 + index * 16;
    image[slot(0, 3)..][..16].fill(0);
    image[slot(1, 9)..][..16].fill(0);
    let whole = all(&image, &mut ZonePositions::default());
    assert_eq!(whole.len(), 11, "{whole:?}");
    for most in 2..=whole.len() {
        let mut positions = ZonePositions::default();
        let mut parts = Vec::new();
        loop {
            let part = next(&image, &mut positions, most);
            if part.is_empty() {
                break;
            }
            parts.extend(part);
        }
        // A gap is repeated if the record after it was not read.
        parts.dedup();
        assert_eq!(parts, whole, "{most} at once");
    }
}

#[test]
fn overwritten_records_are_lost_from_the_position_on() {
    let (recorder, _) = started(&OPTIONS);
    recorder.task(7, "known");
    (0..10).for_each(|i| _ = recorder.enter(i));
    let mut positions = ZonePositions::default();
    assert_eq!(all(&snapshot(recorder), &mut positions).len(), 10);
    (0..60).for_each(|i| _ = recorder.enter(i));
    // No slot after the position is overwritten, so the task is known.
    let events = all(&snapshot(recorder), &mut positions);
    assert_eq!((&*events[0], events.len()), ("0known +0x0", 60));
    (0..70).for_each(|i| _ = recorder.enter(i));
    let events = all(&snapshot(recorder), &mut positions);
    assert_eq!(events[..2], ["0 lost 6", "0 +0x6"]);
    assert_eq!(events.len(), 65);
    assert!(all(&snapshot(recorder), &mut positions).is_empty());
}

#[test]
fn a_zone_that_cannot_be_read_once_keeps_its_position() {
    let (recorder, cpu) = started(&OPTIONS);
    let mut positions = ZonePositions::default();
    for zone in 0..2 {
        cpu.0.store(zone, Ordering::Relaxed);
        (0..3).for_each(|i| _ = recorder.enter(i));
    }
    let image = snapshot(recorder);
    assert_eq!(all(&image, &mut positions).len(), 6);
    assert!(all(&image[..FIRST + ZONE], &mut positions).is_empty());
    assert!(all(&image, &mut positions).is_empty());
}

#[test]
fn a_new_owner_of_a_zone_has_its_own_task() {
    let options = Options {
        zones_of_threads: true,
        ..OPTIONS
    };
    let (recorder, _) = started(&options);
    let mut positions = ZonePositions::default();
    recorder.set_owner(0, 7, "first");
    let _ = recorder.enter(1);
    assert_eq!(all(&snapshot(recorder), &mut positions), ["0first +0x1"]);
    recorder.task(9, "fibre");
    assert!(all(&snapshot(recorder), &mut positions).is_empty());
    let _ = recorder.enter(2);
    assert_eq!(all(&snapshot(recorder), &mut positions), ["0fibre +0x2"]);
    recorder.set_owner(0, 8, "second");
    let _ = recorder.enter(3);
    assert_eq!(all(&snapshot(recorder), &mut positions), ["0second +0x3"]);
}

#[test]
fn an_unknown_thread_stays_the_same_task() {
    let options = Options {
        zones_of_threads: true,
        ..OPTIONS
    };
    let (recorder, cpu) = started(&options);
    let mut positions = ZonePositions::default();
    let mut looks = Vec::new();
    for _ in 0..2 {
        for zone in [1, 0] {
            cpu.0.store(zone, Ordering::Relaxed);
            let _ = recorder.enter(1);
        }
        let image = snapshot(recorder);
        let region = recover(&image[..]).unwrap();
        let mut source = ZoneEvents::resume(region, Box::new(|_| None), &positions);
        let mut tasks = Vec::new();
        while let Some(event) = source.next_event().unwrap() {
            tasks.push(source.catalog().task_name(event.task).clone());
        }
        positions = source.positions();
        looks.push(tasks);
    }
    assert_ne!(looks[0][0], looks[0][1]);
    assert_eq!(looks[0], looks[1]);
}

#[test]
fn records_after_a_step_back_of_the_clock_are_new() {
    let (recorder, _) = started(&OPTIONS);
    let mut positions = ZonePositions::default();
    let _ = recorder.enter(1);
    let mut image = snapshot(recorder);
    let at = FIRST + 128;
    image[at..at + 8].copy_from_slice(&1_000_u64.to_ne_bytes());
    assert_eq!(all(&image, &mut positions), ["0 +0x1"]);
    let _ = recorder.enter(2);
    assert_eq!(all(&snapshot(recorder), &mut positions), ["0 +0x2"]);
}

#[test]
fn all_records_of_a_region_that_was_begun_again_are_new() {
    for boot in [OPTIONS.boot, 2] {
        let mut positions = ZonePositions::default();
        let (recorder, _) = started(&OPTIONS);
        recorder.task(7, "earlier");
        (0..4).for_each(|i| _ = recorder.enter(i));
        assert_eq!(all(&snapshot(recorder), &mut positions).len(), 4);
        let (recorder, _) = started(&Options { boot, ..OPTIONS });
        let _ = recorder.enter(5);
        let image = snapshot(recorder);
        assert_eq!(all(&image, &mut positions), ["0 +0x5"]);
        assert!(all(&image, &mut positions).is_empty());
    }
}

#[test]
fn a_damaged_head_repeats_no_record() {
    let (recorder, _) = started(&OPTIONS);
    // More laps than the slots count.
    (0..64 * 20).for_each(|i| _ = recorder.enter(i));
    let mut positions = ZonePositions::default();
    let mut image = snapshot(recorder);
    assert_eq!(all(&image, &mut positions).len(), 65);
    let head = FIRST + 0x40;
    let whole = image[head..head + 8].to_vec();
    image[head..head + 8].fill(0);
    assert_eq!(all(&image, &mut ZonePositions::default()).len(), 53);
    assert!(all(&image, &mut positions).is_empty());
    image[head..head + 8].copy_from_slice(&whole);
    assert!(all(&image, &mut positions).is_empty());
}

proptest! {
    #[test]
    fn no_record_of_a_damaged_region_is_read_twice(
        records in 0_u64..200,
        damage in proptest::collection::vec((512..FIRST + 2 * ZONE, any::<u8>()), 0..40),
    ) {
        let (recorder, cpu) = started(&OPTIONS);
        for number in 0..records {
            cpu.0.store((number / 7 % 2) as usize, Ordering::Relaxed);
            if number % 5 == 0 {
                recorder.task(number, "task");
            }
            recorder.exit(recorder.enter_with(number, number));
        }
        let mut image = snapshot(recorder);
        for (at, byte) in damage {
            image[at] = byte;
        }
        let mut positions = ZonePositions::default();
        all(&image, &mut positions);
        let again = all(&image, &mut positions);
        prop_assert!(again.is_empty(), "{again:?}");
    }
}

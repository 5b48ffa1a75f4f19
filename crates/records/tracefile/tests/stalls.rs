//! Stalls and counts of nostall's drivers, in a recording.

#[path = "../../../drivers/trace/tests/common/mod.rs"]
mod common;

use std::panic::Location;
use std::sync::atomic::AtomicUsize;

use common::{Chosen, Count, memory};
use nostall_io::{Counter, Held, Stall, StallCondition, StallHook, count, set_stall_hook};
use nostall_trace::{Options, Recorder, Region, recover};
use nostall_tracefile::ZoneEvents;
use nostall_tracefile::model::{EventKind, Source};

static CPU: Chosen = Chosen(AtomicUsize::new(0));
static RECORDER: common::Tested<'static> = Recorder::new(Count::new(), &CPU);
static HOOK: &dyn StallHook = &RECORDER;

#[test]
fn a_stall_has_its_condition_its_place_and_its_duration_and_counters_have_their_sums() {
    let options = Options {
        zones: 1,
        names: 4096,
        ..Options::default()
    };
    RECORDER.start(Region::format(memory(1 << 16), &options).unwrap());
    set_stall_hook(&HOOK);
    count(Counter::UartBytes, 16);
    let (held, line) = (Held::begin(StallCondition::Transmitter), line!());
    count(Counter::UartBytes, 4);
    drop(held);
    // Direct calls, as in a driver.
    let begin = RECORDER.now();
    RECORDER.stalled(&Stall {
        condition: StallCondition::Lock,
        place: Location::caller(),
        begin,
    });
    let region = recover(RECORDER.dump().unwrap()).unwrap();
    let mut events = ZoneEvents::new(region, Box::new(|_| None));
    let mut found = Vec::new();
    while let Some(event) = events.next_event().unwrap() {
        let catalog = events.catalog();
        found.push(match event.kind {
            EventKind::Counter { counter, value } => format!("{} {value}", catalog.text(counter)),
            EventKind::Stall {
                condition,
                place,
                duration,
            } => {
                let place = place.map_or("", |place| catalog.text(place));
                format!("{} {place} {duration}", catalog.text(condition))
            }
            other => panic!("{other:?}"),
        });
    }
    let file = file!();
    assert_eq!(found[0], "uart-bytes 16");
    assert_eq!(found[1], "uart-bytes 20");
    // The clock advances by one with each read: begin, the counter, and the end.
    assert_eq!(found[2], format!("transmitter {file}:{line} 2"));
    assert!(found[3].starts_with("lock "), "{}", found[3]);
    assert_eq!(found.len(), 4);
}

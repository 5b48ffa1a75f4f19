//! Regions that no recorder wrote, and damaged regions: reading is bounded and never panics. No
//! record has a word that was not written.

use crate::common;

use std::collections::HashSet;
use std::sync::atomic::Ordering;

use common::{memory, recorder, snapshot};
use nostall_trace::layout::{HEAD, LONGEST_NAME, RegionHeader, SLOT};
use nostall_trace::{Event, Options, Record, Region, Site, recover};
use proptest::prelude::*;

/// Reads everything and returns the records.
fn read(image: &[u8]) -> Vec<Record> {
    let Ok(recovered) = recover(image) else {
        return Vec::new();
    };
    let mut buffer = [0; LONGEST_NAME];
    for number in [0, 1, 2, 7, 1 << 20, u32::MAX] {
        recovered.name(number, &mut buffer);
    }
    // Each record takes a slot, or is a gap before one.
    let most = 2 * image.len() / SLOT + 2;
    let mut all = Vec::new();
    for zone in recovered.zones() {
        let before = all.len();
        all.extend(recovered.records(zone).take(most + 1));
        assert!(all.len() - before <= most);
        _ = (zone.owner_id(image), zone.owner_name(image));
    }
    if let Some(merged) = recovered.merged::<4>() {
        assert!(merged.count() <= 4 * most);
    }
    all
}

/// Returns a region with records of three CPUs, some of them overwritten.
fn region() -> Vec<u8> {
    static BYTES: Site = Site::new("bytes", "m");
    let (recorder, cpu) = recorder();
    let options = Options {
        zones: 3,
        names: 64,
        boot: 3,
        ..Options::default()
    };
    recorder.start(Region::format(memory(4096), &options).unwrap());
    for i in 0..120 {
        cpu.0.store(i as usize % 3, Ordering::Relaxed);
        let call = recorder.enter_with(i, !i);
        recorder.counter(&BYTES, i as i64);
        recorder.exit(call);
    }
    snapshot(recorder)
}

/// Checks that all entries and samples of `found` are in `whole`. An entry's argument may be
/// missing, because it has a slot of its own.
fn check_subset(found: &[Record], whole: &[Record]) {
    let known: HashSet<_> = whole
        .iter()
        .map(|it| (it.time, it.zone, it.event))
        .collect();
    let function = |event| match event {
        Event::Enter { function, .. } => Some(function),
        _ => None,
    };
    let calls: HashSet<_> = whole
        .iter()
        .map(|it| (it.time, it.zone, function(it.event)))
        .collect();
    for record in found {
        let Record {
            time, zone, event, ..
        } = *record;
        let was_written = match event {
            Event::Lost { .. } => true,
            Event::Enter { argument: None, .. } => calls.contains(&(time, zone, function(event))),
            _ => known.contains(&(time, zone, event)),
        };
        assert!(was_written, "{record:?}");
    }
}

/// Returns the offsets of lengths and of words that change while recording.
fn interesting(image: &[u8]) -> Vec<usize> {
    let header = RegionHeader::decode(image.first_chunk().unwrap()).unwrap();
    let zones = (0..3).map(|zone| header.first_zone() as usize + zone * header.zone_len as usize);
    let of_zones =
        zones.flat_map(|zone| [0, 8, 0x10, 0x18, HEAD, HEAD + 8, 0x58].map(|at| zone + at));
    let of_region = [
        0, 8, 0x10, 0x18, 0x20, 0x28, 0x50, 0x58, 0xc0, 0xc8, 0xd0, 512,
    ];
    of_zones.chain(of_region).collect()
}

proptest! {
    #[test]
    fn random_bytes_are_read_in_bounded_time(mut image in proptest::collection::vec(any::<u8>(), 0..4096), magic in 0u8..3) {
        let whole = region();
        if magic > 0 && image.len() >= 16 {
            image[..12].copy_from_slice(&whole[..12]);
        }
        if magic > 1 && image.len() >= 1024 {
            image[..512].copy_from_slice(&whole[..512]);
        }
        read(&image);
    }

    #[test]
    fn any_word_of_a_header_may_have_any_value(which: prop::sample::Index, value: u64, small in 0u64..70, use_small: bool) {
        let mut image = region();
        let places = interesting(&image);
        let at = places[which.index(places.len())];
        let value = if use_small { small } else { value };
        let whole = read(&image);
        image[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        check_subset(&read(&image), &whole);
    }

    #[test]
    fn a_region_that_ends_anywhere_is_readable(len in 0usize..4096) {
        let image = region();
        let cut = &image[..len.min(image.len())];
        check_subset(&read(cut), &read(&image));
    }

    #[test]
    fn a_cut_while_a_region_is_formatted_leaves_whole_records_of_the_old_one(words in 0usize..520) {
        let old = region();
        // The stores of a format in the order of `Region::format`: the magic, the zones, the names,
        // the header.
        let header = RegionHeader::decode(old.first_chunk().unwrap()).unwrap();
        let mut image = old.clone();
        let first = header.first_zone() as usize;
        let pairs = (first..image.len()).step_by(16).flat_map(|at| [at + 8, at]);
        let order = std::iter::once(0).chain(pairs).chain((512..first).step_by(8));
        for at in order.take(words) {
            image[at..at + 8].fill(0);
        }
        check_subset(&read(&image), &read(&old));
    }
}

#![no_main]
//! Reads arbitrary bytes as a trace region: no panic, and a bounded number of records and events.

use libfuzzer_sys::fuzz_target;
use nostall_trace::layout::{LONGEST_NAME, REGION_HEADER, RegionHeader};
use nostall_trace::recover;
use nostall_tracefile::ZoneEvents;
use nostall_tracefile::model::Source;

fuzz_target!(|data: (bool, &[u8])| {
    let (sealed, bytes) = data;
    let mut image = bytes.to_vec();
    // With a correct checksum, the reader uses the other fields.
    if sealed
        && let Some(header) = image.first_chunk_mut::<REGION_HEADER>()
        && let Ok(decoded) = RegionHeader::decode_unchecked(header)
    {
        *header = decoded.encode();
    }
    let Ok(region) = recover(&image[..]) else {
        return;
    };
    let most = 2 * image.len() / 16 + 2;
    let mut buffer = [0; LONGEST_NAME];
    region.name(1, &mut buffer);
    for zone in region.zones() {
        assert!(region.records(zone).count() <= most);
    }
    let mut events = ZoneEvents::new(region, Box::new(|_| None));
    let mut count = 0;
    while let Ok(Some(_)) = events.next_event() {
        count += 1;
    }
    let progress = events.progress();
    assert!(count <= most && progress.done == progress.total);
});

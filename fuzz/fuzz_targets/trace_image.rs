//! Reads traces of nostall-trace in arbitrary memory: no panic, and no more events than the
//! memory has slots.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::Memory;
use nostall_postmortem::trace_region::FirstTrace;
use nostall_trace::layout::{Order, REGION_HEADER, RegionHeader, SLOT, ZONE_HEADER, ZoneHeader};
use nostall_tracefile::model::Source;

fuzz_target!(|memory: &[u8]| {
    let mut memory = memory.to_vec();
    set_checksums(&mut memory);
    let slots = (memory.len() / SLOT) as u64;
    let Ok(image) = Memory::from_bytes(memory) else {
        return;
    };
    for region in Discovery::within(&image, 0..u64::MAX, None).traces(&[]) {
        assert!(region.bytes.missing_bytes() <= region.bytes.len());
        if let Ok(mut source) = region.source(None) {
            // Each zone may have an event for its losses.
            assert!(events(&mut source) <= slots + u64::from(region.header.zones));
        }
    }
    let first = FirstTrace::of(Discovery::within(&image, 0..u64::MAX, None).traces(&[]));
    if let Some(mut source) = first.and_then(|first| first.open(image, None)) {
        events(&mut source);
    }
});

fn events(source: &mut dyn Source) -> u64 {
    let mut events = 0;
    while let Ok(Some(_)) = source.next_event() {
        events += 1;
    }
    events
}

/// Corrects the checksums of headers, which a fuzzer does not find.
fn set_checksums(memory: &mut [u8]) {
    for at in (0..memory.len()).step_by(64) {
        let rest = &mut memory[at..];
        if let Some(bytes) = rest.first_chunk_mut::<REGION_HEADER>()
            && let Ok(header) = RegionHeader::decode_unchecked(bytes)
        {
            bytes[..0xc4].copy_from_slice(&header.encode()[..0xc4]);
        }
        if let Some(bytes) = rest.first_chunk_mut::<ZONE_HEADER>() {
            let order = match &bytes[..8] {
                b"NOSTZONE" => Order::Little,
                b"ENOZTSON" => Order::Big,
                _ => continue,
            };
            let header = ZoneHeader {
                order,
                zone: bytes[0x0c].into(),
                boot: bytes[0x10].into(),
                slots: 8 << (bytes[0x18] % 8),
            };
            bytes[..0x20].copy_from_slice(&header.encode()[..0x20]);
        }
    }
}

//! Logs into a ring, damages its image and decodes it: decoding is bounded, and undamaged
//! records are those that were logged. Also decodes arbitrary bytes as an image.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nostall_console::layout::{HEADER_BYTES, SLOT_BYTES};
use nostall_console::{Cursor, Level, Meta, Priority, Read, Ring};
use nostall_io::Nanos;
use nostall_postmortem::log_ring::{self, LogEntry};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    slots: u8,
    texts: Vec<(u8, &'a str, &'a [u8])>,
    reads: u8,
    /// Positions of changed bytes, and the changes.
    flips: Vec<(u16, u8)>,
    cut: u16,
    raw: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    walk(input.raw);
    let mut whole = input.raw.to_vec();
    for (at, byte) in
        b"nostall log ring\x01\x08\x70\x00\x02\x01\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00"
            .iter()
            .enumerate()
    {
        if let Some(place) = whole.get_mut(at) {
            *place = *byte;
        }
    }
    walk(&whole);

    let slots = 2 + usize::from(input.slots % 40);
    let whole = HEADER_BYTES + slots * SLOT_BYTES;
    let mut memory = vec![0xaa; whole.next_multiple_of(64) + 63];
    let ring = Ring::in_memory(&mut memory).unwrap();
    let mut cursor = Cursor::START;
    let mut logged = Vec::new();
    for (what, target, text) in &input.texts {
        let meta = Meta {
            time: Nanos((*what).into()),
            cpu: u16::from(*what) * 257,
            level: Level::from_number(*what),
            priority: [Priority::Normal, Priority::Emergency, Priority::Panic]
                [usize::from(*what) % 3],
            target,
        };
        let said = ring.log(&meta, text);
        assert!(said.records <= ring.longest_run());
        logged.extend(vec![meta.cpu; said.records]);
        for _ in 0..input.reads % 4 {
            if let Read::Record(record) = cursor.read(ring) {
                assert_eq!(record.cpu, logged[record.sequence as usize - 1]);
            }
        }
    }
    while let Read::Record(record) = cursor.read(ring) {
        assert_eq!(record.cpu, logged[record.sequence as usize - 1]);
    }
    assert_eq!(cursor.next.max(1) as usize, logged.len() + 1);

    let skip = memory.as_ptr().align_offset(64);
    let image = &mut memory[skip..][..whole];
    if !logged.is_empty() {
        let held = log_ring::decode(image).unwrap().records().count();
        assert_eq!(held, logged.len().min(slots));
    }
    for (at, by) in &input.flips {
        let at = usize::from(*at) % image.len();
        image[at] ^= by;
    }
    let end = image.len() - usize::from(input.cut) % image.len();
    walk(if input.cut % 2 == 0 {
        image
    } else {
        &image[..end]
    });
});

/// Calls every function of an image.
fn walk(bytes: &[u8]) {
    for at in log_ring::find(bytes) {
        assert!(bytes[at..].starts_with(b"nostall log ring"));
    }
    let Ok(image) = log_ring::decode(bytes) else {
        return;
    };
    assert!(image.size() <= bytes.len());
    let _ = (image.cut(), image.sent());
    let mut last = u32::MAX;
    let mut count = 0;
    let slots = image.slots() as u64;
    for found in image.records() {
        let sequence = match found {
            LogEntry::Record(record) => {
                assert!(record.text().len() + record.target().len() <= 92);
                let line = record.to_string();
                assert!(line.lines().count() <= 1, "{line}");
                record.sequence
            }
            LogEntry::Unfinished(sequence) => sequence,
        };
        // Ages count from the newest record, because sequences may have wrapped since the oldest
        // one.
        let age = image.newest().wrapping_sub(sequence) as u32;
        assert!(age < last);
        assert!((1..=slots).contains(&image.since(sequence)));
        last = age;
        count += 1;
    }
    assert!(count + image.missing() <= image.slots());
}

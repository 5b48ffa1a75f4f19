//! A ring is used, its image damaged, and decoded: bounded, and what was not damaged is
//! what was logged. And arbitrary bytes as an image.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nostall_console::image::{self, Found};
use nostall_console::{Cursor, Level, Meta, Priority, Read, Ring};
use nostall_io::Nanos;

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    slots: u8,
    texts: Vec<(u8, &'a str, &'a [u8])>,
    reads: u8,
    /// Where a byte changes, and how.
    flips: Vec<(u16, u8)>,
    cut: u16,
    raw: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    walk(input.raw);
    let mut whole = input.raw.to_vec();
    for (at, byte) in b"nostall log ring\x01\x08\x02\x07\x02\x01"
        .iter()
        .enumerate()
    {
        if let Some(place) = whole.get_mut(at) {
            *place = *byte;
        }
    }
    walk(&whole);

    let slots = 1 << (1 + input.slots % 5);
    let mut memory = vec![0xaa; 128 * (slots + 1) + 63];
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
    assert_eq!(cursor.next as usize, logged.len() + 1);

    let skip = memory.as_ptr().align_offset(64);
    let image = &mut memory[skip..][..128 * (slots + 1)];
    if !logged.is_empty() {
        let held = image::decode(image).unwrap().records().count();
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

/// Everything there is to ask of an image.
fn walk(bytes: &[u8]) {
    for at in image::find(bytes) {
        assert!(bytes[at..].starts_with(b"nostall log ring"));
    }
    let Ok(image) = image::decode(bytes) else {
        return;
    };
    assert!(image.size() <= bytes.len());
    let _ = (image.cut(), image.sent());
    let mut last = 0;
    let mut count = 0;
    for found in image.records() {
        let sequence = match found {
            Found::Record(record) => {
                assert!(record.text().len() + record.target().len() <= 104);
                let line = record.to_string();
                assert!(line.lines().count() <= 1, "{line}");
                record.sequence
            }
            Found::Unfinished(sequence) => sequence,
        };
        assert!(sequence > last && sequence <= image.newest());
        last = sequence;
        count += 1;
    }
    assert!(count <= image.slots());
}

//! The ring compared with a model, and its image.

use std::fmt::Write;

use crate::common::{META, of};
use nostall_console::layout::{HEADER_BYTES, PAYLOAD, SLOT_BYTES};
use nostall_console::{Cursor, Meta, Priority, Read, Ring, Slot};
use nostall_postmortem::log_ring::{self, LogEntry, NotARing};
use proptest::prelude::*;

#[test]
fn a_reader_sees_every_record_once_and_counts_what_it_lost() {
    let ring = Ring::<[Slot; 4]>::new();
    let mut cursor = Cursor::START;
    assert_eq!(cursor.read(&ring), Read::Empty);
    for n in 0..10 {
        ring.format(&META, format_args!("{n}"));
    }
    let mut seen = Vec::new();
    while let Read::Record(record) = cursor.read(&ring) {
        seen.push(String::from_utf8(record.text().to_vec()).unwrap());
    }
    assert_eq!(seen, ["6", "7", "8", "9"]);
    assert_eq!(cursor.lost, 6);
}

#[test]
fn records_are_equal_whatever_their_slots_held_before() {
    let record = |before: &[u8]| {
        let ring = Ring::<[Slot; 2]>::new();
        ring.log(&META, before);
        ring.log(&META, before);
        ring.log(&META, b"text");
        let mut cursor = Cursor {
            next: ring.newest(),
            lost: 0,
        };
        cursor.read(&ring)
    };
    assert_eq!(record(b""), record(&[b'x'; PAYLOAD]));
}

#[test]
fn a_target_and_a_text_of_any_size_are_read_back() {
    let ring = Ring::<[Slot; 2]>::new();
    let mut cursor = Cursor::START;
    let target: String = ('A'..='`').collect();
    let text: Vec<u8> = (b'a'..).take(PAYLOAD).collect();
    let step = if cfg!(miri) { 7 } else { 1 };
    for from in (0..=target.len()).step_by(step) {
        let target = &target[from..];
        for len in (0..=PAYLOAD - target.len()).step_by(step) {
            // The slot's last record filled it.
            for _ in 0..2 {
                ring.log(&META, &[0xff; PAYLOAD]);
            }
            ring.log(&Meta { target, ..META }, &text[..len]);
            cursor.next = ring.newest();
            let Read::Record(record) = cursor.read(&ring) else {
                panic!("{target} {len}")
            };
            assert_eq!(record.target(), target.as_bytes());
            assert_eq!(record.text(), &text[..len]);
            assert_eq!((record.time, record.cpu), (META.time, META.cpu));
        }
    }
}

/// Returns the size in bytes of a ring of `slots` slots.
const fn size(slots: usize) -> usize {
    HEADER_BYTES + slots * SLOT_BYTES
}

/// Returns memory with room for the ring at any alignment.
fn room_for(slots: usize) -> Vec<u8> {
    vec![0xaa; size(slots).next_multiple_of(64) + 63]
}

/// Returns the aligned part of `memory` for the ring.
fn ring_of(memory: &mut [u8]) -> &mut [u8] {
    let skip = memory.as_ptr().align_offset(64);
    let len = (memory.len() - skip) & !63;
    &mut memory[skip..][..len]
}

#[test]
#[cfg_attr(miri, ignore = "a mebibyte")]
fn a_mebibyte_has_9360_records() {
    let mut memory = vec![0_u8; (1 << 20) + 63];
    assert_eq!(Ring::in_memory(ring_of(&mut memory)).unwrap().slots(), 9360);
    assert_eq!(size_of::<Ring<[Slot; 9360]>>(), 1 << 20);
}

#[test]
fn the_smallest_ring_has_two_records() {
    let mut memory = [0; 512 + 63];
    assert_eq!(Ring::in_memory(&mut memory).unwrap().slots(), 2);
    let mut memory = [0; 511];
    assert!(Ring::in_memory(&mut memory).is_none());
    assert!(Ring::in_memory(&mut []).is_none());
    let ring = Ring::<[Slot; 2]>::new();
    let mut cursor = Cursor::START;
    for n in 0..if cfg!(miri) { 50 } else { 1_000 } {
        assert_eq!(ring.format(&META, format_args!("{n}")).records, 1);
        let Read::Record(record) = cursor.read(&ring) else {
            panic!()
        };
        assert_eq!(record.text(), n.to_string().as_bytes());
    }
    assert_eq!(cursor.lost, 0);
}

/// The records that a ring of `slots` slots should hold.
#[derive(Default)]
struct Model {
    /// Target and text of each record, and whether it continues a line.
    records: Vec<(Vec<u8>, Vec<u8>, bool)>,
}

impl Model {
    /// Logs one record per line. A longer line is split into parts that fit, at character
    /// boundaries.
    fn log(&mut self, target: &str, text: &[u8], most: usize) {
        let target = &target.as_bytes()[..target.len().min(32)];
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let mut records = Vec::new();
        for line in text.split(|&byte| byte == b'\n') {
            let mut rest = line;
            let mut first = true;
            loop {
                let room = if first {
                    PAYLOAD - target.len()
                } else {
                    PAYLOAD
                };
                let mut at = rest.len().min(room);
                if at < rest.len() {
                    let back = (0..4).find(|n| rest[at - n] & 0xc0 != 0x80);
                    at -= back.unwrap_or(0);
                }
                let target = if first { target } else { b"" };
                records.push((target.to_vec(), rest[..at].to_vec(), !first));
                rest = &rest[at..];
                first = false;
                if rest.is_empty() {
                    break;
                }
            }
        }
        records.truncate(most);
        self.records.extend(records);
    }
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-z ]{0,80}".prop_map(String::into_bytes),
        "[a-z\u{e4}\u{20ac}\u{1f600}\n]{0,200}".prop_map(String::into_bytes),
        proptest::collection::vec(any::<u8>(), 0..400),
    ]
}

proptest! {
    #[test]
    #[cfg_attr(miri, ignore = "regular expressions take minutes")]
    fn a_ring_has_the_newest_records_of_a_list(
        slots in 2_usize..130,
        texts in proptest::collection::vec(("[a-z:]{0,40}", text(), 0..3_usize), 1..60),
    ) {
        let mut memory = room_for(slots);
        let ring = Ring::in_memory(&mut memory).unwrap();
        prop_assert_eq!(ring.slots(), slots);
        let mut model = Model::default();
        let mut cursor = Cursor::START;
        let mut next = 0;
        for (target, text, reads) in &texts {
            let target = target.as_str();
            let begun = model.records.len();
            model.log(target, text, ring.longest_run());
            let logged = ring.log(&Meta { target, ..META }, text);
            prop_assert_eq!(logged.records, model.records.len() - begun);
            prop_assert_eq!(ring.newest() as usize, model.records.len());
            for _ in 0..*reads {
                match cursor.read(ring) {
                    Read::Record(record) => {
                        let oldest = model.records.len().saturating_sub(slots);
                        next = next.max(oldest);
                        let (target, text, continued) = &model.records[next];
                        prop_assert_eq!(record.target(), &target[..]);
                        prop_assert_eq!(record.text(), &text[..]);
                        prop_assert_eq!(record.continued, *continued);
                        prop_assert_eq!(record.adjoins, *continued);
                        next += 1;
                        prop_assert_eq!(record.sequence as usize, next);
                        prop_assert_eq!(cursor.next as usize, next + 1);
                    }
                    Read::Empty => prop_assert_eq!(next, model.records.len()),
                    Read::Pending => prop_assert!(false),
                }
            }
        }
        // An image yields every record that is still there.
        let newest = ring.newest();
        let cut = ring.cut();
        let image = log_ring::decode(ring_of(&mut memory)).unwrap();
        prop_assert_eq!((image.newest(), image.cut(), image.slots()), (newest, cut, slots));
        let held: Vec<_> = image.records().collect();
        let oldest = model.records.len().saturating_sub(slots);
        prop_assert_eq!(held.len(), model.records.len() - oldest);
        for (found, (target, text, _)) in held.iter().zip(&model.records[oldest..]) {
            let LogEntry::Record(record) = found else { panic!() };
            prop_assert_eq!(record.target(), &target[..]);
            prop_assert_eq!(record.text(), &text[..]);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "regular expressions take minutes")]
    fn formatted_parts_are_logged_as_one_text(parts in proptest::collection::vec("[a-z\u{e4} ]{0,90}\n{0,2}[a-z]{0,90}", 0..6)) {
        let ring = Ring::<[Slot; 256]>::new();
        let whole = parts.concat();
        struct Parts<'a>(&'a [String]);
        impl std::fmt::Display for Parts<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                // Every other part as padding comes: a character at a time.
                self.0.iter().enumerate().try_for_each(|(n, part)| match n % 2 {
                    0 => f.write_str(part),
                    _ => part.chars().try_for_each(|character| f.write_char(character)),
                })
            }
        }
        ring.format(&META, format_args!("{}", Parts(&parts)));
        let mut room = vec![0; 1 << 16];
        let formatted = ring.tail(&mut room).to_vec();
        let other = Ring::<[Slot; 256]>::new();
        other.log(&META, whole.as_bytes());
        prop_assert_eq!(formatted, other.tail(&mut room));
    }

    #[test]
    fn a_damaged_image_is_read_or_refused(
        flips in proptest::collection::vec((0..size(9), any::<u8>()), 0..40),
        len in 0..=size(9),
    ) {
        let mut memory = room_for(9);
        let ring = Ring::in_memory(&mut memory).unwrap();
        for n in 0..20 {
            ring.format(&of(Priority::Panic), format_args!("{n}"));
        }
        let image = ring_of(&mut memory);
        for (at, by) in flips {
            image[at] ^= by;
        }
        if let Ok(image) = log_ring::decode(&image[..len]) {
            prop_assert!(image.records().count() <= image.slots());
            prop_assert!(image.size() <= len);
        }
    }
}

#[test]
fn an_image_that_is_not_a_ring_gives_the_reason() {
    let mut memory = room_for(9);
    let ring = Ring::in_memory(&mut memory).unwrap();
    ring.log(&META, b"x");
    let image = ring_of(&mut memory).to_vec();
    let why = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut image = image.clone();
        change(&mut image);
        log_ring::decode(&image).err()
    };
    assert_eq!(why(&|_| ()), None);
    assert_eq!(why(&|image| image[3] = 0), Some(NotARing::Signature));
    assert_eq!(why(&|image| image.truncate(50)), Some(NotARing::Signature));
    assert_eq!(why(&|image| image[16] = 9), Some(NotARing::Version(9)));
    assert_eq!(why(&|image| image[17] = 5), Some(NotARing::Sizes));
    assert_eq!(why(&|image| image[18] = 128), Some(NotARing::Sizes));
    assert_eq!(why(&|image| image[20] = 7), Some(NotARing::Sizes));
    let slots = |slots: u64| {
        why(&move |image: &mut Vec<u8>| image[24..32].copy_from_slice(&slots.to_ne_bytes()))
    };
    for impossible in [0, 1, u64::MAX, u64::MAX / 112, 1 << 60] {
        assert_eq!(slots(impossible), Some(NotARing::Sizes));
    }
    assert!(matches!(slots(10), Some(NotARing::Short { .. })));
    let whole = size(9);
    assert_eq!(
        why(&|image| image.truncate(600)),
        Some(NotARing::Short { whole })
    );
    let mut dump = vec![0; 4096];
    dump.extend(&image);
    assert_eq!(log_ring::find(&dump).collect::<Vec<_>>(), [4096]);
    // A text that resembles a ring is refused, and so are two rings.
    dump[4096 + 256 + 64..][..64].copy_from_slice(&image[..64]);
    dump.extend(&image);
    dump.extend(&image[..640]);
    let next = image.len();
    assert_eq!(
        log_ring::find(&dump).collect::<Vec<_>>(),
        [4096, 4096 + next, 4096 + 2 * next]
    );
}

#[test]
fn images_of_32_bit_and_big_endian_machines_are_read() {
    // A ring of three slots: its header, and one record with sequence 3 in slot 0.
    for big in [false, true] {
        for word in [4_usize, 8] {
            let n = |value: u64, bytes: usize| {
                let le = &value.to_le_bytes()[..bytes];
                let mut bytes = le.to_vec();
                if big {
                    bytes.reverse();
                }
                bytes
            };
            let mut image = vec![0; size(3)];
            let mut put =
                |at: usize, bytes: &[u8]| image[at..][..bytes.len()].copy_from_slice(bytes);
            put(0, b"nostall log ring");
            put(16, &[1, word as u8, 112, 0]);
            put(20, &n(0x0102, 2));
            put(24, &n(3, 8));
            put(64, &n(3, word));
            put(64 + 4 * word, &n(3, word));
            put(256, &n(6, word));
            put(256 + word, &n(77, 8));
            put(256 + word + 8, &[4, 1, 3, 5, 9, 1, 0, 0]);
            put(256 + word + 16, b"pcihello");
            let image = log_ring::decode(&image).unwrap();
            let found: Vec<_> = image.records().collect();
            let [LogEntry::Record(record)] = found[..] else {
                panic!("{found:?}")
            };
            assert_eq!((record.time.0, record.cpu, record.sequence), (77, 265, 3));
            assert_eq!(
                (record.target(), record.text()),
                (&b"pci"[..], &b"hello"[..])
            );
            assert_eq!(record.priority, Priority::Emergency);
            assert_eq!(image.sent(), [3, 0, 0, 0]);
        }
    }
}

#[test]
fn an_image_gives_missing_records_and_ages_before_and_after_a_wrap() {
    // A ring of eight slots, with the state words of these sequences.
    let image = |word: usize, newest: u64, there: &[u64], hole: u64| {
        let mut image = vec![0; size(8)];
        let mut put = |at: usize, number: u64, bytes: usize| {
            image[at..][..bytes].copy_from_slice(&number.to_le_bytes()[..bytes]);
        };
        put(64, newest, word);
        put(16, 1, 1);
        put(17, word as u64, 1);
        put(18, 112, 1);
        put(20, 0x0102, 2);
        put(24, 8, 8);
        let holes = if word == 4 { 40 } else { 16 };
        put(64 + 8 * word + hole as usize % holes * word, hole, word);
        for sequence in there {
            put(size(*sequence as usize % 8), sequence << 1, word);
        }
        image[..16].copy_from_slice(b"nostall log ring");
        image
    };
    for word in [4, 8] {
        // Record 12 is damaged. The slot of record 14 was occupied by record 6.
        let bytes = image(word, 17, &[10, 11, 13, 6, 15, 16, 17], 14);
        let image = log_ring::decode(&bytes).unwrap();
        assert_eq!((image.records().count(), image.missing()), (6, 1));
        let since = [10, 17, 18, 30].map(|sequence| image.since(sequence));
        assert_eq!(since, [8, 1, 0, 0]);
    }
    // Record 2 is damaged. Older records are in other slots than before the wrap, so their state is
    // unknown.
    let last = u64::from(u32::MAX);
    let bytes = image(4, 3, &[last - 3, last - 2, last - 1, last, 1, 3], 0);
    let image_of_32 = log_ring::decode(&bytes).unwrap();
    assert_eq!(image_of_32.missing(), 1);
    let sequences = [last - 1, last, 1, 3, 4].map(|sequence| image_of_32.since(sequence));
    assert_eq!(sequences, [5, 4, 3, 1, 0]);
    // The newest one is the last before the wrap, or the sequence that no record has.
    for (newest, since) in [(last, [1, 0, 0]), (0, [1, 0, 0])] {
        let bytes = image(4, newest, &[last], 0);
        let image = log_ring::decode(&bytes).unwrap();
        assert_eq!([last, 1, 2].map(|sequence| image.since(sequence)), since);
    }
    // Record 5 is not yet complete.
    let bytes = image(8, 5, &[1, 2, 3, 4], 0);
    assert_eq!(log_ring::decode(&bytes).unwrap().missing(), 1);
    let bytes = image(4, 0, &[], 0);
    assert_eq!(log_ring::decode(&bytes).unwrap().missing(), 0);
}

#[test]
fn threads_that_log_at_once_count_each_loss() {
    static RING: Ring<[Slot; 67]> = Ring::new();
    const EACH: u64 = if cfg!(miri) { 10 } else { 20_000 };
    let threads: Vec<_> = (0..4_u16)
        .map(|cpu| {
            std::thread::spawn(move || {
                let meta = Meta { cpu, ..META };
                let mut records = 0;
                for n in 0..EACH {
                    let logged = RING.format(
                        &meta,
                        format_args!("{cpu} {n} {}", "x".repeat(cpu as usize * 30)),
                    );
                    records += logged.records as u64;
                }
                records
            })
        })
        .collect();
    let mut cursor = Cursor::START;
    let mut next = [0; 4];
    let mut parts = 0;
    let mut read = |cursor: &mut Cursor| match cursor.read(&RING) {
        Read::Record(record) => {
            parts += 1;
            if !record.continued {
                let text = str::from_utf8(record.text()).unwrap();
                let mut words = text.split(' ');
                let cpu: usize = words.next().unwrap().parse().unwrap();
                let n: u64 = words.next().unwrap().parse().unwrap();
                assert_eq!(cpu, usize::from(record.cpu));
                assert!(next[cpu] <= n, "out of order");
                next[cpu] = n + 1;
            }
            true
        }
        _ => false,
    };
    while threads.iter().any(|thread| !thread.is_finished()) {
        read(&mut cursor);
    }
    let logged: u64 = threads
        .into_iter()
        .map(|thread| thread.join().unwrap())
        .sum();
    while read(&mut cursor) {}
    assert_eq!(cursor.read(&RING), Read::Empty);
    assert!(logged + 100 > 4 * EACH, "{logged}");
    // The ring may count more records as lost than the threads only if a thread was overtaken by a
    // whole turn.
    assert!(parts <= logged && logged <= parts + cursor.lost);
    assert!(parts + cursor.lost < cursor.next);
}

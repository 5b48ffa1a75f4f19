//! Death of the caller at every step, without any clean-up.

use nostall_postmortem::log_ring::{self, LogEntry};

use super::*;
use sync::only;

const META: Meta<'static> = Meta {
    target: "test",
    ..super::META
};

#[test]
fn a_producer_that_dies_at_any_step_delays_no_other_and_is_counted() {
    let long = "0123456789".repeat(30);
    for text in ["short", "two\nlines", &long] {
        at_every_step(|steps| {
            let ring = Ring::<[Slot; 16]>::new();
            ring.log(&META, b"before");
            let ended = only(steps, || {
                ring.log(&META, text.as_bytes());
            });
            let begun = ring.newest();
            for n in 0..5 {
                assert_eq!(ring.format(&META, format_args!("after {n}")).records, 1);
            }
            let mut cursor = Cursor::START;
            let seen = texts(&ring, &mut cursor);
            assert_eq!(seen[0], "before");
            assert_eq!(
                seen[seen.len() - 5..],
                [0, 1, 2, 3, 4].map(|n| format!("after {n}"))
            );
            // The remaining part of the text is unchanged.
            let of_it = seen[1..seen.len() - 5].concat();
            assert!(text.replace('\n', "").starts_with(&of_it), "{of_it}");
            assert_eq!(seen.len() as u64 + cursor.lost, begun + 5);
            assert!(!ended || cursor.lost == 0);

            // Also over many turns: at most one slot is unusable.
            for n in 0..100 {
                assert_eq!(ring.format(&META, format_args!("{n}")).records, 1);
            }
            let seen = texts(&ring, &mut cursor);
            assert!(
                seen.len() >= 15 - usize::from(text != "short"),
                "{steps}: {seen:?}"
            );
            assert!(seen.is_sorted_by_key(|text| text.parse::<u32>().unwrap()));
            assert_eq!(seen.last().unwrap(), "99");
            ended
        });
    }
}

#[test]
fn records_that_find_only_slots_of_dead_producers_are_counted_as_lost() {
    for (text, dead) in [("line", 8), ("line", 11), ("two\nlines", 9)] {
        let ring = Ring::<[Slot; 32]>::new();
        let drain = Drain::new(&ring, Memory::of(99), SinkOptions::DEFAULT);
        let clock = Virtual::default();
        for _ in 0..dead {
            assert!(!only(13, || {
                ring.log(&META, b"dies");
            }));
        }
        let lines = text.split('\n').count();
        for _ in 0..300 / lines {
            ring.log(&META, text.as_bytes());
            let mut slices = 0..100_000;
            let is_empty = |_| drain.drain_bounded(0, Priority::Normal, &clock) == Next::Empty;
            assert!(slices.any(is_empty), "it never ends: {text} {dead}");
        }
        let sent = drain.sink().text();
        let sent = sent.matches("test: line").count() + sent.matches("test: two").count();
        assert!(sent < 300, "the test needs a loss: {dead}");
        assert_eq!(drain.lost(), dead + 300 - sent as u64, "{text} {dead}");
    }
}

#[test]
fn if_a_producer_has_died_in_every_slot_logged_text_is_counted_as_cut() {
    let ring = Ring::<[Slot; 4]>::new();
    // The step is between the claim of a slot and its release.
    let in_the_middle = 1 + 8 + 1 + 2 + 1;
    for _ in 0..4 {
        assert!(!only(in_the_middle, || {
            ring.log(&META, b"dies");
        }));
    }
    let logged = ring.log(&META, b"no room");
    assert_eq!(logged, Logged { records: 0, cut: 7 });
    assert_eq!(ring.cut(), 7);
    let mut cursor = Cursor::START;
    assert_eq!(texts(&ring, &mut cursor), [""; 0]);
}

#[test]
fn an_image_of_a_ring_whose_producers_died_shows_the_whole_records() {
    at_every_step(|steps| {
        let mut memory = vec![0; 1216 + 63];
        let skip = memory.as_ptr().align_offset(64);
        let bytes = &mut memory[skip..][..1216];
        let ring = Ring::in_memory(bytes).unwrap();
        assert_eq!(ring.slots(), 8);
        ring.log(&META, b"before");
        let ended = only(steps, || {
            ring.log(&META, b"dies");
        });
        ring.log(&META, b"after");
        let newest = ring.newest();
        let image = log_ring::decode(bytes).unwrap();
        assert_eq!(image.newest(), newest);
        let mut whole = Vec::new();
        let mut unfinished = 0;
        for found in image.records() {
            match found {
                LogEntry::Record(record) => whole.push(record.text().to_vec()),
                LogEntry::Unfinished(_) => unfinished += 1,
            }
        }
        assert!(unfinished <= 1 - usize::from(ended));
        assert_eq!(whole.first().unwrap(), b"before");
        assert_eq!(whole.last().unwrap(), b"after");
        assert_eq!(whole.len(), 2 + usize::from(ended));
        ended
    });
}

#[test]
fn a_record_that_is_never_completed_is_waited_for_and_then_reported_as_lost() {
    let ring = Ring::<[Slot; 16]>::new();
    let sink = Memory::of(99);
    let drain = Drain::new(&ring, sink, SinkOptions::DEFAULT);
    ring.log(&META, b"before");
    // Both producers have only taken their sequences.
    for _ in 0..2 {
        assert!(!only(1, || {
            ring.log(&META, b"dies");
        }));
    }
    ring.log(&META, b"after");
    let ms = Nanos::from_millis;
    let slice = |at| drain.drain_bounded(0, Priority::Normal, &At(ms(at).0));
    let text = || drain.sink().text();
    let before = "[    0.000000] test: before\n";
    assert_eq!(slice(100), Next::At(ms(101)));
    assert_eq!(text(), before);
    assert_eq!(slice(109), Next::At(ms(110)));
    assert_eq!(text(), before);
    // One wait was for both records.
    assert_eq!(slice(110), Next::Empty);
    assert_eq!(
        text(),
        format!("{before}[2 records lost]\n[    0.000000] test: after\n")
    );
    assert_eq!(drain.lost(), 2);
}

#[test]
fn a_record_is_not_given_up_because_another_cpus_clock_is_behind() {
    let ring = Ring::<[Slot; 16]>::new();
    let sink = Memory::of(99);
    let drain = Drain::new(&ring, sink, SinkOptions::DEFAULT);
    assert!(!only(1, || {
        ring.log(&META, b"slow");
    }));
    let ms = Nanos::from_millis;
    let slice = |at| drain.drain_bounded(0, Priority::Normal, &At(ms(at).0));
    assert_eq!(slice(100), Next::At(ms(101)));
    assert_eq!(slice(99), Next::At(ms(100)));
    assert_eq!(drain.lost(), 0);
    assert_eq!(slice(109), Next::Empty);
    assert_eq!(drain.lost(), 1);
}

#[test]
fn a_sequence_that_found_its_slot_occupied_is_not_lost() {
    let ring = Ring::<[Slot; 4]>::new();
    let sink = Memory::of(99);
    let drain = Drain::new(&ring, sink, SinkOptions::DEFAULT);
    // The producer dies in the middle of record 1, after the signature, so sequence 5 finds no
    // slot.
    assert!(!only(1 + 8 + 1 + 2 + 1, || {
        ring.log(&META, b"dies");
    }));
    for n in 2..5 {
        ring.format(&META, format_args!("{n}"));
    }
    let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
    assert_eq!(
        drain.drain_bounded(0, Priority::Normal, &At(Nanos::from_millis(10).0)),
        Next::Empty
    );
    assert_eq!(drain.lost(), 1);
    // The producer dies after it has taken its second sequence, 6.
    assert!(!only(7, || {
        ring.log(&META, b"dies");
    }));
    assert_eq!(ring.newest(), 6);
    let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
    let _ = drain.drain_bounded(0, Priority::Normal, &At(Nanos::from_secs(1).0));
    let _ = drain.drain_bounded(0, Priority::Normal, &At(Nanos::from_secs(2).0));
    assert_eq!((drain.lost(), drain.unread()), (2, 0));
}

#[test]
fn a_panic_gets_past_an_owner_that_died_at_any_step_and_nothing_is_lost() {
    for load in [1, 7, 16, 256] {
        let panic_text = "[    0.000000] test: panic!\n";
        let lines: Vec<String> = (0..4)
            .map(|n| format!("[    0.000000] test: line {n}\n"))
            .collect();
        at_every_step(|steps| {
            let ring = Ring::<[Slot; 16]>::new();
            let sink = Memory::of(load);
            let drain = Drain::new(&ring, sink, SinkOptions::DEFAULT);
            for n in 0..4 {
                ring.format(&META, format_args!("line {n}"));
            }
            let ended = only(steps, || {
                for _ in 0..40 {
                    if drain.drain_bounded(0, Priority::Normal, &At(0)) == Next::Empty {
                        break;
                    }
                }
            });
            let before = drain.sink().text().len();
            let meta = Meta {
                priority: Priority::Panic,
                ..META
            };
            ring.log(&meta, b"panic!");
            let clock = Virtual::default();
            let flushed = flush(&[&drain], 1, &clock, FlushLimits::DEFAULT);
            assert_eq!((flushed.complete, flushed.incomplete), (1, 0), "{steps}");
            assert!(clock.now() <= Nanos::from_millis(3), "{}", clock.now());
            let all = drain.sink().text();

            // The panic's text is the first after a marker.
            let after = &all[before..];
            let after = after.strip_prefix("\n{again}\n").unwrap_or(after);
            let after = after.strip_prefix("\n{cut 0}\n").unwrap_or(after);
            assert!(after.starts_with(panic_text), "{steps} {load}: {all}");
            let wanted: Vec<_> = lines.iter().map(|line| line.trim_end()).collect();
            assert_has(&all, &[panic_text.trim_end()], &wanted);
            let sent = bytes(&[&wanted[..], &[panic_text]].concat(), 1) + load;
            assert!(all.len() <= sent, "{steps} {load}: twice: {all}");
            ended
        });
    }
}

#[test]
fn a_panic_that_dies_in_a_marker_is_followed_by_the_next_cpus() {
    for load in [1, 2, 3, 6, 16] {
        at_every_step(|steps| {
            let ring = Ring::<[Slot; 16]>::new();
            let sink = Memory::of(load);
            let drain = Drain::new(&ring, sink, SinkOptions::DEFAULT);
            let panic = Meta {
                priority: Priority::Panic,
                ..META
            };
            let clock = Virtual::default();
            ring.log(&META, b"backlog");
            let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
            ring.log(&panic, b"first");
            let ended = only(steps, || {
                flush(&[&drain], 0, &clock, FlushLimits::DEFAULT);
            });
            ring.log(&panic, b"second");
            let flushed = flush(&[&drain], 1, &clock, FlushLimits::DEFAULT);
            assert_eq!((flushed.complete, flushed.incomplete), (1, 0), "{steps}");
            let all = drain.sink().text();
            let line = |text| format!("[    0.000000] test: {text}");
            let [first, second, backlog] = ["first", "second", "backlog"].map(line);
            assert_has(&all, &[&first, &second], &[&backlog]);
            ended
        });
    }
}

#[test]
fn a_panic_that_dies_in_its_flush_is_followed_by_the_next_cpus() {
    for load in [3, 16, 256] {
        at_every_step(|steps| {
            let ring = Ring::<[Slot; 16]>::new();
            let sink = Memory::of(load);
            let drain = Drain::new(&ring, sink, SinkOptions::DEFAULT);
            ring.log(&META, b"backlog");
            let meta = |cpu| Meta {
                priority: Priority::Panic,
                cpu,
                ..META
            };
            let clock = Virtual::default();
            let ended = only(steps, || {
                ring.log(&meta(0), b"first");
                flush(&[&drain], 0, &clock, FlushLimits::DEFAULT);
            });
            let has_first = texts(&ring, &mut { Cursor::START }).contains(&"first".into());
            let start = clock.now();
            let same_cpu = steps % 2;
            ring.log(&meta(1), b"second");
            let flushed = flush(&[&drain], same_cpu as u16, &clock, FlushLimits::DEFAULT);
            assert_eq!((flushed.complete, flushed.incomplete), (1, 0), "{steps}");
            assert!(clock.now() - start <= Nanos::from_millis(103));
            let all = drain.sink().text();
            assert!(all.contains("test: second\n"), "{all}");
            let line = |text| format!("[    0.000000] test: {text}");
            let [first, second, backlog] = ["first", "second", "backlog"].map(line);
            let mut panics = vec![second.as_str()];
            if has_first {
                panics.insert(0, &first);
            }
            assert_has(&all, &panics, &[&backlog]);
            let sent = bytes(&[&panics[..], &[&backlog]].concat(), 2) + load;
            assert!(all.len() <= sent, "{steps} {load}: twice: {all}");
            ended
        });
    }
}

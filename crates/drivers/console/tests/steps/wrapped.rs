//! Sequences of a 32-bit machine wrap after hours or years. Here, all words are shortly before a
//! limit. There are three limits. The sequences wrap. The slots' states have half as many values
//! and wrap earlier. From some point on, older records compare as newer.

use nostall_postmortem::log_ring::{self, LogEntry};

use super::*;
use sync::{Ordering, only};

/// Numbers of records after `BEFORE`.
const SOON: &[usize] = if cfg!(miri) {
    &[usize::MAX]
} else {
    &[usize::MAX, usize::MAX / 2, usize::MAX / 4]
};

const BEFORE: usize = if cfg!(miri) { 5 } else { 20 };

/// Number of records that a test logs.
const RECORDS: usize = if cfg!(miri) { 12 } else { 60 };

/// Returns a ring in its state after record `newest`.
fn ring<const N: usize>(newest: usize) -> Ring<[Slot; N]> {
    let ring = Ring::<[Slot; N]>::new();
    // This record writes the first bytes of the ring.
    ring.log(&META, b"first");
    ring.head.newest.store(newest, Ordering::Relaxed);
    for back in 0..N {
        let sequence = newest - back;
        let state = &ring.slots[sequence % N].state;
        state.store(sequence << 1, Ordering::Relaxed);
    }
    ring
}

fn log(ring: &Ring, priority: Priority, number: usize) {
    let logged = ring.format(&of(priority), format_args!("{number}"));
    assert_eq!(logged.records, 1);
}

/// Returns a drain that has sent every record so far.
fn up_to_date(ring: &Ring) -> Drain<'_, Memory> {
    let drain = Drain::new(ring, Memory::of(99), SinkOptions::DEFAULT);
    let next = sequence::after(ring.newest() as usize);
    drain.feed.lanes[0].next.store(next, Ordering::Relaxed);
    drain
}

/// Sends with slices until one ends without more work.
fn send(drain: &Drain<'_, Memory>, priority: Priority) {
    let ends = (0..99).any(|_| !matches!(drain.drain_bounded(0, priority, &At(0)), Next::At(_)));
    assert!(ends, "there is always more to send: {drain:?}");
}

#[test]
fn a_reader_sees_every_record_once_or_counts_it() {
    for soon in SOON {
        for every in if cfg!(miri) { 5..=7 } else { 1..=12 } {
            let ring = ring::<5>(soon - BEFORE);
            let mut cursor = Cursor::end(&ring);
            let mut seen = Vec::new();
            for n in 0..RECORDS {
                log(&ring, Priority::Normal, n);
                if n % every == every - 1 {
                    seen.extend(texts(&ring, &mut cursor));
                }
            }
            seen.extend(texts(&ring, &mut cursor));
            let numbers = seen.iter().map(|text| text.parse::<usize>().unwrap());
            assert!(numbers.is_sorted_by(|one, other| one < other), "{seen:?}");
            assert_eq!(seen.last().unwrap(), &(RECORDS - 1).to_string());
            // The sequence that no record has may count as a lost record.
            let counted = seen.len() + cursor.lost as usize;
            let all = RECORDS..=RECORDS + 1;
            assert!(all.contains(&counted), "{every} {cursor:?} {seen:?}");
            assert!(every > 1 || cursor.lost == 0);
        }
    }
}

#[test]
fn a_new_reader_sees_the_available_records() {
    for newest in [usize::MAX / 2 + 9, usize::MAX - 20] {
        let ring = ring::<5>(newest);
        (0..7).for_each(|n| log(&ring, Priority::Normal, n));
        let seen = texts(&ring, &mut { Cursor::START });
        assert_eq!(seen, ["2", "3", "4", "5", "6"]);
        let drain = Drain::new(&ring, Memory::of(999), SinkOptions::DEFAULT);
        send(&drain, Priority::Normal);
        assert!(drain.sink().text().ends_with(&format!("{P}5\n{P}6\n")));
        assert_eq!(drain.unread(), 0);
    }
}

#[test]
fn a_drain_sends_every_record_once() {
    for soon in SOON {
        let ring = ring::<11>(soon - BEFORE);
        let drain = up_to_date(&ring);
        let mut wanted = String::new();
        for n in 0..RECORDS {
            let urgent = n % 7 == 3;
            log(
                &ring,
                [Priority::Normal, Priority::Emergency][usize::from(urgent)],
                n,
            );
            if urgent {
                send(&drain, Priority::Emergency);
            }
            send(&drain, Priority::Normal);
            wanted += &format!("{P}{n}\n");
        }
        assert_eq!(drain.sink().text(), wanted);
        assert_eq!((drain.lost(), drain.unread()), (0, 0));
        ring.log(&of(Priority::Panic), b"panic");
        let flushed = flush(&[&drain], 0, &Virtual::default(), FlushLimits::DEFAULT);
        assert_eq!(flushed.complete, 1);
        assert_eq!(drain.sink().text(), format!("{wanted}{P}panic\n"));
    }
}

#[test]
fn an_emergency_is_sent_first_and_once_however_old_the_last_one_is() {
    for (last, newest) in [
        (usize::MAX - 3, usize::MAX - 1),
        (100, usize::MAX / 2 + 200),
        (100, usize::MAX - 20),
        (usize::MAX - 100, usize::MAX / 2 - 200),
    ] {
        let ring = ring::<16>(newest);
        ring.head.urgent[0].store(last, Ordering::Relaxed);
        let drain = up_to_date(&ring);
        send(&drain, Priority::Emergency);
        send(&drain, Priority::Normal);
        assert_eq!(drain.sink().text(), "");
        log(&ring, Priority::Normal, 1);
        log(&ring, Priority::Emergency, 2);
        send(&drain, Priority::Emergency);
        assert_eq!(drain.sink().text(), format!("{P}2\n"));
        send(&drain, Priority::Normal);
        assert_eq!(drain.sink().text(), format!("{P}2\n{P}1\n"));
        assert_eq!(drain.lost(), 0);
    }
}

#[test]
fn a_line_of_several_records_stays_one() {
    const SLOTS: usize = if cfg!(miri) { 16 } else { 64 };
    // The line takes two records under Miri, and five elsewhere.
    let line = "0123456789".repeat(if cfg!(miri) { 12 } else { 40 });
    for back in if cfg!(miri) { 1..2 } else { 0..12 } {
        let ring = ring::<SLOTS>(usize::MAX - back);
        let drain = up_to_date(&ring);
        ring.log(&META, line.as_bytes());
        ring.format(&META, format_args!("{line}{}", 9));
        send(&drain, Priority::Normal);
        assert_eq!(drain.sink().text(), format!("{P}{line}\n{P}{line}9\n"));
        let mut room = [0; 4096];
        let tail = str::from_utf8(ring.tail(&mut room)).unwrap();
        assert!(tail.ends_with(&drain.sink().text()), "{tail}");
    }
}

#[test]
fn a_producer_that_dies_costs_no_more_than_its_record_and_its_slot() {
    for soon in SOON {
        for back in if cfg!(miri) { 1..2 } else { 0..7 } {
            at_every_step(|steps| {
                let ring = ring::<5>(soon - back);
                let mut cursor = Cursor::end(&ring);
                let ended = only(steps, || {
                    ring.log(&META, b"99");
                });
                for n in 0..RECORDS / 3 {
                    log(&ring, Priority::Normal, n);
                    let seen = texts(&ring, &mut cursor);
                    assert_eq!(seen.last().unwrap(), &n.to_string());
                }
                let last = ring.newest() as usize;
                assert_eq!(cursor.next as usize, sequence::after(last));
                assert!(cursor.lost <= 1, "{steps} {back}: {cursor:?}");
                ended
            });
        }
    }
}

#[test]
fn an_image_and_the_tail_have_the_records_from_before_and_after() {
    let mut memory = vec![0; 1 << 10];
    let skip = memory.as_ptr().align_offset(64);
    let bytes = &mut memory[skip..][..832];
    let whole = Ring::in_memory(bytes).unwrap();
    let old = ring::<5>(usize::MAX - 4);
    whole.log(&META, b"first");
    whole.head.newest.store(usize::MAX - 4, Ordering::Relaxed);
    for (slot, old) in whole.slots.iter().zip(&old.slots) {
        slot.state
            .store(old.state.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    (0..6).for_each(|n| log(whole, Priority::Normal, n));
    let tail = whole.tail(&mut [0; 999]).to_vec();
    let found: Vec<_> = log_ring::decode(bytes).unwrap().records().collect();
    let texts: Vec<_> = found
        .iter()
        .map(|found| match found {
            LogEntry::Record(record) => record.to_string(),
            unfinished => panic!("{unfinished:?}"),
        })
        .collect();
    assert_eq!(texts.concat().as_bytes(), tail);
    assert!(
        texts.len() >= 2 && texts.concat().ends_with("4\n[    0.000000] 5\n"),
        "{texts:?}"
    );
}

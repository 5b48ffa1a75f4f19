//! By whoever logs or panics in between.

use super::*;
use owner::Owner;
use sync::{Ordering, interrupted};

#[test]
fn a_producer_that_is_overtaken_at_any_step_mixes_nothing_and_loses_nothing_uncounted() {
    for others in [1, 4, 5, 8, 9] {
        at_every_step(|steps| {
            let ring = Ring::<[Slot; 4]>::new();
            let mut cursor = Cursor::START;
            let mut seen = Vec::new();
            let was = interrupted(
                steps,
                || {
                    for n in 0..others {
                        ring.format(&META, format_args!("other {n:02}"));
                    }
                },
                || assert_eq!(ring.log(&META, b"slow").records, 1),
            );
            for n in others..others + 2 {
                ring.format(&META, format_args!("other {n:02}"));
            }
            loop {
                match cursor.read(&ring) {
                    Read::Record(record) => {
                        seen.push(String::from_utf8(record.text().to_vec()).unwrap());
                    }
                    Read::Pending => panic!("{steps} {others}: nobody is in mid-write"),
                    Read::Empty => break,
                }
            }
            let others_seen: Vec<_> = seen.iter().filter(|text| *text != "slow").collect();
            assert!(others_seen.is_sorted(), "{seen:?}");
            assert!(seen.len() as u64 + cursor.lost >= others + 3 - u64::from(!was) * others);
            !was
        });
    }
}

#[test]
fn a_reader_that_is_overtaken_at_any_step_sees_whole_records_and_counts_the_others() {
    for others in [1, 3, 4, 5, 9] {
        at_every_step(|steps| {
            let ring = Ring::<[Slot; 4]>::new();
            let log = |n: u8| assert_eq!(ring.log(&META, &[b'a' + n; 40]).records, 1);
            (0..3).for_each(log);
            let mut cursor = Cursor::START;
            let mut seen = Vec::new();
            let mut read_all = || {
                while let Read::Record(record) = cursor.read(&ring) {
                    let text = record.text();
                    assert_eq!(text, [text[0]; 40]);
                    seen.push(text[0]);
                }
            };
            let was = interrupted(steps, || (3..3 + others).for_each(log), &mut read_all);
            read_all();
            assert!(seen.is_sorted());
            assert_eq!(seen.len() as u64 + cursor.lost, ring.newest());
            !was
        });
    }
}

#[test]
fn a_panic_at_any_step_of_a_slice_that_goes_on_after_it_repeats_one_offer_at_most() {
    for load in [1, 7, 16, 256] {
        for cpu in [0, 1] {
            at_every_step(|steps| {
                let ring = Ring::<[Slot; 16]>::new();
                let drain = Drain::new(&ring, Memory::of(load), Options::DEFAULT);
                for n in 0..4 {
                    ring.format(&META, format_args!("line {n}"));
                }
                let wanted: String = (0..4).map(|n| format!("{P}line {n}\n")).collect();
                let clock = Virtual::default();
                let panic = || {
                    ring.log(&of(Priority::Panic), b"panic!");
                    let flushed = flush(&[&drain], cpu, &clock, Limits::DEFAULT);
                    assert_eq!((flushed.complete, flushed.incomplete), (1, 0));
                };
                let was = interrupted(steps, panic, || {
                    for _ in 0..40 {
                        if matches!(
                            drain.slice(0, Priority::Normal, Nanos(0)),
                            Next::Empty | Next::Busy
                        ) {
                            break;
                        }
                    }
                });
                flush(&[&drain], cpu, &clock, Limits::DEFAULT);
                let all = drain.sink().text();
                if was {
                    let line = format!("{P}panic!\n");
                    assert_eq!(all.matches(&line).count(), 1, "{steps} {load}: {all}");
                    let rest = all.replacen(&line, "", 1);
                    let rest = rest.replace("[cut]\n", "").replace("[rest]", "");
                    assert!(rest.len() >= wanted.len(), "{steps} {load}: lost: {all}");
                    assert!(
                        rest.len() <= wanted.len() + load,
                        "{steps} {load}: twice: {all}"
                    );
                }
                !was
            });
        }
    }
}

#[test]
fn a_slice_that_is_interrupted_at_any_step_by_who_logs_leaves_nothing_that_nobody_sends() {
    for priority in [Priority::Normal, Priority::Emergency] {
        at_every_step(|steps| {
            let ring = Ring::<[Slot; 16]>::new();
            let drain = Drain::new(&ring, Memory::of(7), Options::DEFAULT);
            ring.log(&META, b"one");
            let told = Cell::new(Next::Empty);
            let was = interrupted(
                steps,
                || {
                    ring.log(&of(priority), b"two");
                    told.set(drain.slice(0, priority, Nanos(0)));
                },
                || while drain.slice(0, Priority::Normal, Nanos(0)) != Next::Empty {},
            );
            while matches!(told.get(), Next::At(_)) {
                told.set(drain.slice(0, priority, Nanos(0)));
            }
            let all = drain.sink().text();
            let all = all.replace("[cut]\n", "").replace("[rest]", "");
            let texts = if was { "one two" } else { "one" };
            for text in texts.split(' ') {
                assert_eq!(all.matches(text).count(), 1, "{steps}: {all}");
            }
            // What an emergency's slice has sent the backlog's passes by.
            let before = drain.bytes();
            assert_eq!(drain.slice(0, Priority::Normal, Nanos(0)), Next::Empty);
            assert_eq!(drain.bytes(), before);
            assert_eq!((drain.lost(), drain.unread()), (0, 0));
            !was
        });
    }
}

#[test]
fn a_panic_that_comes_second_waits_for_the_first_although_an_owner_kept_it_waiting() {
    struct Handed<'a>(Cell<u64>, &'a Owner);
    impl Clock for Handed<'_> {
        fn now(&self) -> Nanos {
            Nanos(self.0.get())
        }
        fn wait_until(&self, deadline: Nanos) {
            self.0.set(deadline.0);
            // CPU 0's slice lets go, and CPU 1's panic was faster.
            if (990_000..1_000_000).contains(&deadline.0) {
                self.1.word.store(2 << 2 | 2, Ordering::Relaxed);
            }
        }
    }
    let ring = Ring::<[Slot; 16]>::new();
    let drain = Drain::new(&ring, Memory::of(1), Options::DEFAULT);
    drain.owner.word.store(1 << 2, Ordering::Relaxed);
    let clock = Handed(Cell::new(0), &drain.owner);
    let flushed = flush(&[&drain], 2, &clock, Limits::DEFAULT);
    // CPU 1 never makes an offer, so it is dead in the end.
    assert_eq!(flushed.seized, 1);
    assert!(clock.now() >= Nanos::from_millis(100), "{}", clock.now());
}

//! Interruption of each step with a producer or a panic.

use super::*;
use owner::Owner;
use sync::{Ordering, interrupted};

#[test]
fn a_producer_that_is_overtaken_at_any_step_mixes_no_records_and_counts_each_loss() {
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
                    Read::Pending => panic!("{steps} {others}: no producer is writing"),
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
fn writers_of_output_that_interrupt_each_other_at_any_step_take_no_more_than_one() {
    let text = [b'x'; 8 * layout::PAYLOAD];
    at_every_step(|steps| {
        let ring = Ring::<[Slot; 16]>::new();
        let taken = [const { Cell::new(0) }; 2];
        let write = |n: usize| {
            while taken[n].get() < text.len() {
                match ring.log_raw(&META, &text[taken[n].get()..], 13) {
                    0 => break,
                    more => taken[n].set(taken[n].get() + more),
                }
            }
        };
        let was = interrupted(steps, || write(0), || write(1));
        let newest = if was { 12 } else { 8 };
        assert_eq!(ring.newest(), newest);
        assert_eq!(
            (taken[0].get() + taken[1].get()) / layout::PAYLOAD,
            newest as usize
        );
        !was
    });
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
fn a_tail_that_is_overtaken_at_any_step_joins_no_parts_of_different_lines() {
    at_every_step(|steps| {
        let ring = Ring::<[Slot; 8]>::new();
        let part = ring::Part {
            after: None,
            continues: true,
            is_cut: false,
            more: true,
            longest_run: 9,
        };
        ring.log_part(&META, b"a", part);
        ring.log(&META, &[b'b'; 100]);
        let mut room = [0; 999];
        let mut tail = Vec::new();
        let overtake = || (0..7).for_each(|_| assert_eq!(ring.log(&META, b"c").records, 1));
        let was = interrupted(steps, overtake, || tail = ring.tail(&mut room).to_vec());
        for line in tail.split(|&byte| byte == b'\n') {
            let is_mixed = line.contains(&b'a') && line.contains(&b'b');
            assert!(!is_mixed, "{steps}: {}", tail.escape_ascii());
        }
        !was
    });
}

#[test]
fn a_panic_at_any_step_of_a_slice_that_continues_later_repeats_one_offer_at_most() {
    for load in [1, 7, 16, 256] {
        for cpu in [0, 1] {
            at_every_step(|steps| {
                let ring = Ring::<[Slot; 16]>::new();
                let drain = Drain::new(&ring, Memory::of(load), SinkOptions::DEFAULT);
                for n in 0..4 {
                    ring.format(&META, format_args!("line {n}"));
                }
                let wanted: String = (0..4).map(|n| format!("{P}line {n}\n")).collect();
                let clock = Virtual::default();
                let panic = || {
                    ring.log(&of(Priority::Panic), b"panic!");
                    let flushed = flush(&[&drain], cpu, &clock, FlushLimits::DEFAULT);
                    assert_eq!((flushed.complete, flushed.incomplete), (1, 0));
                };
                let was = interrupted(steps, panic, || {
                    for _ in 0..40 {
                        if matches!(
                            drain.drain_bounded(0, Priority::Normal, &At(0)),
                            Next::Empty | Next::Over
                        ) {
                            break;
                        }
                    }
                });
                flush(&[&drain], cpu, &clock, FlushLimits::DEFAULT);
                let all = drain.sink().text();
                if was {
                    let panic = format!("{P}panic!");
                    let lines: Vec<_> = wanted.lines().collect();
                    assert_has(&all, &[&panic], &lines);
                    let sent = bytes(&[&lines[..], &[&panic]].concat(), 1) + load;
                    assert!(all.len() <= sent, "{steps} {load}: twice: {all}");
                }
                !was
            });
        }
    }
}

#[test]
fn a_slice_that_a_producer_interrupts_at_any_step_leaves_nothing_unsent_without_a_timer() {
    for priority in [Priority::Normal, Priority::Emergency] {
        at_every_step(|steps| {
            let ring = Ring::<[Slot; 16]>::new();
            let drain = Drain::new(&ring, Memory::of(7), SinkOptions::DEFAULT);
            ring.log(&META, b"one");
            let told = Cell::new(Next::Empty);
            let was = interrupted(
                steps,
                || {
                    ring.log(&of(priority), b"two");
                    told.set(drain.drain_bounded(0, priority, &At(0)));
                },
                || while drain.drain_bounded(0, Priority::Normal, &At(0)) != Next::Empty {},
            );
            while matches!(told.get(), Next::At(_)) {
                told.set(drain.drain_bounded(0, priority, &At(0)));
            }
            let texts = if was { &["one", "two"][..] } else { &["one"] };
            let mut lines = rejoin::lines(&drain.sink().text());
            lines.sort();
            let wanted: Vec<_> = texts.iter().map(|text| format!("{P}{text}")).collect();
            assert_eq!(lines, wanted, "{steps}");
            // The backlog's slice skips the records that an emergency's slice has sent.
            let before = drain.bytes();
            assert_eq!(
                drain.drain_bounded(0, Priority::Normal, &At(0)),
                Next::Empty
            );
            assert_eq!(drain.bytes(), before);
            assert_eq!((drain.lost(), drain.unread()), (0, 0));
            !was
        });
    }
}

#[test]
fn a_second_panic_waits_for_the_first_even_after_a_wait_for_an_owner() {
    struct Handed<'a>(Virtual, &'a Owner);
    impl Clock for Handed<'_> {
        fn now(&self) -> Nanos {
            let now = self.0.now();
            // CPU 0's slice releases the sink, and CPU 1's panic has acquired it first.
            if (980_000..1_000_000).contains(&now.0) {
                self.1.word.store(2 << 2 | 2, Ordering::Relaxed);
            }
            now
        }
    }
    let ring = Ring::<[Slot; 16]>::new();
    let drain = Drain::new(&ring, Memory::of(1), SinkOptions::DEFAULT);
    drain.owner.word.store(1 << 2, Ordering::Relaxed);
    let clock = Handed(Virtual::default(), &drain.owner);
    let flushed = flush(&[&drain], 2, &clock, FlushLimits::DEFAULT);
    // CPU 1 never makes an offer, so it finally counts as dead.
    assert_eq!(flushed.seized, 1);
    assert!(clock.now() >= Nanos::from_millis(100), "{}", clock.now());
}

#[test]
fn an_urgent_record_that_was_given_up_is_sent_if_it_is_completed_later() {
    for urgent in [Priority::Emergency, Priority::Panic] {
        at_every_step(|steps| {
            let ring = Ring::<[Slot; 16]>::new();
            let drain = Drain::new(&ring, Memory::of(99), SinkOptions::DEFAULT);
            ring.log(&META, b"backlog");
            let slice =
                |priority, ms| drain.drain_bounded(0, priority, &At(Nanos::from_millis(ms).0));
            let others = || {
                ring.log(&of(urgent), b"fast");
                for ms in [0, 10, 20] {
                    let _ = slice(Priority::Emergency, ms);
                }
            };
            let was = interrupted(steps, others, || {
                ring.log(&of(urgent), b"slow");
            });
            for ms in 30..40 {
                let _ = slice(Priority::Normal, ms);
            }
            let all = drain.sink().text();
            assert_eq!(all.matches("slow").count(), 1, "{steps}: {all}");
            assert_eq!(all.matches("fast").count(), usize::from(was), "{all}");
            assert_eq!((drain.lost(), drain.unread()), (0, 0), "{steps}: {all}");
            !was
        });
    }
}

/// A clock that always shows the same time.
struct Still(Nanos);

impl Clock for Still {
    fn now(&self) -> Nanos {
        self.0
    }
    fn wait_until(&self, _: Nanos) {}
}

#[test]
fn a_panic_seizes_the_sink_of_a_dead_owner_with_a_stopped_clock() {
    for time in [0, 5, u64::MAX - 5, u64::MAX] {
        let is_late = time > 5;
        let panic = (!is_late).then_some(Priority::Panic);
        for owner in [Some(Priority::Normal), panic].into_iter().flatten() {
            let ring = Ring::<[Slot; 16]>::new();
            let drain = Drain::new(&ring, Memory::of(99), SinkOptions::DEFAULT);
            drain
                .owner
                .word
                .store(7 << 2 | owner as usize, Ordering::Relaxed);
            ring.log(&of(Priority::Panic), b"panic");
            let flushed = flush(&[&drain], 0, &Still(Nanos(time)), FlushLimits::DEFAULT);
            assert_eq!(flushed.seized, 1, "{time}");
            assert!(is_late || flushed.complete == 1);
            assert_eq!(drain.sink().text(), format!("{P}panic\n"));
        }
    }
}

#[test]
fn a_panic_does_not_wait_forever_for_a_record_with_a_stopped_clock() {
    for time in [0, u64::MAX - 5, u64::MAX] {
        let ring = Ring::<[Slot; 16]>::new();
        let drain = Drain::new(&ring, Memory::of(99), SinkOptions::DEFAULT);
        assert!(!sync::only(1, || {
            ring.log(&META, b"dies");
        }));
        ring.log(&of(Priority::Panic), b"panic");
        let flushed = flush(&[&drain], 0, &Still(Nanos(time)), FlushLimits::DEFAULT);
        assert!(time > 0 || flushed.complete == 1);
        let text = format!("{P}panic\n");
        assert_eq!(drain.sink().text(), text, "{time}");
    }
}

/// A clock that goes back one hour at its n-th read.
struct Back {
    reads: Cell<u32>,
    time: Cell<u64>,
    waited: Cell<u64>,
}

impl Clock for Back {
    fn now(&self) -> Nanos {
        let left = self.reads.get();
        self.reads.set(left.wrapping_sub(1));
        if left == 0 {
            self.time.set(self.time.get() - Nanos::from_secs(3_600).0);
        }
        Nanos(self.time.get())
    }
    fn wait_until(&self, deadline: Nanos) {
        let wait = deadline.0.saturating_sub(self.time.get());
        self.waited.set(self.waited.get() + wait);
        self.time.set(self.time.get() + wait);
    }
}

#[test]
fn a_clock_that_goes_back_makes_no_caller_wait_longer() {
    for reads in 0..30 {
        let ring = Ring::<[Slot; 8]>::new();
        let ms = Nanos::from_millis;
        let options = SinkOptions::DEFAULT.overflow(OverflowPolicy::Wait(ms(2)));
        let drain = Drain::new(&ring, Memory::of(0), options);
        drain.owner.word.store(7 << 2, Ordering::Relaxed);
        (0..8).for_each(|_| assert_eq!(ring.log(&META, b"text").records, 1));
        let clock = Back {
            reads: reads.into(),
            time: Nanos::from_secs(10_000).0.into(),
            waited: 0.into(),
        };
        drain.make_room(0, &clock, || ());
        assert!(clock.waited.get() <= ms(3).0, "{reads}: {:?}", clock.waited);
        clock.reads.set(reads);
        clock.waited.set(0);
        let flushed = flush(&[&drain], 0, &clock, FlushLimits::DEFAULT.total(ms(5)));
        assert_eq!((flushed.seized, flushed.incomplete), (1, 1));
        assert!(clock.waited.get() <= ms(6).0, "{reads}: {:?}", clock.waited);
    }
}

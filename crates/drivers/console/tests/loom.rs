//! The ring and its owners, in every order of their users' steps, with one to three pre-emptions
//! (loom).
//!
//! This test includes the crate's own files. Only the atomics are loom's. A slot has three words
//! instead of thirteen, and there are two holes.
#![cfg(target_pointer_width = "64")]
#![allow(dead_code, unused_imports, missing_docs, clippy::duplicate_mod)]

#[path = "../src/cursor.rs"]
mod cursor;
#[path = "../src/drain.rs"]
mod drain;
#[path = "../src/feed.rs"]
mod feed;
#[path = "../src/kept.rs"]
mod kept;
#[path = "../src/lane.rs"]
mod lane;
#[path = "../src/level.rs"]
mod level;
#[path = "../src/line.rs"]
mod line;
#[path = "../src/next_offer.rs"]
mod next_offer;
#[path = "../src/options.rs"]
mod options;
#[path = "../src/owner.rs"]
mod owner;
#[path = "../src/parts.rs"]
mod parts;
#[path = "../src/pieces.rs"]
mod pieces;
#[path = "../src/prefix.rs"]
mod prefix;
#[path = "../src/record.rs"]
mod record;
#[path = "../src/render.rs"]
mod render;
#[path = "../src/ring.rs"]
mod ring;
#[path = "../src/sequence.rs"]
mod sequence;
#[path = "../src/sink.rs"]
mod sink;
#[path = "../src/slot.rs"]
mod slot;

#[path = "../src/layout.rs"]
mod real;

mod layout {
    pub(crate) use super::real::{
        CONSTANT_BYTES, FLAGS_AT, HEADER_BYTES, LONGEST_RUN, META_BYTES, ORDER_AT, ORDER_MARK,
        RECIPROCAL_AT, SIGNATURE, SINKS, SLOT_BYTES, SLOTS_AT, STATE_WORDS, VERSION, WORD,
    };
    pub(crate) const HOLES: usize = 2;
    pub(crate) const BODY_WORDS: usize = 3;
    pub(crate) const PAYLOAD: usize = BODY_WORDS * WORD - META_BYTES;
    pub(crate) const LONGEST_PAYLOAD: usize = PAYLOAD;
    pub(crate) const LONGEST_TARGET: usize = 4;
}

mod sync {
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{AtomicUsize, Ordering, fence};

    /// A panic's pause between two polls. In these tests, each pause is one poll.
    pub(crate) const STILL: nostall_io::Nanos = nostall_io::Nanos::from_micros(10);
}

pub use cursor::{Cursor, Read};
pub use drain::{Drain, Next};
pub use level::{Level, Priority};
pub use nostall_io::Offered;
pub use options::{Charset, OverflowPolicy, SinkOptions};
pub use record::{Meta, Record};
pub use ring::{Logged, Ring};
pub use sink::{Caller, Sink};
pub use slot::Slot;

use std::array;

use feed::{Feed, MOST_SKIPPED, Search, Stop};
use kept::Kept;
use lane::Lane;
use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;
use next_offer::NextOffer;
use nostall_io::{Clock, Nanos, Timeout};
use owner::{Acquired, Owner};
use ring::Head;
use sync::{AtomicUsize, Ordering};

fn slot() -> Slot {
    Slot {
        state: AtomicUsize::new(0),
        body: array::from_fn(|_| AtomicUsize::new(0)),
    }
}

/// Returns a ring after its first turn. Producers no longer write the signature then.
fn ring<const N: usize>() -> Ring<[Slot; N]> {
    Ring {
        head: Head {
            constant: array::from_fn(|_| AtomicUsize::new(0)),
            newest: AtomicUsize::new(N),
            urgent: array::from_fn(|_| AtomicUsize::new(0)),
            cut: AtomicUsize::new(0),
            sent: array::from_fn(|_| AtomicUsize::new(0)),
            holes: array::from_fn(|_| AtomicUsize::new(0)),
        },
        slots: array::from_fn(|_| slot()),
    }
}

fn start(slots: usize) -> Cursor {
    Cursor {
        next: slots as u64 + 1,
        lost: 0,
    }
}

/// Logs a record with `number` as its time, CPU and text.
fn log(ring: &Ring, number: u8) -> usize {
    let meta = Meta {
        time: Nanos(number.into()),
        cpu: number.into(),
        level: Level::Info,
        priority: Priority::Normal,
        target: "",
    };
    ring.log(&meta, &[number; 8]).records
}

fn is_whole(record: &Record) -> bool {
    let number = record.cpu as u8;
    record.time == Nanos(number.into()) && record.text() == [number; 8]
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

/// Reads all available records in order, and returns their number.
fn read(ring: &Ring, cursor: &mut Cursor) -> u64 {
    let mut seen = 0;
    let mut last = 0;
    loop {
        match cursor.read(ring) {
            Read::Record(record) => {
                assert!(is_whole(&record), "{record:?}");
                assert!(record.sequence > last);
                last = record.sequence;
                seen += 1;
            }
            Read::Pending | Read::Empty => return seen,
        }
    }
}

#[test]
fn a_reader_sees_whole_records_in_order_while_they_are_overwritten() {
    explore(3, || {
        let ring = Arc::new(ring::<2>());
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || (1..=4).map(|n| log(&*ring, n)).sum::<usize>())
        };
        let mut cursor = start(2);
        let mut seen = read(&*ring, &mut cursor);
        assert_eq!(producer.join().unwrap(), 4);
        seen += read(&*ring, &mut cursor);
        assert_eq!(cursor.read(&*ring), Read::Empty);
        assert_eq!(seen + cursor.lost, 4);
    });
}

#[test]
fn producers_that_overtake_each_other_mix_no_records_and_count_each_loss() {
    explore(2, || {
        let ring = Arc::new(ring::<2>());
        let producers = [&[1, 2][..], &[3]].map(|numbers| {
            let ring = ring.clone();
            thread::spawn(move || numbers.iter().map(|&n| log(&*ring, n)).sum::<usize>())
        });
        let logged: usize = producers.into_iter().map(|p| p.join().unwrap()).sum();
        // Under loom, a slot may appear occupied for so long that the producer gives it up.
        let whole: &Ring = &*ring;
        assert_eq!(logged + whole.cut() as usize / 8, 3);
        let mut cursor = start(2);
        let mut seen = read(&*ring, &mut cursor);
        // A record that was given up.
        while cursor.read(&*ring) == Read::Pending {
            cursor.skip();
            seen += read(&*ring, &mut cursor);
        }
        assert!(seen + cursor.lost >= 3, "{seen} {cursor:?}");
        assert!(seen <= logged as u64);
    });
}

/// A time for enough polls that a live owner releases the sink.
const LONG: Nanos = Nanos::from_millis(99);

/// A clock that always shows the same time.
struct Still;

impl Clock for Still {
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }
}

fn long_timeout() -> Timeout {
    Timeout::new(Still.now(), LONG)
}

struct Owned {
    owner: Owner,
    sink: loom::cell::UnsafeCell<u8>,
}

// SAFETY: loom checks the accesses.
unsafe impl Sync for Owned {}

impl Owned {
    fn new() -> Self {
        Self {
            owner: owner(),
            sink: loom::cell::UnsafeCell::new(0),
        }
    }

    /// Fails the test if two callers access the sink at once.
    fn touch(&self) {
        // SAFETY: loom checks that this access is the only one.
        self.sink.with_mut(|sink| unsafe { *sink += 1 });
    }
}

fn owner() -> Owner {
    Owner {
        word: AtomicUsize::new(0),
        panic: AtomicUsize::new(0),
        beats: AtomicUsize::new(0),
    }
}

#[test]
fn a_sink_has_one_owner_and_a_panic_waits_for_it() {
    explore(3, || {
        let owned = Arc::new(Owned::new());
        let normal = [0, 1].map(|cpu| {
            let owned = owned.clone();
            thread::spawn(move || {
                if let Some(turn) = owned.owner.enter(cpu, Priority::Normal) {
                    owned.touch();
                    drop(turn);
                }
            })
        });
        let acquired = owned
            .owner
            .enter_in_panic(2, &Still, &mut long_timeout(), LONG)
            .map(|(turn, acquired)| {
                owned.touch();
                drop(turn);
                acquired
            });
        assert_eq!(acquired, Some(Acquired::Free));
        assert!(owned.owner.enter(3, Priority::Normal).is_none());
        normal.into_iter().for_each(|it| it.join().unwrap());
    });
}

#[test]
fn two_panics_take_turns() {
    explore(3, || {
        let owned = Arc::new(Owned::new());
        let panic = |cpu| {
            let owned = owned.clone();
            move || {
                let (turn, acquired) = owned
                    .owner
                    .enter_in_panic(cpu, &Still, &mut long_timeout(), LONG)
                    .unwrap();
                assert_eq!(acquired, Acquired::Free);
                owned.touch();
                assert!(turn.lasts());
            }
        };
        let other = thread::spawn(panic(1));
        panic(0)();
        other.join().unwrap();
    });
}

#[test]
fn of_two_panics_with_a_dead_owner_one_seizes_the_sink_and_one_waits() {
    explore(3, || {
        let owned = Arc::new(Owned::new());
        owned.owner.word.store(9 << 2, Ordering::Relaxed);
        let panic = |cpu| {
            let owned = owned.clone();
            move || {
                let (turn, acquired) = owned
                    .owner
                    .enter_in_panic(cpu, &Still, &mut long_timeout(), Nanos::ZERO)
                    .unwrap();
                owned.touch();
                drop(turn);
                acquired
            }
        };
        let other = thread::spawn(panic(1));
        let ways = [panic(0)(), other.join().unwrap()];
        assert!(ways.contains(&Acquired::Free) && ways.contains(&Acquired::Seized));
    });
}

/// The bytes that were offered, and the time at which the sink takes more.
struct Memory(loom::sync::Mutex<Vec<u8>>, Nanos);

impl Sink for Memory {
    fn offer(&self, text: &[u8], _: Caller) -> Offered {
        // The lock succeeds because no other caller has the sink.
        self.0.try_lock().unwrap().extend(text);
        Offered {
            taken: text.len(),
            ready_at: Some(self.1),
        }
    }
}

fn drain(ring: &Ring) -> Drain<'_, Memory> {
    Drain {
        feed: Feed {
            ring,
            level: AtomicUsize::new(Level::Debug as usize),
            lanes: array::from_fn(|_| Lane {
                next: AtomicUsize::new(2),
                line: AtomicUsize::new(0),
                gap: AtomicUsize::new(0),
                gap_at: AtomicUsize::new(0),
                given_up: AtomicUsize::new(0),
                kept: Kept {
                    state: AtomicUsize::new(0),
                    shape: AtomicUsize::new(0),
                    words: array::from_fn(|_| AtomicUsize::new(0)),
                },
            }),
            pending: array::from_fn(|_| AtomicUsize::new(0)),
            lost: AtomicUsize::new(0),
        },
        options: SinkOptions::DEFAULT,
        owner: owner(),
        next_offer: NextOffer {
            since: AtomicUsize::new(0),
            wait: AtomicUsize::new(0),
            responsible_cpu: AtomicUsize::new(0),
            backoff: AtomicUsize::new(0),
        },
        offering: AtomicUsize::new(0),
        bytes: AtomicUsize::new(0),
        renders: AtomicUsize::new(0),
        inside: AtomicUsize::new(0),
        has_left_out: AtomicUsize::new(0),
        at_once: AtomicUsize::new(0),
        sink: Memory(loom::sync::Mutex::new(Vec::new()), Nanos::ZERO),
    }
}

/// Returns a ring and a drain that begins with the third record.
fn started() -> (&'static Ring, &'static Drain<'static, Memory>) {
    let ring: &'static Ring<[Slot; 2]> = Box::leak(Box::new(ring()));
    let ring: &'static Ring = ring;
    let drain: &'static Drain<'static, Memory> = Box::leak(Box::new(drain(ring)));
    for lane in &drain.feed.lanes {
        lane.next.store(3, Ordering::Relaxed);
    }
    (ring, drain)
}

#[test]
fn of_two_cpus_that_log_and_send_one_sends_all_or_must_retry() {
    explore(2, || {
        let (ring, drain) = started();
        let act = move |cpu: u16| {
            log(ring, b'a' + cpu as u8);
            drain.drain_bounded(cpu, Priority::Normal, &Still)
        };
        let other = thread::spawn(move || act(1));
        let mine = act(0);
        let others = other.join().unwrap();
        if mine.time().is_none() && others.time().is_none() {
            assert_eq!(drain.unread(), 0, "{mine:?} {others:?}");
        }
        while drain.drain_bounded(0, Priority::Normal, &Still) != Next::Empty {}
        let text = String::from_utf8(drain.sink.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text.matches("aaaaaaaa").count(), 1, "{text}");
        assert_eq!(text.matches("bbbbbbbb").count(), 1, "{text}");
    });
}

struct Shown(Nanos);

impl Clock for Shown {
    fn now(&self) -> Nanos {
        self.0
    }
}

#[test]
fn of_three_cpus_that_log_each_one_with_unsent_records_retries() {
    explore(1, || {
        let ring: &'static Ring<[Slot; 4]> = Box::leak(Box::new(ring()));
        let ring: &'static Ring = ring;
        let drain: &'static Drain<'static, Memory> = Box::leak(Box::new(drain(ring)));
        for lane in &drain.feed.lanes {
            lane.next.store(5, Ordering::Relaxed);
        }
        // The sink is not ready for 10 ns. CPU 9 is responsible, and hangs.
        drain
            .next_offer
            .responsible_cpu
            .store(10, Ordering::Relaxed);
        drain.next_offer.wait.store(10, Ordering::Relaxed);
        let act = move |cpu: u16| {
            log(ring, b'a' + cpu as u8);
            let clock = if cpu == 0 { Still.now() } else { Nanos(99) };
            drain
                .drain_bounded(cpu, Priority::Normal, &Shown(clock))
                .time()
        };
        let others = [1, 2].map(|cpu| thread::spawn(move || act(cpu)));
        let mine = act(0);
        let [one, two] = others.map(|other| other.join().unwrap());
        // If no CPU has set a timer, nothing may be left.
        if mine.or(one).or(two).is_none() {
            assert_eq!(drain.unread(), 0);
        }
    });
}

#[test]
fn a_responsible_cpu_that_finds_nothing_to_do_leaves_no_record_of_another() {
    explore(2, || {
        let (ring, drain) = started();
        // The sink is not ready for 10 ns. CPU 1 is responsible, and returns early, late or twice.
        drain.next_offer.responsible_cpu.store(2, Ordering::Relaxed);
        drain.next_offer.wait.store(10, Ordering::Relaxed);
        let responsible = thread::spawn(move || {
            [0, 99].map(|now| {
                drain
                    .drain_bounded(1, Priority::Normal, &Shown(Nanos(now)))
                    .time()
            })
        });
        log(ring, b'a');
        let mine = drain.drain_bounded(0, Priority::Normal, &Still);
        let [_, last] = responsible.join().unwrap();
        // Unless this CPU became responsible, the other one must not have left the record.
        if !matches!(mine, Next::At(_)) && last.is_none() {
            assert_eq!(drain.unread(), 0, "{mine:?}");
        }
    });
}

/// Sends all available records, as a panic does.
fn send_in_panic(drain: &Drain<'_, Memory>, turn: &owner::Turn<'_>) {
    let mut search = Search {
        now: Nanos::ZERO,
        patience: Nanos::from_secs(1),
        left: MOST_SKIPPED,
        insist: false,
        all_levels: false,
        bytes: 0,
        until: Nanos::ZERO,
    };
    loop {
        match drain.step(turn, Priority::Normal, &mut search) {
            Err(Stop::Empty) => return,
            Err(Stop::Over) => panic!("the sink is the panic's"),
            Err(Stop::Pending) => thread::yield_now(),
            Ok(_) | Err(Stop::Scanned) => {}
        }
    }
}

#[test]
fn a_panic_seizes_a_sink_from_two_responsible_cpus_and_sends_the_rest_once() {
    explore(1, || {
        let ring: &'static Ring<[Slot; 4]> = Box::leak(Box::new(ring()));
        let ring: &'static Ring = ring;
        let mut drain = drain(ring);
        // With this time, each offer makes a CPU responsible.
        drain.sink.1 = Nanos(10);
        let drain: &'static Drain<'static, Memory> = Box::leak(Box::new(drain));
        for lane in &drain.feed.lanes {
            lane.next.store(5, Ordering::Relaxed);
        }
        let slices = [1, 2].map(|cpu| {
            thread::spawn(move || {
                log(ring, b'a' + cpu as u8);
                drain.drain_bounded(cpu, Priority::Normal, &Shown(Nanos(cpu.into())))
            })
        });
        log(ring, b'a');
        let timeout = &mut long_timeout();
        let entered = drain.owner.enter_in_panic(0, &Still, timeout, LONG);
        let (turn, acquired) = entered.unwrap();
        assert_eq!(acquired, Acquired::Free);
        send_in_panic(drain, &turn);
        slices
            .into_iter()
            .for_each(|slice| assert!(slice.join().is_ok()));
        // The record was logged after the panic had sent the rest.
        send_in_panic(drain, &turn);
        assert_eq!(
            drain.drain_bounded(1, Priority::Normal, &Shown(Nanos(99))),
            Next::Over
        );
        assert_eq!((drain.lost(), drain.unread()), (0, 0));
        let text = String::from_utf8(drain.sink.0.lock().unwrap().clone()).unwrap();
        for line in ["aaaaaaaa", "bbbbbbbb", "cccccccc"] {
            assert_eq!(text.matches(line).count(), 1, "{text}");
        }
    });
}

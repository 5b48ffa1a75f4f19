//! A task, an interrupt and an NMI record on one CPU, while another CPU freezes and reads the zone.
//! The model checker loom tries every order up to a number of preemptions. `tests` covers the order
//! of the contexts on one CPU.

extern crate std;
use super::*;
use crate::image::Image;
use crate::layout::{Order, Role};
use crate::records::{Chunk, Event, FunctionId, ZoneInfo, ZoneReader};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::vec::Vec;

const BITS: u32 = 4;
const WORDS: usize = (ZONE_HEADER + (SLOT << BITS)) / 8;
const SIZE: Size = Size {
    bits: BITS,
    stop_when_full: false,
};

struct Zone {
    words: Vec<AtomicU64>,
    /// Number of interrupts raised.
    raised: AtomicU64,
    frozen: AtomicBool,
}

impl Zone {
    fn new() -> Self {
        Self {
            words: (0..WORDS).map(|_| AtomicU64::new(0)).collect(),
            raised: AtomicU64::new(0),
            frozen: AtomicBool::new(false),
        }
    }

    /// Returns the identifier and time of the entries in the zone. The argument proves that both
    /// belong together.
    fn read_entries(&self) -> Vec<(u64, u64)> {
        let info = ZoneInfo {
            order: Order::NATIVE,
            at: 0,
            zone: 0,
            boot: 0,
            bits: BITS,
            stop_when_full: false,
            whole: true,
        };
        let mut reader = ZoneReader::new(self, info, [0; size_of::<Chunk>()]);
        let mut found = Vec::new();
        while let Some(record) = reader.next(self) {
            match record.event {
                Event::Enter {
                    function: FunctionId::Address(id),
                    argument,
                } => {
                    assert_eq!(argument, Some(1_000 * record.time + id), "torn");
                    found.push((id, record.time));
                }
                Event::Lost { .. } => {}
                _ => panic!("never written: {record:?}"),
            }
        }
        assert!(found.is_sorted_by_key(|it| it.1), "{found:?}");
        assert_eq!(reader.missing().damaged, 0);
        found
    }
}

impl Image for Zone {
    fn len(&self) -> u64 {
        8 * WORDS as u64
    }
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let first = at as usize / 8;
        for (i, pair) in into.chunks_mut(16).enumerate() {
            for (k, bytes) in pair.chunks_mut(8).enumerate().rev() {
                let word = self.words[first + 2 * i + k].load(Ordering::Acquire);
                bytes.copy_from_slice(&word.to_ne_bytes());
            }
        }
        true
    }
}

/// The CPU that writes.
struct Cpu<'z> {
    zone: &'z Zone,
    /// Number of interrupts handled. The first is an interrupt, the second an NMI.
    handled: Cell<u64>,
    /// Number of interrupts in the model.
    interrupts: u64,
    time: Cell<u64>,
    handler: Handler,
}

/// Records of an interrupt's handler.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Handler {
    /// One entry.
    One,
    /// More than a lap. The interrupted record then continues.
    Laps,
    /// More than a lap. The interrupted record never continues.
    LapsAndAbandons,
}

impl Cpu<'_> {
    fn step(&self) {
        let handled = self.handled.get();
        if handled < self.interrupts && self.zone.raised.load(Ordering::Relaxed) > handled {
            self.handled.set(handled + 1);
            self.record(101 + handled);
            if self.handler != Handler::One {
                (0..9).for_each(|id| self.record(200 + id));
            }
            if self.handler == Handler::LapsAndAbandons {
                resume_unwind(std::boxed::Box::new(()));
            }
        }
    }

    fn record(&self, id: u64) {
        if self.zone.frozen.load(Ordering::Relaxed) {
            return;
        }
        let now = || {
            self.time.set(self.time.get() + 1);
            self.time.get()
        };
        let written = write(self, SIZE, now, |time| {
            [
                (time, Meta::new(Kind::Enter, id, 0)),
                (1_000 * time + id, Meta::argument(Role::Argument)),
            ]
        });
        assert!(written);
    }
}

impl Cells for Cpu<'_> {
    fn get(&self, word: usize) -> u64 {
        self.step();
        self.zone.words[word].load(Ordering::Relaxed)
    }
    fn set(&self, word: usize, value: u64) {
        self.step();
        self.zone.words[word].store(value, Ordering::Relaxed);
    }
    fn publish(&self, word: usize, value: u64) {
        self.step();
        self.zone.words[word].store(value, Ordering::Release);
    }
    fn replace(&self, word: usize, from: u64, to: u64) -> bool {
        self.step();
        self.zone.words[word]
            .compare_exchange(from, to, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }
}

/// Number of preemptions of each model in ordinary tests.
const BOUND: usize = 2;

/// Runs a model: a CPU that recorded `before` entries records one more, with interrupts, while
/// another CPU runs `read`. There are [`BOUND`] preemptions, or NOSTALL_LOOM_BOUND, and `fewer` in
/// a model with more contexts.
///
/// The reading CPU raises the interrupts. A load of `raised` may miss them, so they can arrive at
/// every step without a preemption.
fn model(fewer: usize, before: u64, interrupts: u64, handler: Handler, read: fn(&Zone)) {
    let mut builder = loom::model::Builder::new();
    let wanted = std::env::var("NOSTALL_LOOM_BOUND").ok();
    let wanted = wanted.map_or(BOUND, |bound| bound.parse().unwrap());
    builder.preemption_bound = Some(wanted.saturating_sub(fewer));
    builder.max_branches = 10_000;
    builder.check(move || {
        let zone = Arc::new(Zone::new());
        {
            let cpu = Cpu {
                zone: &zone,
                handled: Cell::new(0),
                interrupts: 0,
                time: Cell::new(0),
                handler,
            };
            (0..before).for_each(|id| cpu.record(id));
        }
        let recorder = zone.clone();
        let recorder = thread::spawn(move || {
            let cpu = Cpu {
                zone: &recorder,
                handled: Cell::new(0),
                interrupts,
                time: Cell::new(before),
                handler,
            };
            _ = catch_unwind(AssertUnwindSafe(|| cpu.record(100)));
            let handled = cpu.handled.replace(interrupts);
            if handler == Handler::LapsAndAbandons {
                (0..9).for_each(|id| cpu.record(300 + id));
                forget(&cpu);
            }
            if handler != Handler::One {
                (0..9).for_each(|id| cpu.record(400 + id));
            }
            handled
        });
        (1..=interrupts).for_each(|count| zone.raised.store(count, Ordering::Relaxed));
        read(&zone);
        let handled = recorder.join().unwrap();
        let found = zone.read_entries();
        // Nothing is in flight, so every record that is not overwritten exists.
        let head = zone.words[word(HEAD)].load(Ordering::Relaxed);
        assert_eq!(found.len() as u64, (head / 2).min(8), "{found:?}");
        if !zone.frozen.load(Ordering::Relaxed) && handler == Handler::One {
            assert_eq!(head, 2 * (before + 1 + handled));
        }
    });
}

#[test]
fn a_handler_records_while_another_cpu_reads() {
    model(0, 8, 1, Handler::One, |zone| _ = zone.read_entries());
}

#[test]
fn interrupts_and_nmis_record_while_another_cpu_reads() {
    model(2, 8, 2, Handler::One, |zone| _ = zone.read_entries());
}

#[test]
fn a_zone_that_another_cpu_freezes_keeps_its_newest_records() {
    model(0, 7, 1, Handler::One, |zone| {
        zone.frozen.store(true, Ordering::Relaxed);
        let frozen = zone.read_entries();
        assert!(frozen.len() >= 6, "{frozen:?}");
    });
}

/// Reads the first slot of the interrupted record, as a reader does, if it has the record's lap.
fn read_interrupted(zone: &Zone) {
    let at = word(ZONE_HEADER);
    let meta = Meta(zone.words[at + 1].load(Ordering::Acquire));
    let time = zone.words[at].load(Ordering::Acquire);
    let head = zone.words[word(HEAD)].load(Ordering::Relaxed);
    if meta.lap() == lap(16, BITS) && head <= 32 {
        // The handler may record first.
        let is_known = matches!((meta.low(), time), (100, 9) | (101, 9 | 10));
        assert!(
            is_known && meta.kind() == Some(Kind::Enter),
            "{meta:?} {time}"
        );
    }
}

#[test]
fn a_record_that_is_completed_a_lap_later_is_never_read_and_overwrites_no_other_one() {
    model(1, 8, 1, Handler::Laps, read_interrupted);
}

#[test]
fn an_abandoned_record_is_passed_and_forgotten_while_another_cpu_reads() {
    model(1, 8, 1, Handler::LapsAndAbandons, read_interrupted);
}

//! A task, an interrupt and an NMI record on one CPU, while another CPU freezes and reads the zone.
//! loom tries every order up to a number of preemptions. `tests` covers the order of the contexts
//! on one CPU.

extern crate std;
use super::*;
use crate::image::Image;
use crate::layout::{Order, Role};
use crate::records::{Cursor, Event, FunctionId, ZoneInfo};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU64};
use loom::thread;
use std::cell::Cell;
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
        let mut cursor = Cursor::new(self, info);
        let mut found = Vec::new();
        while let Some(record) = cursor.next(self) {
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
        assert_eq!(cursor.missing.damaged, 0);
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
    time: Cell<u64>,
}

impl Cpu<'_> {
    fn step(&self) {
        let handled = self.handled.get();
        if handled < 2 && self.zone.raised.load(Ordering::Relaxed) > handled {
            self.handled.set(handled + 1);
            self.record(101 + handled);
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
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
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
fn model(fewer: usize, before: u64, interrupts: u64, read: fn(&Zone)) {
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
                handled: Cell::new(2),
                time: Cell::new(0),
            };
            (0..before).for_each(|id| cpu.record(id));
        }
        let recorder = zone.clone();
        let recorder = thread::spawn(move || {
            let cpu = Cpu {
                zone: &recorder,
                handled: Cell::new(0),
                time: Cell::new(before),
            };
            cpu.record(100);
            cpu.handled.get()
        });
        (1..=interrupts).for_each(|count| zone.raised.store(count, Ordering::Relaxed));
        read(&zone);
        let handled = recorder.join().unwrap();
        let found = zone.read_entries();
        // Nothing is in flight, so every record that is not overwritten exists.
        let head = zone.words[word(HEAD)].load(Ordering::Relaxed);
        assert_eq!(found.len() as u64, (head / 2).min(8), "{found:?}");
        if !zone.frozen.load(Ordering::Relaxed) {
            assert_eq!(head, 2 * (before + 1 + handled));
        }
    });
}

#[test]
fn a_handler_records_while_another_cpu_reads() {
    model(0, 8, 1, |zone| _ = zone.read_entries());
}

#[test]
fn interrupts_and_nmis_record_while_another_cpu_reads() {
    model(2, 8, 2, |zone| _ = zone.read_entries());
}

#[test]
fn a_zone_that_another_cpu_freezes_keeps_its_newest_records() {
    model(0, 7, 1, |zone| {
        zone.frozen.store(true, Ordering::Relaxed);
        let frozen = zone.read_entries();
        assert!(frozen.len() >= 6, "{frozen:?}");
    });
}

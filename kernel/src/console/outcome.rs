//! What came of it: kept while it goes on, and told when it is over.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use nostall_io::Nanos;
use nostall_work::console::{Context, Delays, Fired, Held, Hold, Times, Told, What};
use spin::Mutex;

use super::cpu::TIMERS;
use super::{CPUS, DELAYS, Port};
use crate::report;

/// Times that CPUs were held, at most.
const HOLDS: usize = 8 << 10;

/// Reports of detectors, at most.
const FIRED: usize = 1 << 10;

/// CPU and context, and three times. Atomic, for a panic may come in between.
struct KeptHold([AtomicU64; 4]);

static HOLDS_KEPT: [KeptHold; HOLDS] =
    [const { KeptHold([const { AtomicU64::new(0) }; 4]) }; HOLDS];
static HOLDS_COUNT: AtomicUsize = AtomicUsize::new(0);
static FIRED_KEPT: Mutex<heapless::Vec<(usize, Fired), FIRED>> = Mutex::new(heapless::Vec::new());

/// A flood that is over.
pub struct Flooded<'a> {
    pub item: u16,
    pub cpus: u16,
    pub start: Nanos,
    pub end: Nanos,
    pub lost: u64,
    pub port: &'a Port,
    pub panic: Option<Nanos>,
}

pub fn keep_hold(cpu: usize, hold: Hold) {
    let at = HOLDS_COUNT.fetch_add(1, Ordering::Relaxed);
    let Some(KeptHold(kept)) = HOLDS_KEPT.get(at) else {
        return;
    };
    let context = match hold.context {
        Context::Task => 0,
        Context::Interrupt => 1,
        Context::Panic => 2,
    };
    let who = (cpu as u64) << 8 | context;
    let words = [who, hold.from.0, hold.owner_from.0, hold.until.0];
    for (kept, word) in kept.iter().zip(words) {
        kept.store(word, Ordering::Relaxed);
    }
}

/// In an interrupt handler.
pub fn keep_fired(cpu: usize, fired: Fired) {
    // Of more than there is room for, the first; which is told.
    let _ = FIRED_KEPT.lock().push((cpu, fired));
}

/// All of it.
pub fn tell(flooded: &Flooded<'_>) {
    let item = flooded.item;
    let tell = |told| report::tell(item, told);
    tell(Told::Flood {
        start: flooded.start.0,
        end: flooded.end.0,
        lost: flooded.lost,
        overrun: flooded.port.overrun(),
        panic: flooded.panic.map(|at| at.0),
    });
    let cpus = CPUS.iter().zip(&TIMERS).enumerate();
    for (cpu, (flood, timer)) in cpus.take(flooded.cpus.into()) {
        tell(Told::Cpu {
            cpu: cpu as u16,
            given_away: timer.given_away().0,
            ticks: flood.ticks(),
            missed: flood.missed(),
        });
    }
    let holds = HOLDS_COUNT.load(Ordering::Relaxed);
    assert!(holds <= HOLDS, "held {holds} times: more than {HOLDS}");
    for KeptHold(kept) in &HOLDS_KEPT[..holds] {
        let [who, from, owner_from, until] = kept.each_ref().map(|at| at.load(Ordering::Relaxed));
        // Kept in part, by one who was stopped: nothing.
        if until != 0 {
            let (cpu, context) = ((who >> 8) as u16, who as u8);
            tell(Told::Held(Held {
                cpu,
                context,
                from,
                owner_from,
                until,
            }));
        }
    }
    // Whoever has it for good has been stopped in it.
    let fired = FIRED_KEPT.try_lock();
    let is_full = fired.as_ref().is_some_and(|fired| fired.is_full());
    assert!(!is_full, "the detectors fired {FIRED} times or more");
    for &(cpu, Fired { at, what, cascaded }) in fired.iter().flat_map(|fired| fired.iter()) {
        let (lockup, lasts) = match what {
            What::SoftLockup(stuck) => (true, stuck),
            What::Stall(lasts) => (false, lasts),
        };
        tell(Told::Fired {
            cpu: cpu as u16,
            at: at.0,
            lasts: lasts.0,
            lockup,
            cascaded,
        });
    }
    let delays = DELAYS.iter().map(|delay| delay.load(Ordering::Relaxed));
    let logged = delays.filter(|&delay| delay != u64::MAX);
    batches(logged, |batch| tell(Told::Delays(Delays::clone(batch))));
    let arrivals = flooded.port.arrivals();
    batches(arrivals, |batch| tell(Told::Arrived(Times::clone(batch))));
}

fn batches<T: Clone, const N: usize>(
    values: impl Iterator<Item = T>,
    tell: impl Fn(&heapless::Vec<T, N>),
) {
    let mut batch = heapless::Vec::<T, N>::new();
    for value in values {
        if batch.is_full() {
            tell(&batch);
            batch.clear();
        }
        let _ = batch.push(value); // there is room now
    }
    if !batch.is_empty() {
        tell(&batch);
    }
}

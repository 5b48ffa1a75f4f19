//! Stalls of drivers in virtual time.

use std::cell::RefCell;
use std::collections::BTreeMap;

use nostall_io::{Clock, Counter, Nanos, Stall, StallCondition, StallHook, set_stall_hook};

use crate::VirtualClock;

/// Stalls and counters reported during one run.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    /// Condition and duration of each stall, in the order in which the stalls end.
    pub stalls: Vec<(StallCondition, Nanos)>,
    /// Source file of each stall's driver, in the same order.
    pub files: Vec<&'static str>,
    counted: BTreeMap<&'static str, u64>,
}

impl Stalls {
    /// Calls `run` and returns the stalls and counters that this thread's drivers report during it,
    /// timed with `clock`.
    ///
    /// The call installs a process-wide hook that stays. Reports outside `run` are ignored.
    pub fn during<T>(clock: &VirtualClock, run: impl FnOnce() -> T) -> (T, Self) {
        static HOOK: &dyn StallHook = &ThisThread;
        set_stall_hook(&HOOK);
        RUN.set(Some((clock.clone(), Self::default())));
        let result = run();
        let (_, stalls) = RUN.take().unwrap_or_default();
        (result, stalls)
    }

    /// Returns the total duration of all stalls.
    pub fn sum(&self) -> Nanos {
        let durations = self.stalls.iter().map(|&(_, duration)| duration);
        durations.fold(Nanos::ZERO, |sum, duration| sum + duration)
    }

    /// Returns the increase of a counter.
    pub fn counted(&self, counter: Counter) -> u64 {
        self.counted.get(counter.name()).copied().unwrap_or(0)
    }
}

thread_local! {
    static RUN: RefCell<Option<(VirtualClock, Stalls)>> = const { RefCell::new(None) };
}

struct ThisThread;

impl StallHook for ThisThread {
    fn now(&self) -> u64 {
        RUN.with_borrow(|run| run.as_ref().map_or(0, |(clock, _)| clock.now().0))
    }

    fn stalled(&self, stall: &Stall) {
        RUN.with_borrow_mut(|run| {
            if let Some((clock, log)) = run {
                let duration = clock.now() - Nanos(stall.begin);
                log.stalls.push((stall.condition, duration));
                log.files.push(stall.place.file());
            }
        });
    }

    fn counted(&self, counter: Counter, by: u64) {
        RUN.with_borrow_mut(|run| {
            if let Some((_, log)) = run {
                *log.counted.entry(counter.name()).or_default() += by;
            }
        });
    }
}

//! Each CPU's place in the console's own path, so that the console does not feed itself.

use nostall_io::Nanos;

use crate::sync::{AtomicUsize, Ordering};

/// CPUs that have a place; those with greater numbers do without.
const CPUS: usize = if usize::BITS < 64 { 16 } else { 256 };

/// Fraction of a timer's span by which its interrupt may be early.
const EARLY_PARTS: usize = 16;

/// A fact about a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Mark {
    /// A context reads the clock, or is about to mask interrupts.
    Entering = 1 << 0,
    /// And another one, which interrupted it or which it called.
    EnteringAgain = 1 << 1,
    /// It runs the console's own path with interrupts masked.
    Inside = 1 << 2,
    /// It handles an NMI.
    Nmi = 1 << 3,
    /// It handles a timer interrupt that the console caused.
    Caused = 1 << 4,
    /// It has handled a timer interrupt.
    Ticked = 1 << 5,
    /// A record was left to its slice.
    Left = 1 << 6,
}

/// One CPU's state.
#[derive(Debug)]
struct Place {
    marks: AtomicUsize,
    /// Time for which the console has set the timer, and when it did so, in microseconds. 0: it
    /// is not set.
    armed_for: AtomicUsize,
    armed_at: AtomicUsize,
}

/// A mark, until this is dropped.
#[derive(Debug)]
pub(crate) struct Marked<'p> {
    place: Option<&'p Place>,
    mark: Mark,
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            place
                .marks
                .fetch_and(!(self.mark as usize), Ordering::AcqRel);
        }
    }
}

/// The places of all CPUs, and the records that the console's own path may log.
#[derive(Debug)]
pub(crate) struct Places {
    places: [Place; CPUS],
    /// Nonzero if the console's own path may log a record.
    credit: AtomicUsize,
    /// Number of records that it was refused, in all and since a record told it.
    left_out: AtomicUsize,
    untold: AtomicUsize,
}

impl Places {
    pub(crate) const fn new() -> Self {
        Self {
            places: [const {
                Place {
                    marks: AtomicUsize::new(0),
                    armed_for: AtomicUsize::new(0),
                    armed_at: AtomicUsize::new(0),
                }
            }; _],
            credit: AtomicUsize::new(0),
            left_out: AtomicUsize::new(0),
            untold: AtomicUsize::new(0),
        }
    }

    /// Sets a mark, unless it is set.
    pub(crate) fn mark(&self, cpu: usize, mark: Mark) -> Option<Marked<'_>> {
        let place = self.places.get(cpu);
        let bit = mark as usize;
        let is_new = place.is_none_or(|at| at.marks.fetch_or(bit, Ordering::AcqRel) & bit == 0);
        is_new.then(|| Marked { place, mark })
    }

    /// Enters the console's own path. Returns `None` if this CPU is in it twice: then the
    /// platform's code has logged while it logged.
    ///
    /// Once is not enough, because a task may be pre-empted between this and the mask.
    pub(crate) fn enter(&self, cpu: usize) -> Option<Marked<'_>> {
        self.mark(cpu, Mark::Entering)
            .or_else(|| self.mark(cpu, Mark::EnteringAgain))
    }

    pub(crate) fn has(&self, cpu: usize, mark: Mark) -> bool {
        let at = self.places.get(cpu);
        at.is_some_and(|at| at.marks.load(Ordering::Acquire) & mark as usize != 0)
    }

    /// Sets a mark for good.
    pub(crate) fn note(&self, cpu: usize, mark: Mark) {
        if let Some(at) = self.places.get(cpu) {
            at.marks.fetch_or(mark as usize, Ordering::AcqRel);
        }
    }

    /// Clears a mark, and returns whether it was set.
    pub(crate) fn clear(&self, cpu: usize, mark: Mark) -> bool {
        let bit = mark as usize;
        let at = self.places.get(cpu);
        at.is_some_and(|at| at.marks.fetch_and(!bit, Ordering::AcqRel) & bit != 0)
    }
}

impl Places {
    /// Returns whether a record of this CPU is one of the console's own path.
    pub(crate) fn is_own(&self, cpu: usize) -> bool {
        let has = |mark| self.has(cpu, mark);
        (has(Mark::Inside) || has(Mark::Caused)) && !has(Mark::Nmi)
    }

    /// A record from elsewhere lets the own path log one.
    pub(crate) fn give_credit(&self) {
        self.credit.store(1, Ordering::Relaxed);
    }

    /// Returns the number of records that were left out since the last one, if the own path may
    /// log one now. Else counts one more.
    pub(crate) fn spend_credit(&self) -> Option<usize> {
        if self.credit.swap(0, Ordering::Relaxed) != 0 {
            return Some(self.untold.swap(0, Ordering::Relaxed));
        }
        self.untold.fetch_add(1, Ordering::Relaxed);
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }

    pub(crate) fn left_out(&self) -> usize {
        self.left_out.load(Ordering::Relaxed)
    }
}

impl Places {
    /// Stores the time for which the console sets this CPU's timer. Returns `false` if it is set
    /// for that time already, and timers are known to work.
    pub(crate) fn arm(&self, cpu: usize, at: Nanos, now: Nanos) -> bool {
        let Some(place) = self.places.get(cpu) else {
            return true;
        };
        let armed_for = micros(at);
        let is_new = place.armed_for.load(Ordering::Relaxed) != armed_for;
        if is_new {
            place.armed_at.store(micros(now), Ordering::Relaxed);
            place.armed_for.store(armed_for, Ordering::Relaxed);
        }
        is_new || !self.has(cpu, Mark::Ticked)
    }

    /// Notes a timer interrupt. Before the first one no timer may have been there, so what the
    /// console has set is forgotten.
    pub(crate) fn tick(&self, cpu: usize) {
        if let Some(at) = self.places.get(cpu)
            && !self.has(cpu, Mark::Ticked)
        {
            at.armed_for.store(0, Ordering::Relaxed);
            self.note(cpu, Mark::Ticked);
        }
    }

    /// Returns whether the console has set this CPU's timer.
    pub(crate) fn is_armed(&self, cpu: usize) -> bool {
        let at = self.places.get(cpu);
        at.is_some_and(|at| at.armed_for.load(Ordering::Relaxed) != 0)
    }

    /// Forgets the timer if its time has come, and returns whether it has. It may be a little
    /// early, by an inexact timer.
    pub(crate) fn disarm(&self, cpu: usize, now: Nanos) -> bool {
        let Some(place) = self.places.get(cpu) else {
            return false;
        };
        let armed_for = place.armed_for.load(Ordering::Relaxed);
        let span = armed_for.wrapping_sub(place.armed_at.load(Ordering::Relaxed));
        let left = armed_for.wrapping_sub(micros(now)) as isize;
        // A clock that was set back shows more time left than there ever was.
        let is_due = left <= (span / EARLY_PARTS) as isize || left as usize > span;
        if is_due {
            place.armed_for.store(0, Ordering::Relaxed);
        }
        is_due
    }
}

/// Never 0.
fn micros(time: Nanos) -> usize {
    ((time.0 / 1_000) as usize).max(1)
}

//! State of each CPU in the console's own path, so that the console does not cause its own records.

use nostall_io::Nanos;

use crate::Priority;
use crate::sequence::is_before;
use crate::sync::{AtomicUsize, Ordering};

/// Number of CPUs with a state of their own. CPUs with greater numbers share one more.
const CPUS: usize = if usize::BITS < 64 { 16 } else { 256 };

/// Number of credits that are kept when all records are sent.
const KEPT: usize = 16;

/// Number of credits that only emergencies spend. A report of so many lines is stored on a machine
/// that logs nothing else.
const OF_EMERGENCIES: usize = 64;

/// Number of contexts that are refused the console's own path before one takes over a mark of an
/// older context.
const REFUSALS: usize = 8;

/// State bit of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Mark {
    /// A context reads the clock, or is about to mask interrupts.
    Entering = 1 << 0,
    /// So does a second context, which has interrupted or is called from the first.
    EnteringAgain = 1 << 1,
    /// The CPU runs the console's own path with interrupts masked.
    Inside = 1 << 2,
    /// The CPU handles an NMI.
    Nmi = 1 << 3,
    /// The CPU handles a timer interrupt at or after the time that the console set.
    Caused = 1 << 4,
    /// The CPU has handled a timer interrupt.
    Ticked = 1 << 5,
    /// A record was left to the CPU's slice.
    Left = 1 << 6,
    /// The CPU handles a timer interrupt and sends at its end.
    Timer = 1 << 7,
    /// The CPU handles a timer interrupt before the console's time, which the console may have
    /// caused.
    Early = 1 << 8,
    /// The CPU has panicked. Never cleared.
    Panicked = 1 << 9,
}

/// Lowest of the bits of the marks that count the CPU's panics that have not returned.
const PANIC: usize = 1 << 16;

/// State of one CPU.
#[derive(Debug)]
struct CpuState {
    marks: AtomicUsize,
    /// Time for which the console has set the timer since its last interrupt, in microseconds; 0
    /// for none.
    armed_for: AtomicUsize,
    /// Time that the console last set, until an interrupt comes at that time or later. An early
    /// interrupt keeps it, because a shared timer may also interrupt at that time.
    awaited: AtomicUsize,
    /// Number of contexts that found both entry marks set since one was last cleared.
    refused: AtomicUsize,
}

/// A mark that is cleared when this is dropped.
#[derive(Debug)]
pub(crate) struct Marked<'p> {
    state: &'p CpuState,
    mark: Mark,
}

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        let marks = &self.state.marks;
        marks.fetch_and(!(self.mark as usize), Ordering::AcqRel);
        if matches!(self.mark, Mark::Entering | Mark::EnteringAgain) {
            self.state.refused.store(0, Ordering::Relaxed);
        }
    }
}

/// State of all CPUs, and the credits of the console's own path.
#[derive(Debug)]
pub(crate) struct PerCpu {
    states: [CpuState; CPUS + 1],
    /// Number of records that the own path may log: at most as many as came from elsewhere, and
    /// [`OF_EMERGENCIES`].
    credits: AtomicUsize,
    /// Nonzero if a record has come from elsewhere since the last one that certainly belonged to
    /// the own path.
    is_fresh: AtomicUsize,
    /// Number of records left out, in all and since a record last reported it.
    left_out: AtomicUsize,
    untold: AtomicUsize,
}

impl PerCpu {
    pub(crate) const fn new() -> Self {
        Self {
            states: [const {
                CpuState {
                    marks: AtomicUsize::new(0),
                    armed_for: AtomicUsize::new(0),
                    awaited: AtomicUsize::new(0),
                    refused: AtomicUsize::new(0),
                }
            }; _],
            credits: AtomicUsize::new(OF_EMERGENCIES),
            is_fresh: AtomicUsize::new(0),
            left_out: AtomicUsize::new(0),
            untold: AtomicUsize::new(0),
        }
    }

    fn state(&self, cpu: usize) -> &CpuState {
        &self.states[cpu.min(CPUS)]
    }

    /// Returns whether this CPU has a state of its own. The marks of a shared state prevent
    /// recursion, and say nothing about one CPU's timer or records.
    pub(crate) fn has_own(&self, cpu: usize) -> bool {
        cpu < CPUS
    }

    /// Sets a mark. Returns `None` if it is already set.
    pub(crate) fn mark(&self, cpu: usize, mark: Mark) -> Option<Marked<'_>> {
        let state = self.state(cpu);
        let bit = mark as usize;
        let is_new = state.marks.fetch_or(bit, Ordering::AcqRel) & bit == 0;
        is_new.then(|| Marked { state, mark })
    }

    /// Enters the console's own path. Returns `None` if this CPU is in it twice: then the
    /// kernel's code has logged inside of a log call.
    ///
    /// Two entries are needed because a task may be preempted between the entry and the mask. Two
    /// tasks may stay or end there. So after [`REFUSALS`] refusals in a row, one context takes a
    /// mark over. A kernel that logs as often in one call gets one level deeper, but no further.
    /// No mark is taken over again before one is cleared.
    pub(crate) fn enter(&self, cpu: usize) -> Option<Marked<'_>> {
        let again = || self.mark(cpu, Mark::EnteringAgain);
        let entered = self.mark(cpu, Mark::Entering).or_else(again);
        if entered.is_some() || self.state(cpu).refused.fetch_add(1, Ordering::Relaxed) != REFUSALS
        {
            return entered;
        }
        self.clear(cpu, Mark::EnteringAgain);
        again()
    }

    /// Begins a panic, and returns the number of panics of this CPU that it interrupts.
    pub(crate) fn begin_panic(&self, cpu: usize) -> usize {
        self.state(cpu).marks.fetch_add(PANIC, Ordering::AcqRel) / PANIC
    }

    /// Returns the number of panics of this CPU that have not returned.
    pub(crate) fn panics(&self, cpu: usize) -> usize {
        self.state(cpu).marks.load(Ordering::Acquire) / PANIC
    }

    pub(crate) fn end_panic(&self, cpu: usize) {
        self.state(cpu).marks.fetch_sub(PANIC, Ordering::AcqRel);
    }

    pub(crate) fn has(&self, cpu: usize, mark: Mark) -> bool {
        self.state(cpu).marks.load(Ordering::Acquire) & mark as usize != 0
    }

    /// Sets a mark that stays until it is [cleared](Self::clear).
    pub(crate) fn note(&self, cpu: usize, mark: Mark) {
        let marks = &self.state(cpu).marks;
        marks.fetch_or(mark as usize, Ordering::AcqRel);
    }

    /// Clears a mark.
    pub(crate) fn clear(&self, cpu: usize, mark: Mark) {
        let marks = &self.state(cpu).marks;
        marks.fetch_and(!(mark as usize), Ordering::AcqRel);
    }
}

impl PerCpu {
    /// Returns whether a record of this CPU belongs, or may belong, to the console's own path.
    pub(crate) fn is_own(&self, cpu: usize) -> bool {
        let may_be = self.is_certainly_own(cpu) || self.has(cpu, Mark::Early);
        self.has_own(cpu) && may_be && !self.has(cpu, Mark::Nmi)
    }

    fn is_certainly_own(&self, cpu: usize) -> bool {
        self.has(cpu, Mark::Inside) || self.has(cpu, Mark::Caused)
    }

    /// Adds a credit, for a record from elsewhere.
    pub(crate) fn give_credit(&self) {
        self.credits.fetch_add(1, Ordering::Relaxed);
        self.is_fresh.store(1, Ordering::Relaxed);
    }

    /// Spends a credit, and returns the number of records left out since the last stored one.
    /// Without a credit, counts one more and returns `None`.
    pub(crate) fn spend_credit(&self, cpu: usize, priority: Priority) -> Option<usize> {
        let (may, reserved) = match priority {
            Priority::Normal => (
                !self.is_certainly_own(cpu) || self.is_fresh.swap(0, Ordering::Relaxed) != 0,
                OF_EMERGENCIES,
            ),
            _ => (true, 0),
        };
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let take = |credits: usize| credits.checked_sub(1).filter(|left| *left >= reserved);
        if may && self.credits.fetch_update(set, fetch, take).is_ok() {
            return Some(self.untold.swap(0, Ordering::Relaxed));
        }
        self.untold.fetch_add(1, Ordering::Relaxed);
        self.left_out.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Limits the credits when all records are sent, so that a long backlog's credits do not serve
    /// a later one.
    pub(crate) fn trim_credits(&self) {
        self.credits
            .fetch_min(KEPT + OF_EMERGENCIES, Ordering::Relaxed);
    }

    pub(crate) fn left_out(&self) -> usize {
        self.left_out.load(Ordering::Relaxed)
    }
}

impl PerCpu {
    /// Stores the time for which the console sets this CPU's timer. Returns `false` if that time
    /// has been set since this CPU's last timer interrupt.
    pub(crate) fn arm(&self, cpu: usize, at: Nanos) -> bool {
        let state = self.state(cpu);
        let armed_for = micros(at);
        let is_new = state.armed_for.load(Ordering::Relaxed) != armed_for;
        if is_new {
            state.awaited.store(armed_for, Ordering::Relaxed);
            state.armed_for.store(armed_for, Ordering::Relaxed);
        }
        is_new || !self.has(cpu, Mark::Ticked) || !self.has_own(cpu)
    }

    /// Makes the next [`arm`](Self::arm) set this CPU's timer.
    pub(crate) fn forget_timer(&self, cpu: usize) {
        self.state(cpu).armed_for.store(0, Ordering::Relaxed);
    }

    /// Returns whether an interrupt of this CPU's timer may be the console's.
    pub(crate) fn is_awaited(&self, cpu: usize) -> bool {
        self.has_own(cpu) && self.state(cpu).awaited.load(Ordering::Relaxed) != 0
    }

    /// Forgets the timer at a timer interrupt; the console sets it again if records are left.
    /// Returns whether its time has come.
    pub(crate) fn disarm(&self, cpu: usize, now: Nanos) -> bool {
        let state = self.state(cpu);
        state.armed_for.store(0, Ordering::Relaxed);
        let is_due = is_due(micros(now), state.awaited.load(Ordering::Relaxed));
        if is_due {
            state.awaited.store(0, Ordering::Relaxed);
        }
        is_due
    }
}

/// Returns whether `now` is `awaited` or later, in microseconds. Both wrap on 32-bit machines.
fn is_due(now: usize, awaited: usize) -> bool {
    !is_before(now, awaited)
}

/// Returns whether `span` has passed between `since`, in microseconds, and `now`.
pub(crate) fn has_passed(now: Nanos, since: usize, span: Nanos) -> bool {
    is_due(micros(now), since.wrapping_add(micros(span)))
}

/// Converts a time to microseconds. Never 0.
pub(crate) fn micros(time: Nanos) -> usize {
    ((time.0 / 1_000) as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::is_due;

    #[test]
    fn a_time_after_a_wrap_is_later_than_one_before_it() {
        let soon = usize::MAX - 10;
        assert!(is_due(soon, soon) && is_due(soon + 1, soon) && !is_due(soon, soon + 1));
        assert!(is_due(1, soon) && !is_due(soon, 1));
    }
}

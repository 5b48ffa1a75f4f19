//! Ownership of a sink: one context at a time, and finally a panic.

use core::mem;

use nostall_io::{Clock, Held, Nanos, StallCondition, Timeout};

use crate::sync::{AtomicUsize, Ordering, STILL, spin_loop};
use crate::{Caller, Priority};

/// Interval at which a panic checks whether the owner has released the sink.
const CHECK_INTERVAL: Nanos = Nanos::from_micros(10);

/// Time after which another CPU's panic counts as crashed: a running one sends or polls at least
/// every 10 ms (`flush.rs`).
const DEAD_AFTER: Nanos = Nanos::from_millis(100);

/// Words that identify the sink's owner.
#[derive(Debug)]
pub(crate) struct Owner {
    /// 0, or an owner's [`name`].
    pub(crate) word: AtomicUsize,
    /// Nonzero while a panic requests or owns the sink. Other contexts are then refused.
    pub(crate) panic: AtomicUsize,
    /// Number of steps of panics: offers, and searches for the next record.
    pub(crate) beats: AtomicUsize,
}

/// Returns the owner word of a CPU and the priority of its turn. Never 0.
fn name(cpu: u16, priority: Priority) -> usize {
    (usize::from(cpu) + 1) << 2 | priority as usize
}

/// One turn of an owner. Dropping it releases the sink.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    owner: &'a Owner,
    me: usize,
}

/// How a panic acquired a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The owner had released it.
    Free,
    /// The owner was in the middle of its turn.
    Seized,
}

impl Owner {
    /// Returns whether a panic requests or owns the sink, so that no slice gets it.
    pub(crate) fn is_panics(&self) -> bool {
        self.panic.load(Ordering::Relaxed) != 0
    }

    /// Takes the sink if it has no owner.
    pub(crate) fn enter(&self, cpu: u16, priority: Priority) -> Option<Turn<'_>> {
        let turn = self.take(name(cpu, priority))?;
        if self.is_panics() {
            // Dropping the turn releases the sink.
            return None;
        }
        Some(turn)
    }

    fn take(&self, me: usize) -> Option<Turn<'_>> {
        self.word
            .compare_exchange(0, me, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then(|| Turn { owner: self, me })
    }

    /// Takes the sink for a panic: when its owner releases it, after `patience`, or at once if the
    /// owner is this CPU. An owner releases the sink before its next offer. Returns `None` only if
    /// another CPU's panic is active until `timeout` ends. That panic sends this one's text too.
    pub(crate) fn enter_in_panic(
        &self,
        cpu: u16,
        clock: &impl Clock,
        timeout: &mut Timeout,
        patience: Nanos,
    ) -> Option<(Turn<'_>, Acquired)> {
        let me = name(cpu, Priority::Panic);
        self.panic.store(1, Ordering::Relaxed);
        let start = timeout.update(clock);
        // Progress of the owning panic: its owner word, and its number of steps.
        let mut seen = (0, 0);
        let mut seen_at = start;
        let mut held = None;
        loop {
            if let Some(turn) = self.take(me) {
                return Some((turn, Acquired::Free));
            }
            let now = timeout.update(clock);
            let owner = self.word.load(Ordering::Relaxed);
            let is_me = owner >> 2 == me >> 2;
            let in_panic = owner & 3 == Priority::Panic as usize;
            let is_dead = if in_panic {
                let sign = (owner, self.beats.load(Ordering::Relaxed));
                if sign != seen {
                    (seen, seen_at) = (sign, now);
                }
                now - seen_at >= DEAD_AFTER
            } else {
                // An owner that has just released the sink is not dead.
                owner != 0 && now - start >= patience
            };
            // Fails if another panic has just done the same.
            if (is_me || is_dead)
                && self
                    .word
                    .compare_exchange(owner, me, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Some((Turn { owner: self, me }, Acquired::Seized));
            }
            if in_panic && timeout.is_over() {
                return None;
            }
            held.get_or_insert_with(|| Held::begin(StallCondition::SinkOwner));
            timeout.poll(clock, CHECK_INTERVAL, STILL, spin_loop);
        }
    }
}

impl Owner {
    /// Returns the turn that this CPU's panic has kept.
    pub(crate) fn resume(&self, cpu: u16) -> Option<Turn<'_>> {
        let me = name(cpu, Priority::Panic);
        (self.word.load(Ordering::Relaxed) == me).then(|| Turn { owner: self, me })
    }
}

impl Turn<'_> {
    /// Keeps the sink beyond this turn.
    pub(crate) fn keep(self) {
        mem::forget(self);
    }

    /// Returns the kind of context that owns the sink.
    pub(crate) fn caller(&self) -> Caller {
        if self.me & 3 == Priority::Panic as usize {
            Caller::Panic
        } else {
            Caller::Normal
        }
    }

    pub(crate) fn name(&self) -> usize {
        self.me
    }

    /// Returns whether the owner may continue: no panic requests or has taken the sink.
    pub(crate) fn lasts(&self) -> bool {
        match self.caller() {
            Caller::Panic => self.owner.word.load(Ordering::Relaxed) == self.me,
            Caller::Normal => self.owner.panic.load(Ordering::Relaxed) == 0,
        }
    }

    pub(crate) fn beat(&self) {
        self.owner.beats.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Fails if the sink was seized: it then has another owner.
        let _ = self
            .owner
            .word
            .compare_exchange(self.me, 0, Ordering::Release, Ordering::Relaxed);
    }
}

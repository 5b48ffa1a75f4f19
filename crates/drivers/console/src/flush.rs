//! Panic flush: the panic's text, then the backlog. Only this module waits.

use nostall_io::{Clock, Held, Nanos, StallCondition, Timeout};

use crate::drain::{Drain, LONGEST_STEP, Next};
use crate::feed::{MOST_SKIPPED, Search, Stop};
use crate::options::PanicOrder;
use crate::owner::{Acquired, Turn};
use crate::sync::{Ordering, STILL, spin_loop};
use crate::{Priority, Sink};

/// Longest sleep between two checks, so that another CPU's panic sees this one active.
const LONGEST_NAP: Nanos = Nanos::from_millis(10);

/// Shortest sleep, for a sink that is ready at once but takes nothing.
const SHORTEST_NAP: Nanos = Nanos::from_micros(1);

/// Panic-flush timeouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlushLimits {
    /// Time limit of the whole flush, from its start.
    pub total: Nanos,
    /// Time limit for a sink's owner to release it, enough for one offer. Then the flush takes it.
    pub owner: Nanos,
    /// Time limit of an incomplete record, whose producer may run on a CPU that is not stopped.
    pub pending: Nanos,
}

impl FlushLimits {
    /// Default limits: 10 s in total, 1 ms for an owner, 1 ms for an incomplete record.
    pub const DEFAULT: Self = Self {
        total: Nanos::from_secs(10),
        owner: Nanos::from_millis(1),
        pending: Nanos::from_millis(1),
    };

    /// Sets the time limit of the whole flush.
    pub const fn total(self, total: Nanos) -> Self {
        Self { total, ..self }
    }
}

impl Default for FlushLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Longest poll of a machine that is not stuck. A clock that is too fast cannot end the text of a
/// panic with fewer polls than fit into the time limit.
const LONGEST_POLL: Nanos = Nanos::from_micros(20);

/// Interval between checks of an incomplete record.
const PENDING: Nanos = Nanos::from_micros(100);

/// Number of panics inside a sink's methods after which the sink is left out. The first may come from
/// elsewhere, such as a machine check.
const MOST_INSIDE: usize = 2;

/// Number of offers to one sink, and of searches, before the next sink is served.
const TURN: usize = 64;

/// Result of a panic's flush.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlushReport {
    /// Number of sinks that have taken all records.
    pub complete: usize,
    /// Number of sinks that have not: too slow, stuck, gone or not open.
    pub incomplete: usize,
    /// Number of sinks owned by another CPU's panic, which sends this one's text too.
    pub left_to_another: usize,
    /// Number of sinks that were taken from an owner that did not release them.
    pub seized: usize,
}

/// Sends all records to every sink: the text of panics first, then emergencies, then the backlog.
/// Waits for the line, up to [`FlushLimits::total`] plus one offer to each sink. Then waits until
/// each sink is [finished](Sink::finish).
///
/// Records of all levels are sent. [`SinkOptions::panic_order`] can leave out all but the newest of the
/// backlog, or keep the order of the log.
///
/// [`SinkOptions::panic_order`]: crate::SinkOptions::panic_order
///
/// Call this after the panic's text has been [logged](crate::Ring::log) with [`Priority::Panic`],
/// and before a record is written to persistent memory. After this call no slice sends anything. It
/// may be called again, by a panic inside of it or on another CPU. `cpu` is this CPU's unique
/// number.
///
/// A [prefix](crate::SinkOptions::prefix) in which a panic came is left out from then on, and so is a
/// sink in which two panics came.
///
/// Polls [`Clock::now`] and counts the polls, so that it ends even if the clock stops, and waits no
/// longer if the clock goes back. A clock that is too fast or jumps cuts the backlog. It cuts the
/// text of a panic only after one poll for each 20 us of the limit. So a flush whose polls take
/// longer than 20 us can exceed the limit while that text is unsent.
///
/// It does not call [`Clock::wait_until`], because a clock's own implementation may not return
/// then. If the clock has stopped, a sink that has returned a later time is
/// [made to take more](Sink::insist).
pub fn flush(
    drains: &[&Drain<'_, dyn Sink + '_>],
    cpu: u16,
    clock: &impl Clock,
    limits: FlushLimits,
) -> FlushReport {
    let mut timeout = Timeout::new(clock.now(), limits.total).largest_step(LONGEST_STEP);
    let mut flushed = FlushReport::default();
    // A slow sink must not hold back a fast one: all are entered, and then served in turn. Without
    // an allocator there is no room for the turns, only for the owner words. So each offer resumes
    // its turn.
    for drain in drains {
        match drain
            .owner
            .enter_in_panic(cpu, clock, &mut timeout, limits.owner)
        {
            Some((turn, acquired)) => {
                if acquired == Acquired::Seized {
                    flushed.seized += 1;
                }
                turn.keep();
            }
            None => flushed.left_to_another += 1,
        }
    }
    let mut insist = false;
    let mut polls = 0;
    loop {
        let mut next = None;
        flushed.complete = 0;
        flushed.incomplete = 0;
        for drain in drains {
            let Some(turn) = drain.owner.resume(cpu) else {
                continue;
            };
            let send = || drain.send_in_panic(&turn, clock, &mut timeout, &limits, insist);
            match drain.use_in_panic(send) {
                Some(Next::Empty) => flushed.complete += 1,
                sent => {
                    flushed.incomplete += 1;
                    let at = sent.and_then(Next::time);
                    next = next.into_iter().chain(at).min();
                }
            }
            turn.keep();
        }
        let Some(next) = next else { break };
        timeout.update(clock);
        let is_cut = || {
            drains
                .iter()
                .any(|drain| drain.feed.has_more(Priority::Panic))
        };
        if timeout.is_over() && (polls >= limits.total.0 / LONGEST_POLL.0 || !is_cut()) {
            break;
        }
        let early = next - clock.now();
        let nap = early.clamp(SHORTEST_NAP, LONGEST_NAP);
        let held = Held::begin(StallCondition::PanicFlush);
        let nap = nap.min(timeout.left()).max(SHORTEST_NAP);
        let has_moved = timeout.poll(clock, nap, STILL, || {
            polls += 1;
            spin_loop();
        });
        drop(held);
        // A sink that follows the clock would never become ready.
        insist = early > Nanos::ZERO && !has_moved;
    }
    for drain in drains {
        if let Some(turn) = drain.owner.resume(cpu) {
            drain.use_in_panic(|| drain.sink.finish());
            drop(turn);
        }
    }
    flushed
}

impl<S: Sink + ?Sized> Drain<'_, S> {
    /// Calls `act`, which uses the sink. Returns `None` if [`MOST_INSIDE`] earlier calls have not
    /// returned: panics came there.
    fn use_in_panic<T>(&self, act: impl FnOnce() -> T) -> Option<T> {
        let inside = self.inside.load(Ordering::Relaxed);
        self.inside.store(inside + 1, Ordering::Relaxed);
        let done = (inside < MOST_INSIDE).then(act);
        self.inside.store(inside, Ordering::Relaxed);
        done
    }

    /// Returns the number of backlog records to keep, if older ones are to be left out and are not yet.
    fn newest_of_backlog(&self) -> Option<usize> {
        match self.options.panic_order {
            PanicOrder::PanicThenNewest(most) if self.has_left_out.load(Ordering::Relaxed) == 0 => {
                Some(most)
            }
            _ => None,
        }
    }

    /// Sends until the sink takes no more for now. The sink of `Next::Over` is gone.
    fn send_in_panic(
        &self,
        turn: &Turn<'_>,
        clock: &impl Clock,
        timeout: &mut Timeout,
        limits: &FlushLimits,
        insist: bool,
    ) -> Next {
        for _ in 0..TURN {
            turn.beat();
            let is_late = timeout.update(clock) >= limits.total;
            let mut search = Search {
                now: timeout.now(),
                // After the time limit, no record is waited for.
                patience: if is_late { Nanos::ZERO } else { limits.pending },
                left: MOST_SKIPPED,
                insist,
                all_levels: true,
                bytes: 0,
                until: Nanos::ZERO,
            };
            let newest = self.newest_of_backlog();
            let least = newest.map_or(Priority::Normal, |_| Priority::Emergency);
            match self.step(turn, least, &mut search) {
                Ok(given) => {
                    let ready_at = match given.ready_at {
                        Some(ready_at) => ready_at,
                        // It is not open, or was made to take more.
                        None if insist || self.sink.load() == 0 => return Next::Over,
                        // It may return, as a port that is reset.
                        None => return Next::At(clock.now() + LONGEST_NAP),
                    };
                    let is_late = timeout.update(clock) >= limits.total;
                    if given.taken == 0 || insist || ready_at > clock.now() || is_late {
                        return Next::At(ready_at);
                    }
                }
                Err(Stop::Scanned) if !is_late => {}
                Err(Stop::Scanned | Stop::Pending) => return Next::At(clock.now() + PENDING),
                Err(Stop::Empty) => {
                    let Some(most) = newest else {
                        return Next::Empty;
                    };
                    // All text of panics and emergencies is sent.
                    self.feed.leave_out_all_but(most);
                    self.has_left_out.store(1, Ordering::Relaxed);
                }
                Err(Stop::Over) => return Next::Over,
            }
            if !turn.lasts() {
                return Next::Over;
            }
        }
        Next::At(Nanos::ZERO)
    }
}

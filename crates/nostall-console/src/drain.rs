//! Taking a ring's records to a sink, in slices that wait for nothing.

use core::fmt;

use nostall_io::{Clock, Nanos};

use crate::fetch::{Fetched, LOOKS, Search};
use crate::lane::{Lane, Position};
use crate::line::Line;
use crate::owner::{Owner, Turn};
use crate::render::Window;
use crate::sequence::{after, is_past};
use crate::sync::{AtomicUsize, Ordering, fence};
use crate::{Offered, Options, Pressure, Priority, Record, Ring, Sink};

/// Bytes that are offered at once: more than any FIFO of the serial family takes.
const CHUNK: usize = 256;

/// Records that are offered at once; short lines are not to leave a FIFO half empty.
const LINES: usize = 4;

/// When to look again for a record that is in mid-write.
const PENDING: Nanos = Nanos::from_millis(1);

/// While a caller waits for room: a sink that is ready at once but takes nothing is not
/// polled faster.
const SHORTEST_NAP: Nanos = Nanos::from_micros(1);

/// When to offer again to a sink that took nothing, although it said that it is ready.
const STUCK: Nanos = Nanos::from_millis(1);

/// When to look again for a sink that is gone.
const GONE: Nanos = Nanos::from_secs(1);

/// When somebody should come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "somebody has to come back"]
pub enum Next {
    /// There is more, which the sink takes then.
    At(Nanos),
    /// All is sent. Come back when something is logged.
    Empty,
    /// What is urgent is sent, as was asked for, and there may be more. Somebody has to
    /// come back in normal context, soon: who has logged it may have been told
    /// [`Busy`](Self::Busy).
    Backlog,
    /// Somebody else is sending, and is told to come back; or a panic has the sink.
    Busy,
}

/// One sink and its place in a ring.
pub struct Drain<'r, S: ?Sized = dyn Sink + 'r> {
    pub(crate) ring: &'r Ring,
    pub(crate) options: Options,
    pub(crate) owner: Owner,
    /// By priority: each sends the records of its own and above.
    pub(crate) lanes: [Lane; 3],
    /// The sink was taken from somebody, who may have been in mid-line.
    pub(crate) seized: AtomicUsize,
    /// The newest record when one in mid-write was first waited for; and when that was,
    /// in microseconds.
    pub(crate) pending: [AtomicUsize; 2],
    pub(crate) lost: AtomicUsize,
    pub(crate) bytes: AtomicUsize,
    pub(crate) sink: S,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Offered so much, of which so much was taken.
    Sent {
        offered: usize,
        given: Offered,
    },
    /// Nothing to send so far, and enough looked at.
    Scanned,
    /// The next record is in mid-write.
    Pending,
    Empty,
    /// The sink is another's by now.
    Over,
}

impl<S: Sink + ?Sized> Drain<'_, S> {
    /// Sends what the sink takes now, of records of this priority and above, the most
    /// urgent first.
    ///
    /// Never waits, neither for the line nor for another CPU. What it takes is bounded
    /// by [`Options::slice`] and by the sink's own way to take bytes. For any context
    /// but NMIs, with pre-emption off. `cpu` is this one, and no other has its number: a
    /// panic takes a sink from its own CPU at once. An interrupt handler that reports an
    /// emergency says so, and sends that and nobody's backlog; for which it has somebody
    /// come back, a timer or a task, if it is told [`Next::Backlog`]. Panics are for
    /// [`flush`](crate::flush); here they count as emergencies.
    pub fn slice(&self, cpu: u16, priority: Priority, now: Nanos) -> Next {
        let priority = priority.min(Priority::Emergency);
        // Who has just logged, and finds somebody here, is seen by him below: of the two
        // one comes second.
        fence(Ordering::SeqCst);
        let Some(turn) = self.owner.enter(cpu, priority) else {
            return Next::Busy;
        };
        let next = self.send(&turn, priority, now);
        drop(turn);
        // Who logged while this was here was told that somebody is; so look again.
        fence(Ordering::SeqCst);
        match next {
            Next::Empty if self.has_more(priority) => Next::At(now),
            Next::Empty if self.has_more(Priority::Normal) => Next::Backlog,
            next => next,
        }
    }

    fn send(&self, turn: &Turn<'_>, priority: Priority, now: Nanos) -> Next {
        let mut budget = self.options.slice;
        let mut search = Search {
            now,
            patience: self.options.pending,
            looks: LOOKS,
        };
        loop {
            match self.step(turn, priority, &mut search) {
                Step::Sent { offered, given } => {
                    let Some(ready_at) = given.ready_at else {
                        return Next::At(now + GONE);
                    };
                    if !turn.lasts() {
                        return Next::Busy;
                    }
                    budget = budget.saturating_sub(given.taken.max(1));
                    if given.taken == 0 && ready_at <= now {
                        return Next::At(now + STUCK);
                    }
                    if given.taken < offered || ready_at > now || budget == 0 {
                        return Next::At(ready_at.max(now));
                    }
                }
                Step::Scanned => return Next::At(now),
                Step::Pending => return Next::At(now + PENDING),
                Step::Empty => return Next::Empty,
                Step::Over => return Next::Busy,
            }
        }
    }

    /// One offer, of the most urgent lane that has something.
    pub(crate) fn step(&self, turn: &Turn<'_>, least: Priority, search: &mut Search) -> Step {
        for priority in Priority::ALL.into_iter().rev() {
            if priority < least {
                break;
            }
            match self.offer(turn, priority, search) {
                Step::Empty => {}
                done => return done,
            }
        }
        Step::Empty
    }

    fn offer(&self, turn: &Turn<'_>, priority: Priority, search: &mut Search) -> Step {
        let lane = &self.lanes[priority as usize];
        let stored = lane.position();
        let mut at = self.start(priority, stored);
        let first = match self.fetch(priority, &mut at, false, search) {
            Fetched::Record(record) => record,
            nothing => {
                lane.advance(stored, at);
                if at.next != stored.next {
                    self.tell_place();
                }
                return match nothing {
                    Fetched::Pending => Step::Pending,
                    Fetched::Scanned | Fetched::Gap => Step::Scanned,
                    _ => Step::Empty,
                };
            }
        };
        // What is skipped is skipped whatever the sink does.
        lane.advance(stored, at);
        self.close_others(priority, &mut at);
        let before = at;
        let mut bytes = [0; CHUNK];
        let mut window = Window::new(&mut bytes);
        let mut sending = [None; LINES];
        let mut record = first;
        for place in &mut sending {
            let settled = self.settle(lane, at, &record);
            let total = settled.render(&record, lane.gap(at.next), &mut window);
            *place = Some(Sending {
                at,
                settled,
                record,
                total,
            });
            at = Position {
                next: after(at.next),
                line: Line::after(&record),
            };
            if window.is_full() {
                break;
            }
            match self.fetch(priority, &mut at, true, search) {
                Fetched::Record(next) => record = next,
                _ => break,
            }
        }
        let bytes = window.into_bytes();
        // Who was stopped until a panic took the sink has seen another time's records.
        if !turn.lasts() {
            return Step::Over;
        }
        let mut given = self.sink.offer(bytes, priority);
        given.taken = given.taken.min(bytes.len());
        self.bytes.fetch_add(given.taken, Ordering::Relaxed);
        lane.advance(before, taken(lane, &sending, given.taken).unwrap_or(at));
        self.tell_place();
        Step::Sent {
            offered: bytes.len(),
            given,
        }
    }

    /// In the ring's memory.
    fn tell_place(&self) {
        let places = &self.ring.head.sent;
        if let Some(place) = self
            .options
            .place
            .and_then(|at| places.get(usize::from(at)))
        {
            place.store(self.lanes[0].position().next, Ordering::Relaxed);
        }
    }

    fn settle(&self, lane: &Lane, at: Position, record: &Record) -> Line {
        let mut line = at.line;
        line.begin(record, lane.gap(at.next));
        line
    }

    /// Where a lane goes on: not before what the less urgent ones have sent.
    pub(crate) fn start(&self, priority: Priority, stored: Position) -> Position {
        let mut at = stored;
        for lane in &self.lanes[..priority as usize] {
            let lower = lane.position();
            let next = if lower.line.begun {
                after(lower.next)
            } else {
                lower.next
            };
            if !at.line.begun && (at.next == 0 || is_past(next, at.next)) {
                at.next = next;
            }
        }
        at
    }

    /// If another lane's line is open on the wire, it is cut, and this lane's line
    /// closes it.
    fn close_others(&self, priority: Priority, at: &mut Position) {
        let seized = self.seized.load(Ordering::Relaxed) != 0;
        let others = || {
            let lanes = self.lanes.iter().enumerate();
            lanes
                .filter(|(which, _)| *which != priority as usize)
                .map(|(_, lane)| (lane, lane.position()))
                .filter(|(_, position)| position.line.is_open())
        };
        if !seized && others().next().is_none() {
            return;
        }
        let lane = &self.lanes[priority as usize];
        let before = *at;
        // Also if just its lead is out: it leads no more.
        at.line.cut();
        at.line.close_other();
        // First this: somebody who dies in between leaves one marker too many.
        lane.advance(before, *at);
        for (lane, before) in others() {
            let mut after = before;
            after.line.cut();
            lane.advance(before, after);
        }
        self.seized.store(0, Ordering::Relaxed);
    }

    fn has_more(&self, least: Priority) -> bool {
        Priority::ALL
            .into_iter()
            .filter(|priority| *priority >= least)
            .any(|priority| {
                let lane = &self.lanes[priority as usize];
                let at = self.start(priority, lane.position());
                at.line.begun || self.ring.has(at.next, priority)
            })
    }

    /// For who is about to log in normal context: waits, if this sink's
    /// [`Pressure`] is to wait and three quarters of the ring are not sent yet.
    /// Sends itself meanwhile. How long it waited.
    pub fn make_room(&self, cpu: u16, clock: &impl Clock) -> Nanos {
        let Pressure::Wait(at_most) = self.options.pressure else {
            return Nanos::ZERO;
        };
        if !self.is_crowded() {
            return Nanos::ZERO;
        }
        let start = clock.now();
        let mut now = start;
        let deadline = start + at_most;
        while now < deadline && self.is_crowded() {
            let until = match self.slice(cpu, Priority::Normal, now) {
                Next::At(then) => then.max(now + SHORTEST_NAP),
                Next::Busy | Next::Empty | Next::Backlog => now + PENDING,
            };
            // Not longer, although the clock may have gone back.
            let nap = until.min(deadline) - now;
            let from = clock.now();
            clock.sleep_until(from + nap);
            now = now + (clock.now() - from).max(nap);
        }
        now - start
    }

    fn is_crowded(&self) -> bool {
        self.unread() >= self.ring.slots() as u64 * 3 / 4
    }

    /// Records that are not sent yet.
    pub fn unread(&self) -> u64 {
        let next = self.lanes[0].position().next as u64;
        crate::Cursor { next, lost: 0 }.unread(self.ring)
    }

    /// Records that were lost to this sink: overwritten, or not completed in time. Not
    /// more than that; an urgent one that was sent before its turn, or one that was waited
    /// for among urgent ones and is sent with the backlog, may be among them.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed) as u64
    }

    /// Bytes that the sink has taken.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) as u64
    }

    /// The sink.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// The ring.
    pub fn ring(&self) -> &Ring {
        self.ring
    }
}

/// A record that is being offered.
#[derive(Clone, Copy)]
struct Sending {
    at: Position,
    settled: Line,
    record: Record,
    total: usize,
}

/// Where a lane is when so many bytes were taken; `None` if all were.
fn taken(lane: &Lane, sending: &[Option<Sending>], mut taken: usize) -> Option<Position> {
    for sent in sending.iter().flatten() {
        let rest = sent.total - sent.settled.offset;
        if taken >= rest {
            taken -= rest;
            continue;
        }
        if taken == 0 {
            return Some(sent.at);
        }
        lane.keep(&sent.record);
        let mut line = sent.settled;
        line.offset += taken;
        return Some(Position {
            next: sent.at.next,
            line,
        });
    }
    None
}

impl<S: ?Sized> fmt::Debug for Drain<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("owner", &self.owner)
            .field("lanes", &self.lanes)
            .field("lost", &self.lost)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

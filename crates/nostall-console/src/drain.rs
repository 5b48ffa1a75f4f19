//! Taking a ring's records to a sink, in slices that wait for nothing.

use core::array;
use core::fmt;

use nostall_io::{Clock, Counter, Nanos, Timeout, count};

use crate::feed::{Feed, Fetched, LOOKS, Search};
use crate::lane::{Lane, Position};
use crate::line::LineState;
use crate::options::PanicOrder;
use crate::owner::{Owner, Turn};
use crate::promise::Promise;
use crate::render::{LineBuffer, Rendered, Style};
use crate::sequence::after;
use crate::sync::{AtomicUsize, Ordering, STILL, fence};
use crate::{Caller, Level, Offered, OverflowPolicy, Priority, Record, Ring, Sink, SinkOptions};

/// Number of bytes in one offer: more than any FIFO of the serial family takes.
const CHUNK: usize = 256;

/// The same for a sink that takes fewer bytes at once.
const SMALL_CHUNK: usize = 64;

/// Records that are offered at once; short lines are not to leave a FIFO half empty.
const LINES: usize = 4;

/// Bytes of an offer for which no other record is begun: that costs as much as an offer, and a
/// serial port adds a carriage return to the line before.
const LEAST: usize = 4;

/// Interval between checks of an incomplete record.
const PENDING: Nanos = Nanos::from_millis(1);

/// While a caller waits for room: a sink that is ready at once but takes nothing is not
/// polled faster.
const SHORTEST_NAP: Nanos = Nanos::from_micros(1);

/// The longest step of a clock that counts in full. More is a clock that jumped, or a
/// virtual machine that was stopped: neither is to cost a panic its text.
pub(crate) const LONGEST_STEP: Nanos = Nanos::from_millis(10);

/// Delay of a CPU that promised to return, after which another CPU does its work, because the
/// first may hang.
const LATE: Nanos = Nanos::from_millis(10);

/// Time at which this CPU must return to a sink, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "set this CPU's timer to `Next::time`"]
pub enum Next {
    /// There is more to send, which the sink takes at this time.
    At(Nanos),
    /// All requested urgent records are sent. More records are to be sent in normal context;
    /// the sink takes them at this time.
    Backlog(Nanos),
    /// Another CPU sends, or has promised to come back when the sink takes more. It may
    /// hang: at this time, this CPU looks whether it has done so.
    Busy(Nanos),
    /// All records are sent. Return after the next record.
    Empty,
    /// A panic has the sink, for good.
    Over,
}

impl Next {
    /// Returns when this CPU has to call [`Drain::drain_bounded`] again, in normal context:
    /// what to set its timer to. `None` if there is nothing to come back for.
    ///
    /// A CPU that obeys this every time leaves nothing unsent, even if all the others
    /// hang.
    pub const fn time(self) -> Option<Nanos> {
        match self {
            Self::At(time) | Self::Backlog(time) | Self::Busy(time) => Some(time),
            Self::Empty | Self::Over => None,
        }
    }
}

/// A sink and its position in a ring.
pub struct Drain<'r, S: ?Sized = dyn Sink + 'r> {
    pub(crate) feed: Feed<'r>,
    pub(crate) options: SinkOptions,
    pub(crate) owner: Owner,
    pub(crate) promise: Promise,
    /// The owner of the offer that is under way, or that it died in; 0: none.
    pub(crate) offering: AtomicUsize,
    pub(crate) bytes: AtomicUsize,
    pub(crate) sink: S,
}

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// An offer was made, of which this much was taken.
    Sent {
        given: Offered,
    },
    /// No record to send was found yet, and the step's limit of records is reached.
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
    /// Waits neither for the line nor for another CPU. A slice goes on while the sink is
    /// ready and takes bytes, up to [`SinkOptions::slice`] and [`SinkOptions::hold`]. Before the
    /// time at which the sink takes more, the sink is not touched: call this after every
    /// record. For any context but NMIs, with pre-emption off.
    ///
    /// `cpu` is this CPU's number, which no other has: a panic takes a sink from its own
    /// CPU at once. The result says when this CPU has to [come back](Next::time).
    ///
    /// An interrupt handler that reports an emergency passes [`Priority::Emergency`], and
    /// leaves the backlog to its CPU's timer. Panics are for [`flush`](crate::flush);
    /// here they count as emergencies.
    pub fn drain_bounded(&self, cpu: u16, priority: Priority, clock: &impl Clock) -> Next {
        let priority = priority.min(Priority::Emergency);
        // A record logged before this is seen by the owner below, or the owner is seen
        // here: one of the two fences is the second.
        fence(Ordering::SeqCst);
        let now = clock.now();
        if let Some(ready_at) = self.promise.ready_at(now) {
            return self.wait_for(cpu, priority, ready_at);
        }
        let Some(turn) = self.owner.enter(cpu, priority) else {
            return if self.owner.is_panics() {
                Next::Over
            } else {
                Next::Busy(now + LATE)
            };
        };
        let sent = self.send(&turn, cpu, priority, clock, now);
        drop(turn);
        let Some(at) = sent else { return Next::Over };
        // A record logged meanwhile was left to this CPU: look again.
        fence(Ordering::SeqCst);
        self.left(cpu, priority, at)
    }

    /// Leaves the sink alone until `ready_at`.
    fn wait_for(&self, cpu: u16, priority: Priority, ready_at: Nanos) -> Next {
        if self.owner.is_panics() {
            Next::Over
        } else if self.promise.keep(cpu) {
            self.left(cpu, priority, ready_at)
        } else if self.feed.has_more(Priority::Normal) {
            Next::Busy(ready_at + LATE)
        } else {
            Next::Empty
        }
    }

    /// Returns what is left for this CPU to come back for. If nothing is, the CPU that
    /// logs next comes back.
    fn left(&self, cpu: u16, priority: Priority, at: Nanos) -> Next {
        let next = self.left_now(priority, at);
        if next != Next::Empty {
            return next;
        }
        self.promise.leave(cpu);
        // A CPU that has logged before this, and found the promise, left it to this CPU.
        fence(Ordering::SeqCst);
        self.left_now(priority, at)
    }

    fn left_now(&self, priority: Priority, at: Nanos) -> Next {
        if self.feed.has_more(priority) {
            Next::At(at)
        } else if priority > Priority::Normal && self.feed.has_more(Priority::Normal) {
            Next::Backlog(at)
        } else {
            Next::Empty
        }
    }

    /// Returns when the rest can be sent, if there is any; `None` if a panic has the sink.
    fn send(
        &self,
        turn: &Turn<'_>,
        cpu: u16,
        priority: Priority,
        clock: &impl Clock,
        start: Nanos,
    ) -> Option<Nanos> {
        let mut budget = self.options.slice;
        let mut search = Search {
            now: start,
            patience: self.options.pending,
            looks: LOOKS,
            insist: false,
            all_levels: false,
        };
        loop {
            match self.step(turn, priority, &mut search) {
                Step::Sent { given } => {
                    if !turn.lasts() {
                        return None;
                    }
                    let now = clock.now();
                    let at = self.promise.offered(given, cpu, now);
                    budget = budget.saturating_sub(given.taken.max(1));
                    let is_over = budget == 0 || now - start >= self.options.hold;
                    if given.taken == 0 || at > now || is_over {
                        return Some(at.max(now));
                    }
                }
                Step::Scanned | Step::Empty => return Some(start),
                Step::Pending => return Some(start + PENDING),
                Step::Over => return None,
            }
        }
    }

    /// Makes one offer from the most urgent lane with a record.
    pub(crate) fn step(&self, turn: &Turn<'_>, least: Priority, search: &mut Search) -> Step {
        let in_order =
            turn.caller() == Caller::Panic && self.options.panic_order == PanicOrder::Sequence;
        let [_, urgent @ ..] = Priority::ALL;
        let alone = urgent.iter().all(|&priority| self.feed.is_unused(priority));
        let priorities = if alone {
            &Priority::ALL[..1]
        } else {
            &Priority::ALL
        };
        for &priority in priorities.iter().rev() {
            if priority < least {
                break;
            }
            let mut lines = LINES;
            if in_order && priority > Priority::Normal {
                // Only the rest of a line that is out in part goes before its turn.
                if !self.feed.lanes[priority as usize].position().line.begun {
                    continue;
                }
                lines = 1;
            }
            let from = From {
                priority,
                lines,
                alone,
            };
            // More bytes than a FIFO of that size are seldom of use.
            let offered = if self.sink.load() <= SMALL_CHUNK {
                self.offer(turn, from, &mut [0; SMALL_CHUNK], search)
            } else {
                self.offer(turn, from, &mut [0; CHUNK], search)
            };
            match offered {
                Step::Empty => {}
                done => return done,
            }
        }
        Step::Empty
    }

    fn offer(&self, turn: &Turn<'_>, from: From, bytes: &mut [u8], search: &mut Search) -> Step {
        let From {
            priority,
            lines,
            alone,
        } = from;
        let lane = &self.feed.lanes[priority as usize];
        let stored = lane.position();
        let mut at = if alone {
            stored
        } else {
            self.feed.start(priority, stored)
        };
        let mut fetched = self.feed.fetch(priority, &mut at, false, search);
        if !matches!(fetched, Fetched::Record(_) | Fetched::Kept(_)) {
            lane.advance(stored, at);
            if at.next != stored.next {
                self.tell_place();
            }
            return match fetched {
                Fetched::Pending => Step::Pending,
                Fetched::Scanned | Fetched::Gap => Step::Scanned,
                _ => Step::Empty,
            };
        }
        // What is skipped is skipped whatever the sink does. Before the rest of a line, nothing is.
        if matches!(fetched, Fetched::Record(_)) {
            lane.advance(stored, at);
        }
        if !alone || self.offering.load(Ordering::Relaxed) != 0 {
            self.close_others(priority, &mut at);
        }
        let before = at;
        let load = self.sink.load().max(1);
        let mut window = LineBuffer::new(bytes).limit(load);
        let least = LEAST.min(load);
        let style = Style {
            charset: self.options.charset,
            prefix: self.options.prefix,
            escapes_raw: false,
        };
        let mut text = None;
        // Constants would be copied to them for every offer.
        let mut sending: [_; LINES] = array::from_fn(|_| None);
        let mut records: [_; LINES] = array::from_fn(|_| None);
        for (place, at_hand) in sending.iter_mut().zip(&mut records).take(lines) {
            let mut settled = at.line;
            let (shape, is_new) = match fetched {
                Fetched::Kept(shape) => {
                    settled.put_head(priority as usize, &mut window);
                    let kept = &lane.kept;
                    if !kept.put_into(&mut window, at.next, settled.body_at(), shape.len) {
                        // An owner that has lost the sink wrote there.
                        return Step::Pending;
                    }
                    (shape, false)
                }
                Fetched::Record(record) => {
                    let gap = lane.gap(at.next);
                    let text = text.get_or_insert(const { Rendered::new() });
                    text.render(&record, gap, style);
                    settled.begin(text.shape, gap);
                    settled.put(text.text(), priority as usize, &mut window);
                    // Of the last record, there is the text.
                    if window.room() >= least && lines > 1 {
                        *at_hand = Some((record, gap));
                    }
                    (text.shape, true)
                }
                _ => break,
            };
            let total = settled.total(shape.len);
            *place = Some(Sending {
                at,
                settled,
                is_new,
                total,
            });
            at = Position {
                next: after(at.next),
                line: LineState::after(shape),
            };
            if window.room() < least || lines == 1 {
                break;
            }
            fetched = self.feed.fetch(priority, &mut at, true, search);
        }
        let bytes = window.into_bytes();
        // If this owner dies before it clears this, it is not known what is out.
        self.offering.store(turn.name(), Ordering::Relaxed);
        // If it was stopped until a panic took the sink, its records are of another time.
        if !turn.lasts() {
            self.offered(turn);
            return Step::Over;
        }
        let mut given = if search.insist {
            self.sink.insist(bytes)
        } else {
            self.sink.offer(bytes, turn.caller())
        };
        given.taken = given.taken.min(bytes.len());
        self.bytes.fetch_add(given.taken, Ordering::Relaxed);
        count(Counter::ConsoleBytes, given.taken as u64);
        let out = taken(lane, &sending, &records, text.as_mut(), style, given.taken);
        lane.advance(before, out.unwrap_or(at));
        self.offered(turn);
        self.tell_place();
        Step::Sent { given }
    }

    /// Ends this owner's offer. A seized owner's offer may still be running.
    fn offered(&self, turn: &Turn<'_>) {
        let _ =
            self.offering
                .compare_exchange(turn.name(), 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Stores the position in the ring's memory.
    fn tell_place(&self) {
        let places = &self.feed.ring.head.sent;
        if let Some(place) = self
            .options
            .progress_slot
            .and_then(|at| places.get(usize::from(at)))
        {
            place.store(self.feed.lanes[0].position().next, Ordering::Relaxed);
        }
    }

    /// Cuts another lane's open line on the wire, which this lane's line then closes. If an
    /// owner crashed during an offer, every line is sent again.
    fn close_others(&self, priority: Priority, at: &mut Position) {
        let me = priority as usize;
        let before = *at;
        let is_unknown = self.offering.load(Ordering::Relaxed) != 0;
        if is_unknown {
            at.line.restart();
            at.line.close_all();
        } else {
            let mut others = (0..self.feed.lanes.len()).filter(|&lane| lane != me);
            let open = others.find_map(|lane| {
                let line = self.feed.lanes[lane].position().line;
                line.is_open().then_some((lane, line))
            });
            let Some((lane, line)) = open else { return };
            at.line.cut();
            at.line.close(&line, lane);
        }
        // First this: an owner that dies in between leaves one marker too many.
        self.feed.lanes[me].advance(before, *at);
        for (lane, other) in self.feed.lanes.iter().enumerate() {
            let before = other.position();
            let mut after = before;
            if is_unknown {
                after.line.restart();
            } else if after.line.is_open() {
                after.line.cut();
            }
            if lane != me {
                other.advance(before, after);
            }
        }
        self.offering.store(0, Ordering::Relaxed);
    }

    /// Waits for room in the ring, and sends meanwhile. For a task that is about to log.
    ///
    /// Does so if this sink's [`OverflowPolicy`] is to wait and three quarters of the ring are
    /// not sent yet. Returns how long it waited. The clock is polled, and `relax` is called
    /// in between: a scheduler's `yield`, so that others have the CPU. The polls are counted,
    /// so that this ends although the clock stops.
    ///
    /// Log, and call [`drain_bounded`](Self::drain_bounded) after that: it returns when to come back.
    pub fn make_room(&self, cpu: u16, clock: &impl Clock, mut relax: impl FnMut()) -> Nanos {
        let OverflowPolicy::Wait(at_most) = self.options.overflow else {
            return Nanos::ZERO;
        };
        let mut timeout = Timeout::new(clock.now(), at_most).largest_step(LONGEST_STEP);
        while !timeout.is_over() && self.is_crowded() {
            let now = clock.now();
            let nap = match self.drain_bounded(cpu, Priority::Normal, clock) {
                Next::At(then) | Next::Backlog(then) => (then - now).max(SHORTEST_NAP),
                Next::Busy(_) => PENDING,
                Next::Empty | Next::Over => break,
            };
            timeout.poll(clock, nap.min(timeout.left()), STILL, &mut relax);
            timeout.update(clock);
        }
        timeout.elapsed()
    }

    fn is_crowded(&self) -> bool {
        self.unread() >= self.feed.ring.slots() as u64 * 3 / 4
    }

    /// Sets the level below which normal records are left out, from the next record on. In any
    /// context.
    pub fn set_level(&self, level: Level) {
        self.feed.level.store(level as usize, Ordering::Relaxed);
    }

    /// Starts at the record with this sequence instead of the oldest one, for example at the
    /// [`position`](Self::position) of an early console's drain. To be called before the first
    /// slice.
    ///
    /// An emergency after that record is sent, even if the early console has sent it before its
    /// turn.
    pub fn start_at(&self, sequence: u64) {
        let start = Position {
            next: sequence as usize,
            line: LineState::default(),
        };
        // Lanes of urgent records start no earlier.
        let lane = &self.feed.lanes[0];
        lane.advance(lane.position(), start);
        self.tell_place();
    }

    /// Returns the sequence of the first record that is not sent completely, except for urgent
    /// ones; 0 before the first slice.
    pub fn position(&self) -> u64 {
        self.feed.lanes[0].position().next as u64
    }

    /// Records that are not sent yet.
    pub fn unread(&self) -> u64 {
        self.feed.unread()
    }

    /// Records that were lost to this sink: overwritten, or not completed in time. Not
    /// more than that; an urgent one that was sent before its turn, or one that was waited
    /// for among urgent ones and is sent with the backlog, may be among them.
    pub fn lost(&self) -> u64 {
        self.feed.lost.load(Ordering::Relaxed) as u64
    }

    /// Returns the number of bytes that the sink has taken.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) as u64
    }

    /// The sink.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// The ring.
    pub fn ring(&self) -> &Ring {
        self.feed.ring
    }
}

/// The records to offer.
#[derive(Clone, Copy)]
struct From {
    priority: Priority,
    /// Number of lines at most.
    lines: usize,
    /// No other lane was ever used.
    alone: bool,
}

/// A record that is being offered.
struct Sending {
    at: Position,
    settled: LineState,
    /// Its text is not kept yet.
    is_new: bool,
    total: usize,
}

/// Returns a lane's state after `taken` bytes; `None` if all were taken. Keeps the text of the
/// record that is out in part. `records` are those with the numbers of records lost before them,
/// if others may follow in the offer; `last` is the text of the last one.
fn taken(
    lane: &Lane,
    sending: &[Option<Sending>],
    records: &[Option<(Record, u64)>],
    last: Option<&mut Rendered>,
    style: Style,
    mut taken: usize,
) -> Option<Position> {
    let mut sending = sending.iter().flatten().zip(records).peekable();
    while let Some((sent, record)) = sending.next() {
        let rest = sent.total - usize::from(sent.settled.offset);
        if taken >= rest {
            taken -= rest;
            continue;
        }
        if taken == 0 {
            return Some(sent.at);
        }
        if let Some(text) = last
            && sent.is_new
        {
            if let Some((record, gap)) = record
                && sending.peek().is_some()
            {
                text.render(record, *gap, style);
            }
            lane.kept.put(sent.at.next, text);
        }
        let mut line = sent.settled;
        line.offset += taken as u16;
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
            .field("lanes", &self.feed.lanes)
            .field("lost", &self.feed.lost)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

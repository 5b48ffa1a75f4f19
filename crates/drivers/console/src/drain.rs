//! Draining of a ring to a sink, in slices that never wait.

use core::array;
use core::fmt;

use nostall_io::{Clock, Counter, Nanos, Timeout, count};

use crate::feed::{Feed, MOST_SKIPPED, Search, Stop};
use crate::lane::{Lane, Position};
use crate::layout::WORD;
use crate::line::LineState;
use crate::next_offer::NextOffer;
use crate::options::PanicOrder;
use crate::owner::{Owner, Turn};
use crate::render::{LINE_WORDS, LineBuffer, Shape, Style, render};
use crate::sequence::after;
use crate::sync::{AtomicUsize, Ordering, STILL, fence};
use crate::{Caller, Level, Offered, OverflowPolicy, Priority, Record, Ring, Sink, SinkOptions};

/// Number of bytes in one offer: more than the FIFO of any port that `nostall-uart` drives.
const CHUNK: usize = 256;

/// Largest number of bytes in an offer that needs no room for further records.
const SMALL_CHUNK: usize = 64;

/// Room for an offer, and for the whole text of a record of which it contains the first byte.
const ROOM: usize = CHUNK + LINE_WORDS * WORD;

/// Number of records in one offer. Short lines must not leave a FIFO half empty.
const LINES: usize = 4;

/// Room in an offer below which no further record is begun. A record costs as much as an offer, and
/// a serial port adds a carriage return to the previous line.
const LEAST: usize = 4;

/// Interval between checks of an incomplete record.
const PENDING: Nanos = Nanos::from_millis(1);

/// Shortest interval between slices while a caller waits for room, for a sink that is ready but
/// takes nothing.
const SHORTEST_NAP: Nanos = Nanos::from_micros(1);

/// Longest step of a clock that counts in full. After a longer step, the clock has jumped or a
/// virtual machine was stopped. That must not cost a panic its text.
pub(crate) const LONGEST_STEP: Nanos = Nanos::from_millis(10);

/// Delay after which another CPU does the work of the responsible CPU, because that CPU may
/// hang.
const LATE: Nanos = Nanos::from_millis(10);

/// Time at which this CPU must return to a sink, and the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "set this CPU's timer to `Next::time`"]
pub enum Next {
    /// More records are left. The sink takes them at this time.
    At(Nanos),
    /// All requested urgent records are sent. The others must be sent in normal context; the sink
    /// takes them at this time.
    Backlog(Nanos),
    /// Another CPU sends, or is responsible for the next offer. It may hang, so this
    /// CPU checks at this time.
    Busy(Nanos),
    /// All records are sent. Return after the next record.
    Empty,
    /// A panic owns the sink permanently.
    Over,
}

impl Next {
    /// Returns the time at which this CPU must call [`Drain::drain_bounded`] again, in normal
    /// context: set its timer to it. `None` if nothing is left.
    ///
    /// A CPU that always does so leaves nothing unsent, even if all other CPUs hang.
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
    pub(crate) next_offer: NextOffer,
    /// Owner word of the current offer, or of the owner that crashed in it; 0 for none.
    pub(crate) offering: AtomicUsize,
    pub(crate) bytes: AtomicUsize,
    /// 1 while text is rendered, which calls the prefix. It stays 1 if that panics.
    pub(crate) renders: AtomicUsize,
    /// Number of calls of a panic's flush that use the sink and have not returned.
    pub(crate) inside: AtomicUsize,
    /// 1 once a panic has left out the older part of the backlog.
    pub(crate) has_left_out: AtomicUsize,
    /// 1 while the sink is ready at once after a whole load, as a virtual machine's port is.
    pub(crate) at_once: AtomicUsize,
    pub(crate) sink: S,
}

impl<S: Sink + ?Sized> Drain<'_, S> {
    /// Sends the bytes that the sink takes now, of records of this priority and above, the most
    /// urgent first.
    ///
    /// Waits neither for the line nor for another CPU. A slice continues while the sink is ready
    /// and takes bytes, up to [`SinkOptions::slice`] and [`SinkOptions::hold`]. Before its ready
    /// time, the sink is not touched, so call this after every record. For any context except NMIs,
    /// with pre-emption off.
    ///
    /// `cpu` is this CPU's unique number: a panic takes a sink from its own CPU at once. The result
    /// tells when this CPU must [return](Next::time).
    ///
    /// An interrupt handler that reports an emergency passes [`Priority::Emergency`], and leaves
    /// the backlog to its CPU's timer. [`Priority::Panic`] counts as an emergency here; a panic
    /// calls [`flush`](crate::flush).
    #[inline]
    pub fn drain_bounded(&self, cpu: u16, priority: Priority, clock: &impl Clock) -> Next {
        if self.is_idle(cpu) {
            return Next::Empty;
        }
        self.slice(cpu, priority, clock)
    }

    /// Returns whether every record is sent and no other CPU relies on this one. Such a call costs
    /// a few loads: no fence, clock read or exchange.
    ///
    /// This CPU sees the records that it logged. A position behind them proves that they were sent.
    /// A record of another CPU is left to this CPU only while this one is responsible or owns the
    /// sink.
    #[inline]
    fn is_idle(&self, cpu: u16) -> bool {
        !self.next_offer.is_claimed_by(cpu)
            && !self.owner.is_panics()
            && !self.feed.has_more(Priority::Normal)
    }

    /// Sends the bytes that the sink takes now, unless its ready time is later.
    fn slice(&self, cpu: u16, priority: Priority, clock: &impl Clock) -> Next {
        let priority = priority.min(Priority::Emergency);
        fence(Ordering::SeqCst);
        let now = clock.now();
        if let Some(ready_at) = self.next_offer.ready_at(now) {
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
        // Records logged meanwhile were left to this CPU, so check again.
        fence(Ordering::SeqCst);
        self.left(cpu, priority, at)
    }

    /// Returns without touching the sink before `ready_at`.
    fn wait_for(&self, cpu: u16, priority: Priority, ready_at: Nanos) -> Next {
        if self.owner.is_panics() {
            Next::Over
        } else if self.next_offer.claim(cpu) {
            self.left(cpu, priority, ready_at)
        } else if self.feed.has_more(Priority::Normal) {
            Next::Busy(ready_at + LATE)
        } else {
            Next::Empty
        }
    }

    /// Returns the time at which this CPU must return for the remaining records. Without any, the
    /// CPU that logs next returns.
    fn left(&self, cpu: u16, priority: Priority, at: Nanos) -> Next {
        let next = self.left_now(priority, at);
        if next != Next::Empty {
            return next;
        }
        self.next_offer.release(cpu);
        // A CPU that logged earlier, and found this CPU responsible, left its record to this CPU.
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

    /// Returns the time at which the rest can be sent; `None` if a panic has the sink.
    fn send(
        &self,
        turn: &Turn<'_>,
        cpu: u16,
        priority: Priority,
        clock: &impl Clock,
        start: Nanos,
    ) -> Option<Nanos> {
        // Without a rate no time passes, so that bytes alone limit the slice.
        let most = if start.is_known() { usize::MAX } else { CHUNK };
        let mut search = Search {
            now: start,
            patience: self.options.pending,
            left: MOST_SKIPPED,
            insist: false,
            all_levels: false,
            bytes: self.options.slice.min(most),
            until: start + self.options.hold,
        };
        loop {
            match self.step(turn, priority, &mut search) {
                Ok(given) => {
                    if !turn.lasts() {
                        return None;
                    }
                    let now = clock.now();
                    let at = self.next_offer.offered(given, cpu, start, now);
                    search.bytes = search.bytes.saturating_sub(given.taken.max(1));
                    let is_ready = given.taken > 0 && at <= now;
                    if !is_ready || given.taken >= self.sink.load() {
                        self.at_once.store(usize::from(is_ready), Ordering::Relaxed);
                    }
                    let is_over = search.bytes == 0 || now >= search.until;
                    if !is_ready || is_over || !self.feed.has_more(priority) {
                        return Some(at.max(now));
                    }
                }
                Err(Stop::Scanned | Stop::Empty) => return Some(start),
                Err(Stop::Pending) => return Some(start + PENDING),
                Err(Stop::Over) => return None,
            }
        }
    }

    /// Makes one offer from the most urgent lane that has a record.
    pub(crate) fn step(
        &self,
        turn: &Turn<'_>,
        least: Priority,
        search: &mut Search,
    ) -> Result<Offered, Stop> {
        let in_order =
            turn.caller() == Caller::Panic && self.options.panic_order == PanicOrder::Sequence;
        let [_, urgent @ ..] = Priority::ALL;
        let alone = urgent.iter().all(|&priority| self.feed.is_unused(priority));
        let priorities = if alone {
            &Priority::ALL[..1]
        } else {
            &Priority::ALL
        };
        let load = self.sink.load().max(1);
        let most = match self.at_once.load(Ordering::Relaxed) {
            0 => load.min(CHUNK),
            _ => load.max(search.bytes).min(CHUNK),
        };
        for &priority in priorities.iter().rev() {
            if priority < least {
                break;
            }
            let mut lines = LINES;
            if in_order && priority > Priority::Normal {
                // Only the rest of a partly sent line is sent out of order.
                if !self.feed.lanes[priority as usize]
                    .position()
                    .line
                    .is_begun()
                {
                    continue;
                }
                lines = 1;
            }
            let from = From {
                priority,
                lines,
                most,
                alone,
            };
            let offered = self.offer(turn, from, search);
            match offered {
                Err(Stop::Empty) => {}
                done => return done,
            }
        }
        Err(Stop::Empty)
    }

    fn offer(&self, turn: &Turn<'_>, from: From, search: &mut Search) -> Result<Offered, Stop> {
        let From {
            priority,
            alone,
            most,
            ..
        } = from;
        let lane = &self.feed.lanes[priority as usize];
        let stored = lane.position();
        let mut at = if alone {
            stored
        } else {
            self.feed.start(priority, stored)
        };
        let kept = match at.line.is_begun() {
            true => lane.kept.shape(at.next),
            false => None,
        };
        let mut record = Record::EMPTY;
        if kept.is_none() {
            let fetched = self
                .feed
                .fetch(priority, &mut at, false, search, &mut record);
            // Skipped records stay skipped, whatever the sink takes.
            lane.advance(stored, at);
            if let Err(stop) = fetched {
                if at.next != stored.next {
                    self.store_progress();
                }
                return Err(stop);
            }
        }
        let first = (kept, &mut record);
        if !alone || self.offering.load(Ordering::Relaxed) != 0 {
            self.close_others(priority, &mut at);
        }
        let fills = kept.is_some_and(|shape| shape.len >= at.line.body_at() + most);
        if fills && most <= SMALL_CHUNK {
            self.offer_from(turn, &from, at, first, &mut [0; SMALL_CHUNK], search)
        } else {
            self.offer_from(turn, &from, at, first, &mut [0; ROOM], search)
        }
    }

    /// Makes an offer from this position on, which begins with the kept text of this shape or with
    /// this record. `room` is large enough for the offer, and for a whole
    /// record behind it if the first text does not fill the offer.
    fn offer_from(
        &self,
        turn: &Turn<'_>,
        from: &From,
        before: Position,
        (mut kept, record): (Option<Shape>, &mut Record),
        room: &mut [u8],
        search: &mut Search,
    ) -> Result<Offered, Stop> {
        let From {
            priority,
            lines,
            most,
            ..
        } = *from;
        let lane = &self.feed.lanes[priority as usize];
        let mut at = before;
        let least = LEAST.min(most);
        let mut window = LineBuffer::new(room);
        // A prefix in which a panic came, maybe its own, is left out from then on.
        let is_left_out =
            turn.caller() == Caller::Panic && self.renders.load(Ordering::Relaxed) != 0;
        let style = Style {
            charset: self.options.charset,
            prefix: self.options.prefix.filter(|_| !is_left_out),
            escapes_raw: false,
        };
        self.renders.store(1, Ordering::Relaxed);
        // The last record's text, if the offer does not contain all of it.
        let mut part = None;
        let mut unsent = 0;
        // A constant would be copied for every offer.
        let mut sending: [_; LINES] = array::from_fn(|_| None);
        for place in sending.iter_mut().take(lines) {
            let mut settled = at.line;
            let start = window.len();
            let (shape, is_new) = match kept.take() {
                Some(shape) => {
                    settled.put_head(priority as usize, &mut window);
                    let body = settled.body_at();
                    let end = shape.len.min(body + most.saturating_sub(window.len()));
                    if !lane.kept.put_into(&mut window, at.next, body, end) {
                        // An owner that has lost the sink wrote there.
                        return Err(Stop::Pending);
                    }
                    (shape, false)
                }
                None => {
                    let gap = lane.gap(at.next);
                    if settled == LineState::default() {
                        let shape = render(record, gap, style, &mut window);
                        settled.begin(shape, gap);
                        (shape, true)
                    } else {
                        let mut line = window.split_off_line();
                        let shape = render(record, gap, style, &mut line);
                        settled.begin(shape, gap);
                        let text = line.into_bytes();
                        settled.put(text, priority as usize, &mut window);
                        part = Some(text);
                        (shape, true)
                    }
                }
            };
            let total = settled.total(shape.len);
            unsent += total - settled.offset();
            *place = Some(Sending {
                at,
                settled,
                start,
                shape,
                is_new,
                total,
            });
            at = Position {
                next: after(at.next),
                line: LineState::after(shape),
            };
            if lines == 1 || part.is_some() || window.len() + least > most {
                break;
            }
            let fetched = self.feed.fetch(priority, &mut at, true, search, record);
            if fetched.is_err() {
                break;
            }
        }
        self.renders
            .store(usize::from(is_left_out), Ordering::Relaxed);
        let texts = window.into_bytes();
        let bytes = &texts[..texts.len().min(most)];
        // If this owner crashes before it clears this, the number of sent bytes is unknown.
        self.offering.store(turn.name(), Ordering::Relaxed);
        // If this owner was stopped until a panic took the sink, its records are outdated.
        if !turn.lasts() {
            self.offered(turn);
            return Err(Stop::Over);
        }
        let mut given = if search.insist {
            self.sink.insist(bytes)
        } else {
            self.sink.offer_until(bytes, turn.caller(), search.until)
        };
        given.taken = given.taken.min(bytes.len());
        self.bytes.fetch_add(given.taken, Ordering::Relaxed);
        count(Counter::ConsoleBytes, given.taken as u64);
        let out = match given.taken < unsent {
            true => taken(lane, &sending, texts, part, given.taken),
            false => None,
        };
        lane.advance(before, out.unwrap_or(at));
        self.offered(turn);
        self.store_progress();
        Ok(given)
    }

    /// Ends this owner's offer. The offer of an owner that lost the sink may still be running.
    fn offered(&self, turn: &Turn<'_>) {
        let _ =
            self.offering
                .compare_exchange(turn.name(), 0, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Stores the position in the ring's memory.
    fn store_progress(&self) {
        let places = &self.feed.ring.head.sent;
        if let Some(place) = self
            .options
            .progress_slot
            .and_then(|at| places.get(usize::from(at)))
        {
            place.store(self.feed.lanes[0].position().next, Ordering::Relaxed);
        }
    }

    /// Cuts another lane's open line on the wire; this lane's line then closes it. If an owner
    /// crashed during an offer, every line is sent again.
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
        // This comes first: an owner that crashes in between leaves one marker too many.
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
    /// Waits if this sink's [`OverflowPolicy`] is [`Wait`](OverflowPolicy::Wait) and three quarters
    /// of the ring are unsent. Returns the time that it waited. It polls the clock and calls
    /// `relax` in between, for example a scheduler's `yield`. It counts the polls, so that it ends
    /// even if the clock stops.
    ///
    /// Log afterwards, then call [`drain_bounded`](Self::drain_bounded) and set the timer to its
    /// result.
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

    /// Returns whether three quarters of the ring are unsent.
    pub(crate) fn is_crowded(&self) -> bool {
        self.unread() >= self.room() as u64
    }

    /// Returns the number of records in three quarters of the ring. The last quarter is reserved.
    pub(crate) fn room(&self) -> usize {
        self.feed.ring.slots() * 3 / 4
    }

    /// Sets the least important level of normal records, from the next record on. A program's
    /// output is sent at each level. For any context.
    pub fn set_level(&self, level: Level) {
        self.feed.level.store(level as usize, Ordering::Relaxed);
    }

    /// Starts at the record with this sequence instead of the oldest one, for example at the
    /// [`position`](Self::position) of an early console's drain. Call this before the first slice.
    ///
    /// Emergencies after that record are sent, even if the early console has already sent them.
    pub fn start_at(&self, sequence: u64) {
        let start = Position {
            next: sequence as usize,
            line: LineState::default(),
        };
        // Urgent lanes start no earlier than this one.
        let lane = &self.feed.lanes[0];
        lane.advance(lane.position(), start);
        self.store_progress();
    }

    /// Returns the sequence of the first record that is not completely sent, apart from urgent
    /// ones; 0 before the first slice.
    pub fn position(&self) -> u64 {
        self.feed.lanes[0].position().next as u64
    }

    /// Returns the number of records not sent yet, including lost ones.
    pub fn unread(&self) -> u64 {
        self.feed.unread()
    }

    /// Returns the number of records lost to this sink: overwritten, or not completed in time. It
    /// may be too high, never too low. It may include an urgent record that was sent early, or an
    /// urgent one that was completed late and sent with the backlog.
    pub fn lost(&self) -> u64 {
        self.feed.lost.load(Ordering::Relaxed) as u64
    }

    /// Returns the number of bytes that the sink has taken.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) as u64
    }

    /// Returns the sink.
    pub fn sink(&self) -> &S {
        &self.sink
    }

    /// Returns the ring.
    pub fn ring(&self) -> &Ring {
        self.feed.ring
    }
}

/// Source of the records of one offer.
#[derive(Clone, Copy)]
struct From {
    priority: Priority,
    /// Largest number of lines.
    lines: usize,
    /// Largest number of bytes.
    most: usize,
    /// No other lane was ever used.
    alone: bool,
}

/// A record in an offer.
struct Sending {
    at: Position,
    settled: LineState,
    /// Place of its text in the offer.
    start: usize,
    shape: Shape,
    /// Its text is not kept yet.
    is_new: bool,
    total: usize,
}

/// Returns a lane's state after `taken` bytes; `None` if all were taken. Keeps the text of the
/// partly sent record: `part` if there is one and the record is the last, else that in `texts`.
fn taken(
    lane: &Lane,
    sending: &[Option<Sending>],
    texts: &[u8],
    part: Option<&[u8]>,
    mut taken: usize,
) -> Option<Position> {
    let mut sending = sending.iter().flatten().peekable();
    while let Some(sent) = sending.next() {
        let rest = sent.total - sent.settled.offset();
        if taken >= rest {
            taken -= rest;
            continue;
        }
        if taken == 0 {
            return Some(sent.at);
        }
        if sent.is_new {
            let text = match part {
                Some(part) if sending.peek().is_none() => part,
                _ => &texts[sent.start..][..sent.shape.len],
            };
            lane.kept.put(sent.at.next, text, sent.shape);
        }
        let mut line = sent.settled;
        line.set_offset(line.offset() + taken);
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

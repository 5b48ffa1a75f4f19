//! A trace recorder that may be interrupted by handlers which record too, and
//! keeps what they record.
//!
//! Handlers come in last and leave first. So before a handler records, it finishes
//! whatever record it interrupted on that record's behalf (each frame announces
//! its record and its place before it stores them). The interrupted frame detects
//! that, or stores the same bytes at the same place once more. No frame waits,
//! and no read-modify-write is needed: every word has one writer at a time.
//!
//! But the header's, which all have to write: a frame that was interrupted at the very
//! store of its header puts an older one there, sees it, and puts the newest there
//! with its next stores. A cut between the two loses what the handler recorded; and in
//! a full ring that lies where the oldest records were, of which a reader doubts one.
//!
//! Places are counted on and on, so a machine word of 64 bits is needed: with 32 the
//! laps of a ring would come round.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, compiler_fence};

use crate::format::{ByteOrder, HEADER};
use crate::memory::Memory;
use crate::recorder::Recorder;
use crate::stamp::Stamp;
use crate::trace::{LONGEST_TRACE, RecordFormat, TraceRecord};
use crate::zone::Zone;

/// Frames that can be in a record at once: a task, a soft interrupt, an interrupt,
/// an NMI, as in Linux.
const LEVELS: usize = 4;

/// Not a position: beyond every zone's data.
const NOWHERE: usize = usize::MAX;

/// A recorder for one CPU and all its handlers, or for one thread and its signal
/// handlers; the type is not `Sync`. For zones without error correction.
///
/// A record that interrupts another is kept, after it, and is in the zone when its
/// own call returns; a crash in a handler loses nothing but what was in the middle
/// of being stored. (A cut just after the handler's return can lose what it recorded,
/// and spoil as many of a full ring's oldest: the frame that was interrupted may put
/// an older header there for the time of two stores.) With more than four frames deep the record is dropped, and
/// counted. A handler must not record a whole zone full while it interrupts a
/// record.
///
/// ```
/// use nostall_pstore::{ZoneKind, LinuxVersion, Nesting, OwnCounter, Ram, Recorder, Zone};
///
/// let mut memory = [0; 4096];
/// let (zone, _) = Zone::attach(Ram::of(&mut memory), ZoneKind::Ftrace, LinuxVersion(0), None)?;
/// let recorder = Nesting::new(Recorder::new(zone, 0, OwnCounter::new())).unwrap();
/// recorder.record(0xffff_ffff_8100_1000, 0xffff_ffff_8100_2000);
/// # Ok::<(), nostall_pstore::NoRoom>(())
/// ```
#[derive(Debug)]
pub struct Nesting<'c, M, S> {
    zone: Zone<'c, M>,
    stamp: S,
    record_format: RecordFormat,
    cpu: u8,
    /// Bits of a place that are the offset in the ring; those above count its laps.
    offset_bits: u32,
    /// Set once the ring has wrapped.
    full: AtomicBool,
    /// Frames that are in `record`.
    depth: AtomicUsize,
    missed: AtomicUsize,
    levels: [Level; LEVELS],
    not_sync: PhantomData<UnsafeCell<()>>,
}

/// State of the frame at one depth.
#[derive(Debug)]
struct Level {
    /// Record of the frame.
    record: [AtomicU32; LONGEST_TRACE / 4],
    /// Position of the record. It is valid only if it is the latest position, so that no record
    /// is there yet.
    claim: AtomicUsize,
    /// The claim that a handler has seen to.
    helped: AtomicUsize,
    /// Behind the last record that was stored at this depth. The latest of all
    /// levels' is where the next record goes.
    end: AtomicUsize,
}

impl<'c, M: Memory, S: Stamp> Nesting<'c, M, S> {
    /// Around `recorder`.
    ///
    /// # Errors
    ///
    /// [`HasParity`]: take [`Dropping`](crate::Dropping) or
    /// [`Masking`](crate::Masking) then.
    pub fn new(recorder: Recorder<'c, M, S>) -> Result<Self, HasParity> {
        if recorder.zone().has_parity() {
            return Err(HasParity);
        }
        let (zone, cpu, stamp, record_format) = recorder.into_parts();
        let data = zone.division().data();
        let start = zone.start();
        Ok(Self {
            stamp,
            record_format,
            cpu,
            offset_bits: usize::BITS - data.leading_zeros(),
            full: AtomicBool::new(zone.len() == data),
            depth: AtomicUsize::new(0),
            missed: AtomicUsize::new(0),
            levels: [const { Level::new() }; LEVELS].map(|level| {
                level.end.store(start, Ordering::Relaxed);
                level
            }),
            not_sync: PhantomData,
            zone,
        })
    }

    /// Records that the function at `ip` was entered from `parent`.
    pub fn record(&self, ip: u64, parent: u64) {
        step();
        let depth = get(&self.depth);
        let Some(mine) = self.levels.get(depth) else {
            set(&self.missed, get(&self.missed).wrapping_add(1));
            return;
        };
        // A handler between these two has put the depth back when it returns.
        set(&self.depth, depth + 1);
        for below in &self.levels[..depth] {
            self.help(below, mine);
        }
        if depth > 0 {
            // So that never more than one record is stored and not in the header: a
            // reader doubts no more than one.
            self.publish();
        }

        let stamp = self.stamp.next();
        let record = TraceRecord {
            ip,
            parent,
            stamp,
            cpu: self.cpu,
        };
        let bytes = self.record_format.encode(&record, ByteOrder::NATIVE);
        mine.announce(&bytes);
        set(&mine.helped, NOWHERE);
        loop {
            let place = self.latest();
            set(&mine.claim, place);
            if self.latest() == place {
                self.store(place, &bytes);
                set(&mine.end, self.after(place));
                break;
            }
            // A handler was here: after the claim, then it has seen to it; or
            // before, and there is something else at that place.
            if get(&mine.helped) == place {
                break;
            }
        }
        set(&mine.claim, NOWHERE);
        self.publish();
        set(&self.depth, depth);
    }

    /// Records that were dropped, because they were nested too deep.
    pub fn missed(&self) -> usize {
        get(&self.missed)
    }

    /// The memory that is recorded in.
    pub const fn memory(&self) -> &M {
        self.zone.memory()
    }

    /// Stores the record that `below` announced, if it has claimed the latest place
    /// for it. Done twice, it does the same again.
    fn help(&self, below: &Level, mine: &Level) {
        let place = get(&below.claim);
        if place == self.latest() {
            self.store(place, &below.announced());
            set(&mine.end, self.after(place));
            set(&below.helped, place);
        }
    }

    /// Returns the position of the next record.
    fn latest(&self) -> usize {
        let ends = self.levels.iter().map(|level| get(&level.end));
        // Laps overflow: what is later is told by the difference.
        ends.reduce(|a, b| {
            if a.wrapping_sub(b).cast_signed() > 0 {
                a
            } else {
                b
            }
        })
        .unwrap_or(0)
    }

    fn split(&self, place: usize) -> (usize, usize) {
        (
            place >> self.offset_bits,
            place & ((1 << self.offset_bits) - 1),
        )
    }

    /// The place behind a record at `place`.
    fn after(&self, place: usize) -> usize {
        let (lap, offset) = self.split(place);
        let data = self.zone.division().data();
        let end = offset + self.record_format.len();
        let (laps, offset) = (end / data, end % data);
        lap.wrapping_add(laps) << self.offset_bits | offset
    }

    fn store(&self, place: usize, bytes: &[u8; LONGEST_TRACE]) {
        let (_, mut at) = self.split(place);
        let data = self.zone.division().data();
        let mut left = &bytes[..self.record_format.len()];
        while !left.is_empty() {
            let (now, later) = left.split_at(left.len().min(data - at));
            self.memory().store(HEADER + at, now);
            self.memory().persist(HEADER + at, now.len());
            (at, left) = (0, later);
        }
    }

    /// The header, until it is that of the latest record.
    fn publish(&self) {
        loop {
            let place = self.latest();
            let (lap, offset) = self.split(place);
            // Of its first lap alone, for laps overflow.
            if lap != 0 {
                self.full.store(true, Ordering::Relaxed);
            }
            let full = self.full.load(Ordering::Relaxed);
            let size = if full {
                self.zone.division().data()
            } else {
                offset
            };
            self.zone.store_header(offset, size);
            step();
            if self.latest() == place {
                return;
            }
        }
    }
}

impl Level {
    const fn new() -> Self {
        Self {
            record: [const { AtomicU32::new(0) }; LONGEST_TRACE / 4],
            claim: AtomicUsize::new(NOWHERE),
            helped: AtomicUsize::new(NOWHERE),
            end: AtomicUsize::new(0),
        }
    }

    fn announce(&self, bytes: &[u8; LONGEST_TRACE]) {
        let (words, _) = bytes.as_chunks::<4>();
        for (to, from) in self.record.iter().zip(words) {
            to.store(u32::from_ne_bytes(*from), Ordering::Relaxed);
        }
        compiler_fence(Ordering::SeqCst);
    }

    fn announced(&self) -> [u8; LONGEST_TRACE] {
        let mut bytes = [0; LONGEST_TRACE];
        let (words, _) = bytes.as_chunks_mut::<4>();
        for (to, from) in words.iter_mut().zip(&self.record) {
            *to = from.load(Ordering::Relaxed).to_ne_bytes();
        }
        bytes
    }
}

/// The zone has error correction: two frames cannot both update a block's parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HasParity;

impl fmt::Display for HasParity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("records cannot be nested in a zone with error correction")
    }
}

impl core::error::Error for HasParity {}

/// Reads a word that handlers of this CPU write. The order of these accesses is all
/// that counts, and only to the same CPU.
#[inline]
fn get(word: &AtomicUsize) -> usize {
    step();
    compiler_fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed)
}

/// Writes such a word.
#[inline]
fn set(word: &AtomicUsize, value: usize) {
    compiler_fence(Ordering::SeqCst);
    word.store(value, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    step();
}

/// A point at which the tests let a handler interrupt.
#[cfg(not(test))]
#[inline]
const fn step() {}

#[cfg(test)]
use tests::step;

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::format::{LinuxVersion, ZoneHeader, ZoneKind};
    use crate::memory::{Load, Ram};
    use crate::stamp::OwnCounter;
    use std::boxed::Box;
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use std::vec::Vec;

    type Handler = Box<dyn FnMut()>;

    std::thread_local! {
        static HANDLER: RefCell<Option<Handler>> = const { RefCell::new(None) };
        static IN_HANDLER: Cell<bool> = const { Cell::new(false) };
    }

    /// A point at which an interrupt can occur.
    pub fn step() {
        let handler = HANDLER.with_borrow_mut(Option::take);
        if let Some(mut handler) = handler {
            handler();
            HANDLER.with_borrow_mut(|slot| {
                slot.get_or_insert(handler);
            });
        }
    }

    /// Memory in which an interrupt may come before and after every store.
    struct Interrupted<'a>(Ram<'a>);

    impl Load for Interrupted<'_> {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn load(&self, at: usize, into: &mut [u8]) {
            self.0.load(at, into);
        }
    }

    impl Memory for Interrupted<'_> {
        fn store(&self, at: usize, bytes: &[u8]) {
            for (i, word) in bytes.chunks(4).enumerate() {
                step();
                self.0.store(at + 4 * i, word);
                // A cut here, in a handler: all is whole but what may be doubted. And
                // anywhere there is a header to read by.
                match IN_HANDLER.get() {
                    true => drop(seen(self)),
                    false => drop(contents(self)),
                }
            }
            step();
        }
    }

    /// Runs what a handler does.
    fn handle<T>(handler: impl FnOnce() -> T) -> T {
        let before = IN_HANDLER.replace(true);
        let result = handler();
        IN_HANDLER.set(before);
        result
    }

    const DATA: usize = 24 * 9 + 10;

    /// Miri is too slow for every step.
    const STEPS: usize = if cfg!(miri) { 29 } else { 1 };
    /// Let alone for every two.
    const PAIRS: usize = if cfg!(miri) { 61 } else { 1 };

    type Tested = Nesting<'static, Interrupted<'static>, OwnCounter>;

    fn recorder(before: u64) -> Rc<Tested> {
        let memory: &'static mut [u8] = std::vec![0; HEADER + DATA].leak();
        let memory = Interrupted(Ram::of(memory));
        let (zone, _) = Zone::attach(memory, ZoneKind::Ftrace, LinuxVersion(0), None).unwrap();
        let recorder =
            Recorder::with_record_format(zone, 0, OwnCounter::new(), RecordFormat::Bits64);
        let recorder = Nesting::new(recorder).unwrap();
        (0..before).for_each(|ip| recorder.record(ip, !ip));
        Rc::new(recorder)
    }

    /// Returns the ring's contents as a reader finds them, in order.
    fn contents(memory: &impl Load) -> Vec<u8> {
        let mut image = std::vec![0; HEADER + DATA];
        memory.load(0, &mut image);
        let (header, data) = image.split_first_chunk().unwrap();
        let header = ZoneHeader::decode(*header, ByteOrder::NATIVE);
        let (start, mut size) = (header.start as usize, header.size as usize);
        if size < start {
            // Put back by the frame that was interrupted: it can be told.
            size = start;
        }
        assert!(size <= DATA && start <= DATA, "{header:?}");
        let mut ring = data.to_vec();
        if size == DATA {
            ring.rotate_left(start % DATA);
        }
        ring.truncate(size);
        ring
    }

    /// The addresses of the records that a reader sees, newest first; every one
    /// whole but the oldest, if the next record takes its place.
    fn seen(memory: &impl Load) -> Vec<u64> {
        let ring = contents(memory);
        let records = ring.rchunks_exact(24);
        let records: Vec<_> = records
            .map(|bytes| {
                RecordFormat::Bits64
                    .decode(bytes, ByteOrder::NATIVE)
                    .unwrap()
            })
            .collect();
        let whole = |record: &TraceRecord| record.parent == !record.ip;
        let doubted = usize::from(ring.len() + 24 > DATA);
        let sure = records.len().saturating_sub(doubted);
        assert!(records[..sure].iter().all(whole), "{records:?}");
        records.iter().map(|record| record.ip).collect()
    }

    /// Makes the `when`th step that follows run `handler`; tells whether it came to
    /// that.
    fn interrupt_at(when: usize, handler: impl FnOnce() + 'static) -> Rc<Cell<bool>> {
        let came = Rc::new(Cell::new(false));
        let (told, mut left, mut handler) = (came.clone(), when, Some(handler));
        let run = move || {
            if left == 0
                && let Some(handler) = handler.take()
            {
                told.set(true);
                handler();
            }
            left = left.wrapping_sub(1);
        };
        HANDLER.set(Some(Box::new(run)));
        came
    }

    /// Records 1,000 with whatever `interrupt` sets up; checks that all `nested`
    /// are there once, and nothing is lost or left half.
    fn check(recorder: &Tested, before: u64, nested: &[u64]) {
        HANDLER.set(None);
        let seen = seen(recorder.memory());
        let (new, old) = seen.split_at(nested.len() + 1);
        let mut sorted = new.to_vec();
        sorted.sort_unstable();
        let mut expected = nested.to_vec();
        expected.push(1_000);
        expected.sort_unstable();
        assert_eq!(sorted, expected, "{seen:?}");
        assert!(
            old.iter().rev().is_sorted() && old.first().is_none_or(|&ip| ip + 1 == before),
            "{before} {seen:?}"
        );
        assert_eq!(recorder.missed(), 0);
        // And it goes on as if nothing had been.
        recorder.record(2_000, !2_000);
        assert_eq!(self::seen(recorder.memory())[..2], [2_000, new[0]]);
    }

    #[test]
    fn a_handler_may_record_at_every_step_and_nothing_is_lost() {
        for before in (0..12).step_by(if cfg!(miri) { 11 } else { 1 }) {
            for when in (0..).step_by(STEPS) {
                let recorder = recorder(before);
                let handler = recorder.clone();
                let came = interrupt_at(when, move || {
                    handle(|| (1_001..1_004).for_each(|ip| handler.record(ip, !ip)));
                    // A crash here and now loses nothing that a handler recorded.
                    assert!(seen(handler.memory()).starts_with(&[1_003, 1_002, 1_001]));
                });
                recorder.record(1_000, !1_000);
                if !came.get() {
                    break;
                }
                check(&recorder, before, &[1_001, 1_002, 1_003]);
            }
        }
    }

    #[test]
    fn a_handler_of_a_handler_may_too() {
        for before in [1, 8] {
            for when in (0..).step_by(PAIRS) {
                let mut outer_came = true;
                for later in (0..).step_by(PAIRS) {
                    let recorder = recorder(before);
                    let (handler, handlers_handler) = (recorder.clone(), recorder.clone());
                    let inner_came = Rc::new(Cell::new(false));
                    let told = inner_came.clone();
                    let came = interrupt_at(when, move || {
                        let came = interrupt_at(later, move || {
                            handle(|| handlers_handler.record(1_002, !1_002));
                        });
                        handle(|| handler.record(1_001, !1_001));
                        HANDLER.set(None);
                        told.set(came.get());
                    });
                    recorder.record(1_000, !1_000);
                    outer_came = came.get();
                    if !inner_came.get() {
                        break;
                    }
                    check(&recorder, before, &[1_001, 1_002]);
                }
                if !outer_came {
                    break;
                }
            }
        }
    }

    #[test]
    fn too_deep_is_dropped_and_counted() {
        let recorder = recorder(0);
        fn dive(recorder: Rc<Tested>, depth: u64) {
            if depth < 6 {
                let deeper = recorder.clone();
                // Its second step, which is in a record already.
                interrupt_at(2, move || dive(deeper, depth + 1));
            }
            recorder.record(depth, !depth);
        }
        dive(recorder.clone(), 0);
        HANDLER.set(None);
        let mut seen = seen(recorder.memory());
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2, 3]);
        assert!(recorder.missed() > 0);
    }

    #[test]
    fn a_zone_with_error_correction_is_refused() {
        let code = crate::Code::new(16).unwrap();
        let mut memory = [0; 1_000];
        let memory = Ram::of(&mut memory);
        let (zone, _) =
            Zone::attach(memory, ZoneKind::Ftrace, LinuxVersion(0), Some(&code)).unwrap();
        let recorder = Recorder::new(zone, 0, OwnCounter::new());
        assert_eq!(Nesting::new(recorder).unwrap_err(), HasParity);
    }
}

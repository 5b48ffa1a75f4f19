//! Trace recorder that recording handlers may interrupt, and that keeps their records.
//!
//! Handlers are nested: the last to start is the first to return. So before a handler records, it
//! finishes the record that it interrupted. For that, each frame announces its record and position
//! before it stores them. The interrupted frame detects this, or stores the same bytes at the same
//! position again. No frame waits, and no read-modify-write is needed: every word has one writer at
//! a time.
//!
//! The header is the exception, because every frame writes it. A frame interrupted exactly at its
//! header store puts an older header there, detects that, and stores the newest one next. A cut
//! between the two stores loses the handler's records. In a full ring they are at the position of
//! the oldest records, of which a reader marks one as suspect.
//!
//! Positions are counted without end, so a machine word of 64 bits is needed. With 32 bits, the
//! ring's laps would wrap.

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

/// Number of frames that can record at once: a task, a soft interrupt, an interrupt, an NMI, as in
/// Linux.
const LEVELS: usize = 4;

/// Value that is no position: it is beyond every zone's data.
const NOWHERE: usize = usize::MAX;

/// Recorder for one CPU and all its handlers, or for one thread and its signal handlers; the type
/// is not `Sync`. For zones without error correction.
///
/// A record that interrupts another one is kept, after it, and is in the zone when its call
/// returns. A crash in a handler loses only the record being stored. A cut just after the handler's
/// return can lose the handler's records and damage as many of a full ring's oldest records. The
/// reason is that the interrupted frame may store an older header for the time of two stores.
///
/// Beyond four nested frames, a record is dropped and counted. A handler must not fill a whole zone
/// while it interrupts a record.
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
    /// Number of low bits of a position that are the offset in the ring. The bits above count its
    /// laps.
    offset_bits: u32,
    /// Set once the ring has wrapped.
    full: AtomicBool,
    /// Number of frames in `record`.
    depth: AtomicUsize,
    missed: AtomicUsize,
    levels: [Level; LEVELS],
    not_sync: PhantomData<UnsafeCell<()>>,
}

/// State of the frame at one depth.
#[derive(Debug)]
struct Level {
    /// Announced record of the frame.
    record: [AtomicU32; LONGEST_TRACE / 4],
    /// Position of the record. It is valid only while it is the latest position, where no record is
    /// yet.
    claim: AtomicUsize,
    /// Claim that a handler has completed.
    helped: AtomicUsize,
    /// Position after the last record stored at this depth. The latest of all levels is the
    /// position of the next record.
    end: AtomicUsize,
}

impl<'c, M: Memory, S: Stamp> Nesting<'c, M, S> {
    /// Creates the recorder from `recorder`.
    ///
    /// # Errors
    ///
    /// [`HasParity`] if the zone has error correction. Then use [`Dropping`](crate::Dropping) or
    /// [`Masking`](crate::Masking).
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
        // A handler between these two has restored the depth when it returns.
        set(&self.depth, depth + 1);
        for below in &self.levels[..depth] {
            self.help(below, mine);
        }
        if depth > 0 {
            // So at most one stored record is missing from the header, and a reader marks at most
            // one as suspect.
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
            // A handler was here. After the claim, it has completed the claim; before it, its own
            // record is at that position.
            if get(&mine.helped) == place {
                break;
            }
        }
        set(&mine.claim, NOWHERE);
        self.publish();
        set(&self.depth, depth);
    }

    /// Returns the number of records dropped because they were nested too deeply.
    pub fn missed(&self) -> usize {
        get(&self.missed)
    }

    /// Returns the memory of the zone.
    pub const fn memory(&self) -> &M {
        self.zone.memory()
    }

    /// Stores the record that `below` announced, if it has claimed the latest position. A
    /// repetition has the same result.
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
        // Laps overflow, so the difference shows which position is later.
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

    /// Returns the position after a record at `place`.
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

    /// Stores the header until it is that of the latest record.
    fn publish(&self) {
        loop {
            let place = self.latest();
            let (lap, offset) = self.split(place);
            // Set after the first lap, because laps overflow.
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

/// Error: the zone has error correction, and two frames cannot both update a block's parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HasParity;

impl fmt::Display for HasParity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("records cannot be nested in a zone with error correction")
    }
}

impl core::error::Error for HasParity {}

/// Reads a word that handlers of this CPU write.
#[inline]
fn get(word: &AtomicUsize) -> usize {
    step();
    compiler_fence(Ordering::SeqCst);
    word.load(Ordering::Relaxed)
}

/// Writes a word that handlers of this CPU read.
#[inline]
fn set(word: &AtomicUsize, value: usize) {
    compiler_fence(Ordering::SeqCst);
    word.store(value, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    step();
}

/// Point at which the tests let a handler interrupt.
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

    /// Point at which an interrupt can occur.
    pub fn step() {
        let handler = HANDLER.with_borrow_mut(Option::take);
        if let Some(mut handler) = handler {
            handler();
            HANDLER.with_borrow_mut(|slot| {
                slot.get_or_insert(handler);
            });
        }
    }

    /// Memory in which an interrupt may occur before and after every store.
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
                // After a cut here in a handler, all records are whole except suspect ones. At any
                // other point, at least the header is readable.
                match IN_HANDLER.get() {
                    true => drop(seen(self)),
                    false => drop(contents(self)),
                }
            }
            step();
        }
    }

    /// Runs `handler` as a handler.
    fn handle<T>(handler: impl FnOnce() -> T) -> T {
        let before = IN_HANDLER.replace(true);
        let result = handler();
        IN_HANDLER.set(before);
        result
    }

    const DATA: usize = 24 * 9 + 10;

    /// Step width, because Miri is too slow for every step.
    const STEPS: usize = if cfg!(miri) { 29 } else { 1 };
    /// Step width for pairs of steps.
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
            // The interrupted frame has restored an older start, which is detectable.
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

    /// Returns the addresses of the records that a reader sees, newest first. Checks that each is
    /// whole, except the oldest if the next record overwrites it.
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

    /// Runs `handler` at the `when`th following step. Returns whether that step was reached.
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

    /// Checks that record 1,000 and all of `nested` are present once, and that no record is lost or
    /// incomplete.
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
        // Recording continues normally.
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
                    // A crash at this point loses no record of a handler.
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
    fn a_record_nested_too_deeply_is_dropped_and_counted() {
        let recorder = recorder(0);
        fn dive(recorder: Rc<Tested>, depth: u64) {
            if depth < 6 {
                let deeper = recorder.clone();
                // The second step, which is inside of a record.
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

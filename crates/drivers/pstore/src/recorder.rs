//! Recorder of one CPU: no lock, no atomic read-modify-write, no shared counter.
//!
//! # Order of each atomic
//!
//! Each recorder belongs to one CPU and its handlers, or to one thread and its signal handlers: the
//! types are not `Sync`. A CPU sees its own accesses in program order, so compiler fences suffice.
//! The tests run a handler at every step. CPUs that share a zone take the caller's lock (`locked.rs`,
//! with models in `tests/it/locked.rs`).
//!
//! | atomic | stores and loads | why | test |
//! | --- | --- | --- | --- |
//! | `busy` | load and stores Relaxed, compiler fences | The fences keep the record between the two stores, so a handler inside of it finds `busy`. | `a_record_that_interrupts_another_is_dropped_and_counted` |
//! | `missed` (here and in `nesting.rs`) | load and store Relaxed | Counter only. | the same; `a_record_nested_too_deeply_is_dropped_and_counted` |
//! | `depth`, `claim`, `helped`, `end` (`nesting.rs`) | Relaxed, between compiler fences | A handler reads the interrupted frame's words in the order in which that frame stores them. Each word has one writer at a time. | `a_handler_may_record_at_every_step_and_nothing_is_lost` |
//! | `record` (`nesting.rs`) | Relaxed, then a compiler fence | The later store of `claim` announces the words. | the same |
//! | `full` (`nesting.rs`) | load and store Relaxed | Only ever set. A frame that sees a later lap sets it itself. | the same |
//! | `SharedCounter` (`stamp.rs`) | load and store Relaxed | Counter only. Other CPUs may take the same number. | - |

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use nostall_io::Processor;

use crate::format::ByteOrder;
use crate::memory::Memory;
use crate::stamp::Stamp;
use crate::trace::{RecordFormat, TraceRecord};
use crate::zone::Zone;

/// Records one CPU's function entries in a zone of its own.
///
/// It is exclusive (`&mut`), for code that no recording handler interrupts. Otherwise use one of
/// these (`examples/handlers.rs` runs them):
///
/// | | record of a handler | cost |
/// | --- | --- | --- |
/// | `Recorder` | not possible | nothing |
/// | [`Dropping`] | dropped and counted, if it interrupted one | a flag, set and reset |
/// | [`Masking`] | waits; an NMI's is dropped and counted | masking interrupts, and the flag |
/// | [`Nesting`](crate::Nesting) | kept, after the interrupted one; no error correction | a dozen plain loads and stores |
#[derive(Debug)]
// In an array, the recorders of two CPUs share no cache line.
#[repr(align(64))]
pub struct Recorder<'c, M, S> {
    zone: Zone<'c, M>,
    stamp: S,
    record_format: RecordFormat,
    cpu: u8,
}

impl<'c, M: Memory, S: Stamp> Recorder<'c, M, S> {
    /// Creates a recorder for CPU `cpu` in `zone`, in this machine's own format.
    pub const fn new(zone: Zone<'c, M>, cpu: u8, stamp: S) -> Self {
        Self::with_record_format(zone, cpu, stamp, RecordFormat::NATIVE)
    }

    /// Creates a recorder with the given format.
    pub const fn with_record_format(
        zone: Zone<'c, M>,
        cpu: u8,
        stamp: S,
        record_format: RecordFormat,
    ) -> Self {
        Self {
            zone,
            stamp,
            record_format,
            cpu,
        }
    }

    /// Records that the function at `ip` was entered from `parent`.
    #[inline]
    pub fn record(&mut self, ip: u64, parent: u64) {
        self.record_on(self.cpu, ip, parent);
    }

    /// Records for another CPU than the recorder's own, if one zone serves several CPUs
    /// ([`LockedRecorder`](crate::LockedRecorder)).
    #[inline]
    pub fn record_on(&mut self, cpu: u8, ip: u64, parent: u64) {
        let stamp = self.stamp.next();
        if self.record_format == RecordFormat::NATIVE {
            // The number of words is known to the compiler, so they stay in registers.
            let record = TraceRecord {
                ip,
                parent,
                stamp,
                cpu,
            };
            let bytes = RecordFormat::NATIVE.encode(&record, ByteOrder::NATIVE);
            let word = |i: usize| {
                bytes
                    .as_chunks()
                    .0
                    .get(i)
                    .map(|bytes| u64::from_ne_bytes(*bytes))
            };
            let third = if RecordFormat::NATIVE.len() == 24 {
                word(2)
            } else {
                None
            };
            self.zone
                .append_words(word(0).unwrap_or(0), word(1).unwrap_or(0), third);
        } else {
            self.append_in_other_format(ip, parent, stamp, cpu);
        }
    }

    #[cold]
    fn append_in_other_format(&mut self, ip: u64, parent: u64, stamp: u64, cpu: u8) {
        let record = TraceRecord {
            ip,
            parent,
            stamp,
            cpu,
        };
        let bytes = self.record_format.encode(&record, ByteOrder::NATIVE);
        self.zone.append(&bytes[..self.record_format.len()]);
    }

    /// Returns the zone.
    pub const fn zone(&self) -> &Zone<'c, M> {
        &self.zone
    }

    /// Returns the parts: zone, CPU, stamp, format.
    #[cfg(target_pointer_width = "64")]
    pub(crate) fn into_parts(self) -> (Zone<'c, M>, u8, S, RecordFormat) {
        (self.zone, self.cpu, self.stamp, self.record_format)
    }
}

/// Recorder that handlers may call too. A record that interrupts another one is dropped and
/// counted.
///
/// For one CPU, or one thread and its signal handlers; the type is not `Sync`.
#[derive(Debug)]
pub struct Dropping<R> {
    busy: AtomicBool,
    missed: AtomicUsize,
    recorder: UnsafeCell<R>,
}

impl<R> Dropping<R> {
    /// Creates the wrapper around `recorder`.
    pub const fn new(recorder: R) -> Self {
        Self {
            busy: AtomicBool::new(false),
            missed: AtomicUsize::new(0),
            recorder: UnsafeCell::new(recorder),
        }
    }

    /// Calls `record` with the recorder. Returns `None` if the call interrupts another one, which
    /// is counted.
    #[inline]
    pub fn with<T>(&self, record: impl FnOnce(&mut R) -> T) -> Option<T> {
        if self.busy.load(Ordering::Relaxed) {
            let missed = self.missed.load(Ordering::Relaxed);
            self.missed.store(missed.wrapping_add(1), Ordering::Relaxed);
            return None;
        }
        // A handler between this load and this store has released the flag when it returns, so a
        // plain store suffices.
        self.busy.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        // Released even if `record` panics.
        let _free = Free(&self.busy);
        // SAFETY: the type is not `Sync`, so only this thread and its handlers get here, and while
        // `busy` is set they return earlier.
        let result = record(unsafe { &mut *self.recorder.get() });
        Some(result)
    }

    /// Returns the number of dropped calls. It may be slightly too low if handlers interrupt
    /// handlers.
    pub fn missed(&self) -> usize {
        self.missed.load(Ordering::Relaxed)
    }

    /// Returns the recorder.
    pub fn into_inner(self) -> R {
        self.recorder.into_inner()
    }
}

struct Free<'a>(&'a AtomicBool);

impl Drop for Free<'_> {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.store(false, Ordering::Relaxed);
    }
}

impl<M: Memory, S: Stamp> Dropping<Recorder<'_, M, S>> {
    /// Records that the function at `ip` was entered from `parent`, unless this interrupts a
    /// record.
    #[inline]
    pub fn record(&self, ip: u64, parent: u64) {
        self.with(|recorder| recorder.record(ip, parent));
    }
}

/// Recorder that masks interrupts while it records, so that their handlers may record too. An NMI
/// cannot be masked: its record is dropped and counted if it interrupts another one.
#[derive(Debug)]
pub struct Masking<R, P> {
    recorder: Dropping<R>,
    processor: P,
}

impl<R, P: Processor> Masking<R, P> {
    /// Creates the wrapper around `recorder`, on this processor.
    pub const fn new(recorder: R, processor: P) -> Self {
        Self {
            recorder: Dropping::new(recorder),
            processor,
        }
    }

    /// Calls `record` with the recorder and with interrupts masked. Returns `None` if the call
    /// interrupts another one.
    #[inline]
    pub fn with<T>(&self, record: impl FnOnce(&mut R) -> T) -> Option<T> {
        self.processor
            .without_interrupts(|| self.recorder.with(record))
    }

    /// Returns the number of dropped calls.
    pub fn missed(&self) -> usize {
        self.recorder.missed()
    }
}

impl<M: Memory, S: Stamp, P: Processor> Masking<Recorder<'_, M, S>, P> {
    /// Records that the function at `ip` was entered from `parent`.
    #[inline]
    pub fn record(&self, ip: u64, parent: u64) {
        self.with(|recorder| recorder.record(ip, parent));
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{HEADER, LinuxVersion, OwnCounter, Place, Ram, Reader, ZoneKind};
    use std::vec::Vec;

    const DATA: usize = 24 * 4;

    fn recorder(memory: &mut [u8]) -> Recorder<'static, Ram<'_>, OwnCounter> {
        let (zone, _) =
            Zone::attach(Ram::of(memory), ZoneKind::Ftrace, LinuxVersion(0), None).unwrap();
        Recorder::with_record_format(zone, 3, OwnCounter::new(), RecordFormat::Bits64)
    }

    /// Returns the recorded functions.
    fn read(memory: &[u8]) -> Vec<u64> {
        let place = Place {
            kind: ZoneKind::Ftrace,
            index: 0,
            offset: 0,
            division: crate::Division::new(memory.len(), 0).unwrap(),
        };
        let traces = Reader::careful(None)
            .open(memory, place)
            .traces(RecordFormat::Bits64);
        let ip = traces.map(|trace| {
            assert_eq!(
                (trace.record.parent, trace.record.cpu),
                (!trace.record.ip, 3)
            );
            trace.record.ip
        });
        ip.collect()
    }

    /// Processor that masks nothing and counts the calls.
    struct Cpu<'a>(&'a AtomicUsize);

    impl Processor for Cpu<'_> {
        fn id(&self) -> usize {
            3
        }

        fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
            self.0.fetch_add(1, Ordering::Relaxed);
            critical()
        }
    }

    #[test]
    fn a_full_zone_holds_the_newest_records() {
        let mut memory = [0; HEADER + DATA];
        let mut recorder = recorder(&mut memory);
        (0..9).for_each(|ip| recorder.record(ip, !ip));
        assert_eq!(read(&memory), [5, 6, 7, 8]);
    }

    #[test]
    fn a_record_that_interrupts_another_is_dropped_and_counted() {
        let mut memory = [0; HEADER + DATA];
        let dropping = Dropping::new(recorder(&mut memory));
        dropping.with(|recorder| {
            dropping.record(7, !7);
            recorder.record(1, !1);
        });
        dropping.record(2, !2);
        assert_eq!(dropping.missed(), 1);
        assert_eq!(read(&memory), [1, 2]);
    }

    #[test]
    fn every_record_is_masked_and_an_nmi_s_is_dropped() {
        let mut memory = [0; HEADER + DATA];
        let masked = AtomicUsize::new(0);
        let masking = Masking::new(recorder(&mut memory), Cpu(&masked));
        masking.with(|recorder| {
            masking.record(7, !7);
            recorder.record(1, !1);
        });
        masking.record(2, !2);
        assert_eq!((masking.missed(), masked.load(Ordering::Relaxed)), (1, 3));
        assert_eq!(read(&memory), [1, 2]);
    }
}

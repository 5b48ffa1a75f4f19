//! The trace of one CPU: no lock, no atomic read-modify-write, no shared counter.

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
/// It is exclusive (`&mut`): for code that no recording handler interrupts. Otherwise use one
/// of these (`examples/handlers.rs` runs them):
///
/// | | a record made by a handler | cost |
/// | --- | --- | --- |
/// | `Recorder` | cannot be | nothing |
/// | [`Dropping`] | is dropped and counted, if it interrupted one | a flag, set and reset |
/// | [`Masking`] | waits; an NMI's is dropped and counted | masking interrupts, and the flag |
/// | [`Nesting`](crate::Nesting) | is kept, after the one that it interrupted; no error correction | a dozen plain loads and stores |
#[derive(Debug)]
// Side by side in an array, two CPUs' recorders share no cache line.
#[repr(align(64))]
pub struct Recorder<'c, M, S> {
    zone: Zone<'c, M>,
    stamp: S,
    record_format: RecordFormat,
    cpu: u8,
}

impl<'c, M: Memory, S: Stamp> Recorder<'c, M, S> {
    /// Creates a recorder for CPU `cpu` into `zone`, in this machine's own format.
    pub const fn new(zone: Zone<'c, M>, cpu: u8, stamp: S) -> Self {
        Self::with_record_format(zone, cpu, stamp, RecordFormat::NATIVE)
    }

    /// The same, in a format of your choice.
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

    /// The same for another CPU than the recorder's own: where one zone serves
    /// many ([`LockedRecorder`](crate::LockedRecorder)).
    #[inline]
    pub fn record_on(&mut self, cpu: u8, ip: u64, parent: u64) {
        let stamp = self.stamp.next();
        if self.record_format == RecordFormat::NATIVE {
            // In words of a number that the compiler knows: they stay in registers.
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

    /// The zone.
    pub const fn zone(&self) -> &Zone<'c, M> {
        &self.zone
    }

    /// The parts: zone, CPU, stamp, format.
    #[cfg(target_pointer_width = "64")]
    pub(crate) fn into_parts(self) -> (Zone<'c, M>, u8, S, RecordFormat) {
        (self.zone, self.cpu, self.stamp, self.record_format)
    }
}

/// A recorder that handlers may call too: what interrupts a record is dropped, and
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
    /// Around `recorder`.
    pub const fn new(recorder: R) -> Self {
        Self {
            busy: AtomicBool::new(false),
            missed: AtomicUsize::new(0),
            recorder: UnsafeCell::new(recorder),
        }
    }

    /// Lets `record` have the recorder, or drops the call: `None`.
    #[inline]
    pub fn with<T>(&self, record: impl FnOnce(&mut R) -> T) -> Option<T> {
        if self.busy.load(Ordering::Relaxed) {
            let missed = self.missed.load(Ordering::Relaxed);
            self.missed.store(missed.wrapping_add(1), Ordering::Relaxed);
            return None;
        }
        // A handler between this load and this store has let go again when it
        // returns, so a plain store will do.
        self.busy.store(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        // Also if `record` panics.
        let _free = Free(&self.busy);
        // SAFETY: not `Sync`, so only this thread and its handlers come here; while
        // `busy` is set, they do not get as far.
        let result = record(unsafe { &mut *self.recorder.get() });
        Some(result)
    }

    /// Calls that were dropped; a few less, where handlers interrupt handlers.
    pub fn missed(&self) -> usize {
        self.missed.load(Ordering::Relaxed)
    }

    /// The recorder back.
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
    /// Records that the function at `ip` was entered from `parent`, unless this
    /// interrupts a record.
    #[inline]
    pub fn record(&self, ip: u64, parent: u64) {
        self.with(|recorder| recorder.record(ip, parent));
    }
}

/// A recorder that masks interrupts while it records, so that their handlers may
/// record too. A record of an NMI, which cannot be masked, is dropped and counted if it
/// interrupts another record.
#[derive(Debug)]
pub struct Masking<R, P> {
    recorder: Dropping<R>,
    processor: P,
}

impl<R, P: Processor> Masking<R, P> {
    /// Around `recorder`, on this processor.
    pub const fn new(recorder: R, processor: P) -> Self {
        Self {
            recorder: Dropping::new(recorder),
            processor,
        }
    }

    /// Lets `record` have the recorder with interrupts masked, or drops the call:
    /// `None`.
    #[inline]
    pub fn with<T>(&self, record: impl FnOnce(&mut R) -> T) -> Option<T> {
        self.processor
            .without_interrupts(|| self.recorder.with(record))
    }

    /// Calls that were dropped.
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

    /// The functions that were entered.
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

    /// Masks nothing, and counts.
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
    fn a_full_zone_holds_the_newest() {
        let mut memory = [0; HEADER + DATA];
        let mut recorder = recorder(&mut memory);
        (0..9).for_each(|ip| recorder.record(ip, !ip));
        assert_eq!(read(&memory), [5, 6, 7, 8]);
    }

    #[test]
    fn what_interrupts_a_record_is_dropped_and_counted() {
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

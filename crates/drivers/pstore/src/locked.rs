//! Recorder shared by many CPUs, behind a lock. Linux used one before trace zones per CPU, and
//! still does if the zones are not per CPU.

use lock_api::{Mutex, RawMutex};

use crate::memory::Memory;
use crate::recorder::Recorder;
use crate::stamp::Stamp;

/// Recorders behind one lock.
///
/// With one recorder, this is a zone with its own lock; with several, one lock for all zones. `L`
/// is any raw lock: `spin::mutex::SpinMutex<()>`, or a kernel's own.
///
/// A handler that interrupts the lock's holder and records would wait forever. Mask interrupts
/// around [`record`](Self::record), or use [`try_record`](Self::try_record).
pub struct LockedRecorder<L: RawMutex, R>(Mutex<L, R>);

impl<L: RawMutex, R> LockedRecorder<L, R> {
    /// Creates the lock around `recorders`: one, or an array.
    pub const fn new(recorders: R) -> Self {
        Self(Mutex::new(recorders))
    }

    /// Returns the recorders.
    pub fn into_inner(self) -> R {
        self.0.into_inner()
    }
}

impl<L: RawMutex, M: Memory, S: Stamp> LockedRecorder<L, Recorder<'_, M, S>> {
    /// Records for `cpu` that the function at `ip` was entered from `parent`. Waits for the lock.
    pub fn record(&self, cpu: u8, ip: u64, parent: u64) {
        self.0.lock().record_on(cpu, ip, parent);
    }

    /// Does the same, or returns `false` if the lock is held. For handlers that may have
    /// interrupted the lock's holder.
    pub fn try_record(&self, cpu: u8, ip: u64, parent: u64) -> bool {
        let free = self.0.try_lock();
        free.map(|mut recorder| recorder.record_on(cpu, ip, parent))
            .is_some()
    }
}

impl<L: RawMutex, M: Memory, S: Stamp, const ZONES: usize>
    LockedRecorder<L, [Recorder<'_, M, S>; ZONES]>
{
    /// Records in zone number `cpu` that the function at `ip` was entered from `parent`. Waits for
    /// the lock of all zones. Records nothing if there is no such zone.
    pub fn record_in(&self, cpu: u8, ip: u64, parent: u64) {
        if let Some(recorder) = self.0.lock().get_mut(usize::from(cpu)) {
            recorder.record(ip, parent);
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{HEADER, LinuxVersion, OwnCounter, Ram, RecordFormat, Zone, ZoneKind};
    use core::sync::atomic::{AtomicBool, Ordering};

    struct Spin(AtomicBool);

    // SAFETY: only the thread that changes the flag from false to true holds the lock.
    unsafe impl RawMutex for Spin {
        const INIT: Self = Self(AtomicBool::new(false));
        type GuardMarker = lock_api::GuardSend;

        fn lock(&self) {
            while !self.try_lock() {
                std::thread::yield_now();
            }
        }

        fn try_lock(&self) -> bool {
            !self.0.swap(true, Ordering::Acquire)
        }

        unsafe fn unlock(&self) {
            self.0.store(false, Ordering::Release);
        }
    }

    /// The tests in tests/locked.rs cover every order with modelled memory. This test uses real
    /// memory, under Miri.
    #[test]
    fn two_threads_share_a_zone() {
        let mut memory = [0; HEADER + 24 * 40];
        let (zone, _) = Zone::attach(
            Ram::of(&mut memory),
            ZoneKind::Ftrace,
            LinuxVersion(0),
            None,
        )
        .unwrap();
        let recorder =
            Recorder::with_record_format(zone, 0, OwnCounter::new(), RecordFormat::Bits64);
        let shared = LockedRecorder::<Spin, _>::new(recorder);
        std::thread::scope(|scope| {
            for cpu in 0..2 {
                let shared = &shared;
                scope.spawn(move || (0..20).for_each(|ip| shared.record(cpu, ip, !ip)));
            }
        });
        assert_eq!(shared.into_inner().zone().len(), 24 * 40);
        let stamps = memory[HEADER..].chunks_exact(24).map(|bytes| {
            let record = RecordFormat::Bits64
                .decode(bytes, crate::ByteOrder::NATIVE)
                .unwrap();
            assert_eq!(record.parent, !record.ip);
            record.stamp
        });
        assert!(stamps.eq(0..40));
    }
}

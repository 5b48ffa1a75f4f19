//! A recorder that many CPUs share, behind a lock: what Linux had before the seed,
//! and has still where trace zones are not per CPU.

use lock_api::{Mutex, RawMutex};

use crate::memory::Memory;
use crate::recorder::Recorder;
use crate::stamp::Stamp;

/// Recorders behind one lock.
///
/// With one recorder in it, this is a zone with a lock of its own; with several,
/// one lock for all zones. `L` is any raw lock: `spin::mutex::SpinMutex<()>`, a
/// kernel's own.
///
/// A handler that records while the lock is held by what it interrupted would wait
/// for ever: mask interrupts around [`record`](Self::record), or use
/// [`try_record`](Self::try_record).
pub struct LockedRecorder<L: RawMutex, R>(Mutex<L, R>);

impl<L: RawMutex, R> LockedRecorder<L, R> {
    /// Around `recorders`: one, or an array of them.
    pub const fn new(recorders: R) -> Self {
        Self(Mutex::new(recorders))
    }

    /// The recorders back.
    pub fn into_inner(self) -> R {
        self.0.into_inner()
    }
}

impl<L: RawMutex, M: Memory, S: Stamp> LockedRecorder<L, Recorder<'_, M, S>> {
    /// Records for `cpu` that the function at `ip` was entered from `parent`.
    /// Waits for the lock.
    pub fn record(&self, cpu: u8, ip: u64, parent: u64) {
        self.0.lock().record_on(cpu, ip, parent);
    }

    /// Records the same, or returns `false` if the lock is held: for a handler that may have
    /// interrupted its holder.
    pub fn try_record(&self, cpu: u8, ip: u64, parent: u64) -> bool {
        let free = self.0.try_lock();
        free.map(|mut recorder| recorder.record_on(cpu, ip, parent))
            .is_some()
    }
}

impl<L: RawMutex, M: Memory, S: Stamp, const ZONES: usize>
    LockedRecorder<L, [Recorder<'_, M, S>; ZONES]>
{
    /// Records in zone number `cpu` that the function at `ip` was entered from
    /// `parent`; nothing, if there is no such zone. Waits for the one lock of all
    /// zones.
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

    // SAFETY: the thread that changes it from false to true has the lock, and no other.
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

    /// tests/locked.rs has every order, of memory that it watches; this is real
    /// memory, which Miri watches.
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

//! The shared recorder, in every order in which its threads can run (loom).

use std::sync::OnceLock;

use lock_api::{GuardSend, RawMutex};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use nostall_pstore::{
    Division, HEADER, LinuxVersion, Load, LockedRecorder, Memory, OwnCounter, Place, Reader,
    RecordFormat, Recorder, Stamp, Zone, ZoneKind,
};

const SIZE: usize = HEADER + 24 * 4;

/// A spin lock whose steps loom controls.
struct Spin(OnceLock<AtomicBool>);

impl Spin {
    /// Returns the flag. loom's atomics cannot be made in a constant, only while a model runs.
    fn taken(&self) -> &AtomicBool {
        self.0.get_or_init(|| AtomicBool::new(false))
    }
}

// SAFETY: `lock` and `try_lock` return only to a caller that has changed `taken` from `false` to
// `true`. Only `unlock` changes it back.
unsafe impl RawMutex for Spin {
    const INIT: Self = Self(OnceLock::new());
    type GuardMarker = GuardSend;

    fn lock(&self) {
        while !self.try_lock() {
            thread::yield_now();
        }
    }

    fn try_lock(&self) -> bool {
        let (got, not) = (Ordering::Acquire, Ordering::Relaxed);
        self.taken().compare_exchange(false, true, got, not).is_ok()
    }

    unsafe fn unlock(&self) {
        self.taken().store(false, Ordering::Release);
    }
}

/// Memory that reports every access to loom, which fails the test if two overlap.
#[derive(Clone)]
struct Watched(Arc<loom::cell::UnsafeCell<[u8; SIZE]>>);

impl Watched {
    fn new() -> Self {
        Self(Arc::new(loom::cell::UnsafeCell::new([0; SIZE])))
    }
}

// SAFETY: loom checks that no two threads access the cell at the same time.
unsafe impl Send for Watched {}

impl Load for Watched {
    fn len(&self) -> usize {
        SIZE
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        // SAFETY: loom checks that there is no write at the same time.
        self.0.with(|bytes| unsafe { (&*bytes)[..].load(at, into) });
    }
}

impl Memory for Watched {
    fn store(&self, at: usize, bytes: &[u8]) {
        // SAFETY: loom checks that this is the only access.
        self.0
            .with_mut(|to| unsafe { (&mut *to)[at..at + bytes.len()].copy_from_slice(bytes) });
    }
}

fn recorder(memory: &Watched, cpu: u8) -> Recorder<'static, Watched, impl Stamp + use<>> {
    let (zone, _) = Zone::attach(memory.clone(), ZoneKind::Ftrace, LinuxVersion(0), None).unwrap();
    Recorder::with_record_format(zone, cpu, OwnCounter::new(), RecordFormat::Bits64)
}

/// Returns the CPUs and addresses of the records, in order. Asserts that each is whole.
fn records(memory: &Watched) -> Vec<(u8, u64)> {
    let mut image = [0; SIZE];
    memory.load(0, &mut image);
    let division = Division::new(SIZE, 0).unwrap();
    let place = Place {
        kind: ZoneKind::Ftrace,
        index: 0,
        offset: 0,
        division,
    };
    let zone = Reader::careful(None).open(&image[..], place);
    let traces = zone.traces(RecordFormat::Bits64).map(|trace| trace.record);
    traces
        .map(|record| {
            assert_eq!(record.parent, !record.ip);
            (record.cpu, record.ip)
        })
        .collect()
}

/// Creates the lock before the threads that compete for it.
fn made<R>(
    recorder: LockedRecorder<Spin, R>,
    make: impl FnOnce(&LockedRecorder<Spin, R>),
) -> Arc<LockedRecorder<Spin, R>> {
    make(&recorder);
    Arc::new(recorder)
}

#[test]
fn two_cpus_record_in_one_zone_and_nothing_is_lost_or_mixed() {
    loom::model(|| {
        let memory = Watched::new();
        let shared = made(LockedRecorder::new(recorder(&memory, 0)), |it| {
            it.record(0, 0, !0)
        });
        let other = shared.clone();
        let thread = thread::spawn(move || other.record(1, 10, !10));
        shared.record(2, 20, !20);
        shared.record(2, 21, !21);
        thread.join().unwrap();

        let records = records(&memory);
        assert_eq!(records.len(), 4);
        let of = |cpu| -> Vec<_> {
            records
                .iter()
                .filter(|it| it.0 == cpu)
                .map(|it| it.1)
                .collect()
        };
        assert_eq!((of(0), of(1), of(2)), (vec![0], vec![10], vec![20, 21]));
    });
}

#[test]
fn a_caller_that_only_tries_learns_whether_it_recorded() {
    loom::model(|| {
        let memory = Watched::new();
        let shared = made(LockedRecorder::new(recorder(&memory, 0)), |it| {
            it.record(0, 0, !0)
        });
        let other = shared.clone();
        let thread = thread::spawn(move || other.try_record(1, 10, !10));
        let mine = shared.try_record(2, 20, !20);
        let theirs = thread.join().unwrap();

        let records = records(&memory);
        assert!(mine || theirs);
        assert_eq!(records.contains(&(1, 10)), theirs);
        assert_eq!(records.contains(&(2, 20)), mine);
        assert_eq!(records.len(), 1 + usize::from(mine) + usize::from(theirs));
    });
}

#[test]
fn one_lock_for_all_zones_keeps_them_apart() {
    loom::model(|| {
        let zones = [Watched::new(), Watched::new()];
        let recorders = [recorder(&zones[0], 0), recorder(&zones[1], 1)];
        let shared = made(LockedRecorder::new(recorders), |it| it.record_in(0, 0, !0));
        let other = shared.clone();
        let thread = thread::spawn(move || other.record_in(1, 10, !10));
        shared.record_in(0, 1, !1);
        shared.record_in(1, 11, !11);
        // There is no zone with this number.
        shared.record_in(2, 2, !2);
        thread.join().unwrap();
        assert_eq!(records(&zones[0]), [(0, 0), (0, 1)]);
        let mut second = records(&zones[1]);
        second.sort_unstable();
        assert_eq!(second, [(1, 10), (1, 11)]);
    });
}

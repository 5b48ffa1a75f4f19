//! One measurement of the stages, with a recorder for each stage or one for all.

use core::sync::atomic::AtomicUsize;

use lock_api::RawMutex;
use nostall_io::Clock;
use nostall_pstore::{
    ByClock, LockedRecorder, Memory, Ram, Recorder, SharedCounter, Stamp, Zone, ZoneKind,
};

use super::region::{LINUX, Traces, carve};
use super::stage::{Crew, Moved, Pipes, Stage};
use super::{BLOCKS, Tracer, ZoneStrategy};

/// Moves [`BLOCKS`] blocks through `pipes` on the CPUs of `crew`. It records with `strategy` in the
/// trace zones of `region`, which are emptied first.
///
/// No recording code can interrupt a record here, so that no strategy masks interrupts. Strategies
/// with a lock stamp their records with a counter under it.
///
/// `None` for fewer than [`FEWEST_CPUS`](super::FEWEST_CPUS) or more than
/// [`MOST_CPUS`](super::MOST_CPUS).
pub fn measure<C: Crew>(
    strategy: ZoneStrategy,
    region: Ram<'_>,
    cpus: u16,
    pipes: &Pipes,
    crew: &C,
    clock: impl Clock + Clone + Send + Sync,
) -> Option<Moved> {
    pipes.clear();
    let counter = Counter::default();
    let count = || SharedCounter(&counter.0);
    let traces = match strategy {
        ZoneStrategy::OneZoneLocked => Traces::Together,
        ZoneStrategy::PerCpuCounterEcc => Traces::PerCpuEcc,
        _ => Traces::PerCpu,
    };
    let mut zones = carve(region, cpus, traces)?
        .filter(|(place, _)| place.kind == ZoneKind::Ftrace)
        .filter_map(|(_, memory)| empty(memory, traces));
    let moving = Moving { pipes, crew, clock };
    Some(match strategy {
        ZoneStrategy::Untraced => {
            zones.for_each(drop);
            moving.run([(); 3])
        }
        ZoneStrategy::OneLockForAll => {
            let recorders = one_each(zones)?.map(|(cpu, zone)| Recorder::new(zone, cpu, count()));
            moving.run_locked::<C::Lock, _>(recorders)
        }
        ZoneStrategy::OneZoneLocked => {
            moving.run_locked::<C::Lock, _>(Recorder::new(zones.next()?, 0, count()))
        }
        ZoneStrategy::PerCpuClock => {
            let by_clock = || ByClock(moving.clock.clone());
            moving.run(one_each(zones)?.map(|(cpu, zone)| Recorder::new(zone, cpu, by_clock())))
        }
        ZoneStrategy::PerCpuCounter | ZoneStrategy::PerCpuCounterEcc => {
            moving.run(one_each(zones)?.map(|(cpu, zone)| Recorder::new(zone, cpu, count())))
        }
    })
}

/// A counter in its own cache line.
#[derive(Default)]
#[repr(align(64))]
struct Counter(AtomicUsize);

/// Attaches a trace zone and empties it.
fn empty(memory: Ram<'_>, traces: Traces) -> Option<Zone<'static, Ram<'_>>> {
    let (mut zone, _) = Zone::attach(memory, ZoneKind::Ftrace, LINUX, traces.code()).ok()?;
    zone.erase();
    Some(zone)
}

/// Returns the first three zones with their CPU numbers. Other zones are emptied when attached.
fn one_each<Z>(mut zones: impl Iterator<Item = Z>) -> Option<[(u8, Z); 3]> {
    let three = [(0, zones.next()?), (1, zones.next()?), (2, zones.next()?)];
    zones.for_each(drop);
    Some(three)
}

struct Moving<'a, C, K> {
    pipes: &'a Pipes,
    crew: &'a C,
    clock: K,
}

impl<C: Crew, K: Clock + Sync> Moving<'_, C, K> {
    /// Runs all stages concurrently, each with its tracer.
    fn run<T: Tracer + Send>(&self, tracers: [T; 3]) -> Moved {
        let [first, second, third] = tracers;
        let parts = [
            (Stage::Reader, first),
            (Stage::Passer, second),
            (Stage::Writer, third),
        ];
        let done = self.crew.each(parts, |(stage, trace)| {
            let mut trace = Counted { trace, records: 0 };
            let ran = self
                .pipes
                .run(stage, BLOCKS, &mut trace, &self.clock, self.crew);
            (ran, trace.records)
        });
        Moved::by(
            &done.map(|(ran, _)| ran),
            done.map(|(_, records)| records).iter().sum(),
        )
    }

    /// Runs all stages concurrently, with `recorders` behind one lock.
    fn run_locked<L: RawMutex + Send + Sync, R: Send>(&self, recorders: R) -> Moved
    where
        for<'l> LockedTracer<'l, L, R>: Tracer,
    {
        let lock = LockedRecorder::new(recorders);
        self.run([0, 1, 2].map(|cpu| LockedTracer { cpu, lock: &lock }))
    }
}

/// Counts the recorded entries.
struct Counted<T> {
    trace: T,
    records: u64,
}

impl<T: Tracer> Tracer for Counted<T> {
    const TRACES: bool = T::TRACES;

    #[inline]
    fn record(&mut self, ip: u64, parent: u64) {
        self.trace.record(ip, parent);
        self.records += u64::from(T::TRACES);
    }
}

impl<M: Memory, S: Stamp> Tracer for Recorder<'_, M, S> {
    #[inline]
    fn record(&mut self, ip: u64, parent: u64) {
        Self::record(self, ip, parent);
    }
}

/// One CPU's access to the shared recorders.
struct LockedTracer<'a, L: RawMutex, R> {
    cpu: u8,
    lock: &'a LockedRecorder<L, R>,
}

impl<L: RawMutex, M: Memory, S: Stamp> Tracer for LockedTracer<'_, L, Recorder<'_, M, S>> {
    #[inline]
    fn record(&mut self, ip: u64, parent: u64) {
        self.lock.record(self.cpu, ip, parent);
    }
}

impl<L: RawMutex, M: Memory, S: Stamp, const ZONES: usize> Tracer
    for LockedTracer<'_, L, [Recorder<'_, M, S>; ZONES]>
{
    #[inline]
    fn record(&mut self, ip: u64, parent: u64) {
        self.lock.record_in(self.cpu, ip, parent);
    }
}

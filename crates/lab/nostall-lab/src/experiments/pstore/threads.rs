//! The experiment on threads of this process instead of CPUs, in real time.

use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use nostall_io::HostClock;
use nostall_pstore::Ram;
use nostall_work::pstore::{Crew, Pipes, REGION, Sleep, ZoneStrategy, measure, recover};

use spin::mutex::SpinMutex;

use super::run::Survived;

/// Number of CPUs, as in Linux's measurement; the fourth is idle.
const CPUS: u16 = 4;

/// Longest sleep of a thread before it checks again.
const NAP: Duration = Duration::from_millis(10);

/// Runs each part on a thread of its own.
#[derive(Default)]
struct Threads {
    /// Guards the sleeping threads.
    bed: Mutex<()>,
    bell: Condvar,
}

impl Sleep for Threads {
    fn sleep(&self, ready: &dyn Fn() -> bool) {
        if let Ok(bed) = self.bed.lock()
            && !ready()
        {
            let _ = self.bell.wait_timeout(bed, NAP);
        }
    }

    fn wake_others(&self) {
        drop(self.bed.lock());
        self.bell.notify_all();
    }
}

impl Crew for Threads {
    type Lock = SpinMutex<()>;

    fn each<T: Send, R: Send>(&self, parts: [T; 3], run: impl Fn(T) -> R + Sync) -> [R; 3] {
        thread::scope(|scope| {
            let run = &run;
            let threads = parts.map(|part| scope.spawn(move || run(part)));
            threads.map(|thread| match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })
    }
}

/// Runs the experiment of [`run`](super::run::run) on threads, without the crash. The records
/// are read back when the threads have ended.
pub fn run(rounds: u16) -> Survived {
    let pipes = Box::new(Pipes::new());
    let clock = HostClock::new();
    let threads = Threads::default();
    let mut region = vec![0; (REGION.end - REGION.start) as usize];
    let mut one = |strategy| {
        let region = Ram::of(&mut region);
        measure(strategy, region, CPUS, &pipes, &threads, clock).unwrap_or_default()
    };
    let strategies = (0..rounds).flat_map(|_| ZoneStrategy::ALL);
    let moved = strategies.map(|s| (s, one(s))).collect();
    one(ZoneStrategy::PerCpuClock);
    let mut host = Vec::new();
    recover(&region[..], CPUS, |one| host.push(one));
    Survived {
        moved,
        writer: Vec::new(),
        host,
        next_boot: Vec::new(),
        image: region,
        panic: None,
    }
}

#[cfg(test)]
mod tests {
    use nostall_pstore::{Layout, RecordFormat, ZoneKind};
    use nostall_work::pstore::{Traces, params};

    use super::*;

    #[test]
    fn zones_with_error_correction_hold_whole_records_and_true_parity() {
        let mut region = vec![0; (REGION.end - REGION.start) as usize];
        let moved = measure(
            ZoneStrategy::PerCpuCounterEcc,
            Ram::of(&mut region),
            CPUS,
            &Pipes::new(),
            &Threads::default(),
            HostClock::new(),
        );
        assert_eq!(moved.unwrap().records, 737_280);
        let traces = Traces::PerCpuEcc;
        let layout = Layout::new(&params(CPUS, traces)).unwrap();
        let left = nostall_pstore::recover(&region[..], &layout, traces.code());
        for mut zone in left.zones_of(ZoneKind::Ftrace) {
            let cpu = zone.place().index;
            let ecc = zone.ecc().unwrap();
            assert_eq!((ecc.corrected_bytes, ecc.bad_blocks), (0, 0), "CPU {cpu}");
            let records: Vec<_> = zone.traces(RecordFormat::NATIVE).collect();
            // 128 of each 144 bytes are records of 24 bytes. The fourth CPU is idle.
            let expected = if cpu < 3 { 2_400 } else { 0 };
            assert!(records.len() >= expected, "CPU {cpu}: {}", records.len());
            assert!(records.iter().all(|one| usize::from(one.record.cpu) == cpu));
            // A stage that is preempted within the shared counter takes the counter back.
            assert!(records.iter().all(|one| one.record.stamp < 737_280));
        }
    }
}

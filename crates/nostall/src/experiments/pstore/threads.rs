//! No guest and no model: CPUs are threads of this process, time is the host's.

use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use nostall_io::HostClock;
use nostall_pstore::Ram;
use nostall_work::pstore::{Crew, Pipes, REGION, Sleep, Strategy, measure, recover};

use spin::mutex::SpinMutex;

use super::run::{Finder, Outcome};

/// As in the seed; the fourth has nothing to do.
const CPUS: u16 = 4;

/// A sleeper that nobody wakes looks again after so long.
const NAP: Duration = Duration::from_millis(10);

/// Each part on a thread of its own.
#[derive(Default)]
struct Threads {
    /// Of the sleepers.
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

/// Runs the experiment of [`run`](super::run::run) on threads,
/// but for the crash: what was recorded is read back when they have ended.
pub fn run(rounds: u16) -> Outcome {
    let pipes = Box::new(Pipes::new());
    let clock = HostClock::new();
    let threads = Threads::default();
    let mut region = vec![0; (REGION.end - REGION.start) as usize];
    let mut one = |strategy| {
        let region = Ram::of(&mut region);
        measure(strategy, region, CPUS, &pipes, &threads, clock).unwrap_or_default()
    };
    let strategies = (0..rounds).flat_map(|_| Strategy::ALL);
    let moved = strategies.map(|s| (s, one(s))).collect();
    one(Strategy::PerCpuClock);
    let mut found = Vec::new();
    recover(&region[..], CPUS, |one| found.push(one));
    Outcome {
        moved,
        found: vec![(Finder::Host, found)],
        image: region,
        panic: None,
    }
}

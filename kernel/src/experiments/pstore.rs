//! Persistent RAM: recording function entries, crashing, and recovering.

use core::ptr::NonNull;

use nostall_io::{Clock, Nanos};
use nostall_pstore::Ram;
use nostall_work::pstore::{
    Crew, FEWEST_CPUS, Job, JobResult, LOGS, Logs, MOST_CPUS, Moved, Pipes, REGION, Sleep,
    ZoneStrategy, measure, recover,
};
use spin::Mutex;
use spin::mutex::SpinMutex;

use crate::arch::{self, MachineClock};
use crate::{cpu, log, other_cpus, report};

/// Bound on a stage's wait for its two neighbours.
const BOUND: Nanos = Nanos::from_secs(15);

static PIPES: Pipes = Pipes::new();

/// Place for a crashing kernel's log, if the machine has one and no log was saved yet.
static PLACE: Mutex<Option<Place>> = Mutex::new(None);

struct Place(NonNull<u8>);

// SAFETY: the address is the same on all CPUs. `last_words` explains its safe use.
unsafe impl Send for Place {}

/// Enables saving the log when the kernel crashes.
pub fn start() {
    let ram = arch::persistent_ram(REGION).ok();
    *PLACE.lock() = ram.map(|(start, _)| Place(start));
}

/// The CPUs whose functions are recorded, and their clock.
pub struct PstoreCrew<'a> {
    pub cpus: u16,
    pub clock: &'a MachineClock,
}

impl PstoreCrew<'_> {
    /// Runs one job of the list, number `item`.
    pub fn run(&self, job: Job, item: u16) {
        match job {
            Job::Move(strategy) => {
                let moved = self.move_blocks(strategy);
                report::tell(item, JobResult::Moved(moved));
            }
            Job::Crash => {
                self.move_blocks(ZoneStrategy::PerCpuClock);
                self.recover(item);
                panic!("on purpose, with the traces of {} CPUs", self.cpus);
            }
            Job::Recover => self.recover(item),
        }
    }

    fn move_blocks(&self, strategy: ZoneStrategy) -> Moved {
        // SAFETY: the previous jobs no longer use it.
        let region = unsafe { region() };
        let moved = measure(strategy, region, self.cpus, &PIPES, self, self.clock);
        let Some(moved) = moved else {
            panic!(
                "{} CPUs: pstore runs on {FEWEST_CPUS} to {MOST_CPUS}",
                self.cpus
            );
        };
        log::line(format_args!(
            "pstore: {strategy}: {} bytes, {} records, {} ns",
            moved.bytes, moved.records, moved.ns
        ));
        moved
    }

    fn recover(&self, item: u16) {
        // SAFETY: as in `move_blocks`.
        let region = unsafe { region() };
        recover(&region, self.cpus, |found| {
            report::tell(item, JobResult::Recovered(found));
        });
    }
}

/// Saves the log of a crashing kernel in persistent RAM, once.
pub fn last_words() {
    let place = PLACE.try_lock().and_then(|mut place| place.take());
    let Some(Place(start)) = place else { return };
    // SAFETY: the logs' part of the region is mapped RAM that holds nothing else (`REGION`).
    // Only this function uses it, except the traces behind it, and `PLACE` allows one call.
    let memory = unsafe { Ram::new(start, LOGS) };
    if let Some(mut logs) = Logs::open(memory) {
        log::with(|now, log| {
            logs.panic(now, log);
            logs.print(log);
        });
        // SAFETY: the same bytes.
        unsafe { arch::clean(start, LOGS) };
    }
}

/// Returns the whole region.
///
/// # Safety
///
/// Nothing else may use any of it. Jobs run one after the other, and a crashing kernel, which
/// uses the logs' part, does not continue with them.
unsafe fn region() -> Ram<'static> {
    let (start, len) = match arch::persistent_ram(REGION) {
        Ok(ram) => ram,
        Err(why) => panic!("{why}"),
    };
    // SAFETY: mapped RAM that holds nothing else (`REGION`); the caller guarantees the rest.
    unsafe { Ram::new(start, len) }
}

impl Sleep for PstoreCrew<'_> {
    fn sleep(&self, ready: &dyn Fn() -> bool) {
        // Some milliseconds at a time, because the neighbour may have given up.
        cpu::park(self.clock.now() + cpu::TICK, || ready().then_some(()));
    }

    fn wake_others(&self) {
        cpu::unpark(0..self.cpus.into());
    }
}

impl Crew for PstoreCrew<'_> {
    type Lock = SpinMutex<()>;

    fn each<T: Send, R: Send>(&self, parts: [T; 3], run: impl Fn(T) -> R + Sync) -> [R; 3] {
        let parts = parts.map(|part| Mutex::new(Some(part)));
        let results = [const { Mutex::new(None) }; 3];
        let errand = |cpu: usize| {
            let part = parts[cpu].lock().take();
            *results[cpu].lock() = part.map(&run);
        };
        other_cpus::together(3, &errand, self.clock, BOUND);
        results.map(|result| result.into_inner().expect("each has done its errand"))
    }
}

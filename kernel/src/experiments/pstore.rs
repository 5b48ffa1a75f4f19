//! Persistent RAM: recording function entries there, dying, and recovering.

use core::ptr::NonNull;

use nostall_io::{Clock, Nanos};
use nostall_pstore::Ram;
use nostall_work::pstore::{
    Crew, FEWEST_CPUS, Job, LOGS, Logs, MOST_CPUS, Moved, Pipes, Sleep, Strategy, Told, measure,
    recover,
};
use spin::Mutex;
use spin::mutex::SpinMutex;

use crate::arch::{self, MachineClock};
use crate::{cpu, crew, log, report};

/// Longer than a stage waits for its neighbours, of which there are two.
const BOUND: Nanos = Nanos::from_secs(15);

static PIPES: Pipes = Pipes::new();

/// Where a kernel that dies leaves its log, if this machine has such a place, and it has
/// not done so.
static PLACE: Mutex<Option<Place>> = Mutex::new(None);

struct Place(NonNull<u8>);

// SAFETY: an address, the same on all CPUs. Who has the memory there, see `last_words`.
unsafe impl Send for Place {}

/// From now on a kernel that dies leaves its log.
pub fn start() {
    let ram = arch::persistent_ram().ok();
    *PLACE.lock() = ram.map(|(start, _)| Place(start));
}

/// The CPUs whose functions are recorded, and their clock.
pub struct PstoreCrew<'a> {
    pub cpus: u16,
    pub clock: &'a MachineClock,
}

impl PstoreCrew<'_> {
    /// Does one job of the list, the `item`th.
    pub fn run(&self, job: Job, item: u16) {
        match job {
            Job::Move(strategy) => {
                let moved = self.move_blocks(strategy);
                report::tell(item, Told::Moved(moved));
            }
            Job::Crash => {
                self.move_blocks(Strategy::PerCpuClock);
                self.recover(item);
                panic!("on purpose, with the traces of {} CPUs", self.cpus);
            }
            Job::Recover => self.recover(item),
        }
    }

    fn move_blocks(&self, strategy: Strategy) -> Moved {
        // SAFETY: the jobs before this one are done with it.
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
            report::tell(item, Told::Recovered(found));
        });
    }
}

/// Leaves the log in persistent RAM, because the kernel dies. Once.
pub fn last_words() {
    let place = PLACE.try_lock().and_then(|mut place| place.take());
    let Some(Place(start)) = place else { return };
    // SAFETY: the logs' part of the region, mapped RAM in which nothing else lies
    // (`REGION`). But for the traces behind it nobody has any of it but who comes here,
    // which is once.
    let memory = unsafe { Ram::new(start, LOGS) };
    if let Some(mut logs) = Logs::open(memory) {
        log::with(|now, log| {
            logs.panic(now, log);
            logs.print(log);
        });
    }
}

/// All of it.
///
/// # Safety
///
/// Nothing else has any of it any more: jobs run one after the other, and a kernel that
/// dies, which has the logs' part of it, does not go on with them.
unsafe fn region() -> Ram<'static> {
    let (start, len) = match arch::persistent_ram() {
        Ok(ram) => ram,
        Err(why) => panic!("{why}"),
    };
    // SAFETY: mapped RAM in which nothing else lies (`REGION`), and the caller's.
    unsafe { Ram::new(start, len) }
}

impl Sleep for PstoreCrew<'_> {
    fn sleep(&self, ready: &dyn Fn() -> bool) {
        // For some milliseconds: its neighbour may have given up.
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
        crew::together(3, &errand, self.clock, BOUND);
        results.map(|result| result.into_inner().expect("each has done its errand"))
    }
}

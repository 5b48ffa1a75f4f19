//! Persistent RAM: recording function entries there, dying, and recovering.

use nostall_io::Nanos;
use nostall_pstore::Ram;
use nostall_work::Report;
use nostall_work::pstore::{
    Crew, FEWEST_CPUS, Job, Logs, MOST_CPUS, Moved, Pipes, Sleep, Strategy, measure, recover,
};
use spin::Mutex;
use spin::mutex::SpinMutex;

use crate::arch::{self, MachineClock};
use crate::{crew, log, report};

/// Longer than a stage waits for its neighbours, of which there are two.
const BOUND: Nanos = Nanos::from_secs(15);

static PIPES: Pipes = Pipes::new();

/// Where this kernel writes what it has printed, and its log, when it dies; once it
/// has been told to.
static LOGS: Mutex<Option<Logs<'static>>> = Mutex::new(None);

/// The CPUs whose functions are recorded, and their clock.
pub struct Machine<'a> {
    pub cpus: u16,
    pub clock: &'a MachineClock,
}

impl Machine<'_> {
    /// Does one job of the list, the `item`th.
    pub fn run(&self, job: Job, item: u16) {
        match job {
            Job::Move(strategy) => {
                let moved = self.move_blocks(strategy);
                report::send(&Report::Moved { item, moved });
            }
            Job::Crash => {
                self.move_blocks(Strategy::PerCpuClock);
                self.recover();
                // SAFETY: the last job; the two above are done with it.
                let region = unsafe { region() };
                *LOGS.lock() = Logs::open(region, self.cpus);
                panic!("on purpose, with the traces of {} CPUs", self.cpus);
            }
            Job::Recover => self.recover(),
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

    fn recover(&self) {
        // SAFETY: as in `move_blocks`.
        let region = unsafe { region() };
        recover(&region, self.cpus, |found| {
            report::send(&Report::Recovered(found));
        });
    }
}

/// What a dying kernel does first of all. Not twice: who dies in here keeps what
/// there is.
pub fn last_words() {
    let Some(mut logs) = LOGS.try_lock() else {
        return;
    };
    if let Some(logs) = &mut *logs {
        log::with(|now, log| {
            logs.print(log);
            logs.panic(now, log);
        });
    }
}

/// All of it.
///
/// # Safety
///
/// Nothing else has any of it any more: jobs run one after the other, and only the
/// last one, which ends the machine, leaves a part in [`LOGS`].
unsafe fn region() -> Ram<'static> {
    let (start, len) = arch::persistent_ram();
    // SAFETY: mapped RAM in which nothing else lies (`REGION`), and the caller's.
    unsafe { Ram::new(start, len) }
}

impl Sleep for Machine<'_> {
    fn sleep(&self, ready: &dyn Fn() -> bool) {
        arch::sleep_unless(|| ready().then_some(()));
    }

    fn wake_others(&self) {
        arch::wake_others();
    }
}

impl Crew for Machine<'_> {
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

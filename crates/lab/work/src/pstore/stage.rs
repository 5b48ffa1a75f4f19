//! The three stages and their results.

use lock_api::RawMutex;
use nostall_io::{Clock, Nanos};
use serde::{Deserialize, Serialize};

use super::calls::{File, GaveUp, Sleep, Task, Tracer};
use super::pipe::{BLOCK, Pipe};

/// Function entries for one block through all stages.
pub const ENTRIES_PER_BLOCK: u64 = 15 + 16 + 14;

/// Stage of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// `dd if=/dev/zero`.
    Reader,
    /// `pv`.
    Passer,
    /// `dd of=/dev/null`.
    Writer,
}

impl Stage {
    /// All stages, in the order of the data.
    pub const ALL: [Self; 3] = [Self::Reader, Self::Passer, Self::Writer];

    /// Returns the number of function entries for one block in this stage.
    pub const fn entries_per_block(self) -> u64 {
        match self {
            Self::Reader => 15,
            Self::Passer => 16,
            Self::Writer => 14,
        }
    }
}

/// CPUs that run the stages.
pub trait Crew: Sleep + Sync {
    /// Lock between the CPUs.
    type Lock: RawMutex + Send + Sync;

    /// Calls `run` with each part concurrently, each on its own CPU. Returns when all calls are
    /// done.
    fn each<T: Send, R: Send>(&self, parts: [T; 3], run: impl Fn(T) -> R + Sync) -> [R; 3];
}

/// The pipes between the stages.
pub struct Pipes([Pipe; 2]);

/// Result of one stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageRun {
    /// Start time, on the stage's clock.
    pub start: Nanos,
    /// End time, on the stage's clock.
    pub end: Nanos,
    /// Number of bytes that it passed on.
    pub bytes: u64,
}

/// Combined result of all stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Number of bytes that passed all stages.
    pub bytes: u64,
    /// Number of records.
    pub records: u64,
    /// Time from the first stage's start to the last stage's end, in nanoseconds.
    pub ns: u64,
}

impl Moved {
    /// Combines the results of the stages, which wrote `records` records in all.
    pub fn by(stages: &[StageRun], records: u64) -> Self {
        let start = stages.iter().map(|ran| ran.start).min();
        let end = stages.iter().map(|ran| ran.end).max();
        let bytes = stages.iter().map(|ran| ran.bytes).min();
        Self {
            bytes: bytes.unwrap_or(0),
            records,
            ns: (end.unwrap_or_default() - start.unwrap_or_default()).0,
        }
    }
}

impl Pipes {
    /// Creates both pipes, empty.
    #[expect(clippy::new_without_default, reason = "128 KiB belong in a static")]
    pub const fn new() -> Self {
        Self([const { Pipe::new() }; 2])
    }

    /// Empties both pipes. No stage may run meanwhile.
    pub fn clear(&self) {
        self.0.iter().for_each(Pipe::clear);
    }

    /// Runs one stage on the calling CPU until it has moved `blocks` blocks, or a neighbour has not
    /// moved for five seconds.
    pub fn run(
        &self,
        stage: Stage,
        blocks: u32,
        trace: impl Tracer,
        clock: impl Clock,
        sleep: impl Sleep,
    ) -> StageRun {
        let [first, second] = &self.0;
        let (from, to) = match stage {
            Stage::Reader => (File::Zero, File::Pipe(first)),
            Stage::Passer => (File::Pipe(first), File::Pipe(second)),
            Stage::Writer => (File::Pipe(second), File::Null),
        };
        let start = clock.now();
        let mut task = Task::new(trace, &clock, &sleep);
        // An error only shows in the number of bytes.
        let _ = pass_on(&mut task, from, to, blocks);
        // The last blocks may be too few to wake a sleeper.
        sleep.wake_others();
        StageRun {
            start,
            end: clock.now(),
            bytes: task.written,
        }
    }
}

/// Runs the loop of the user's program.
#[inline(never)]
fn pass_on<T: Tracer, C: Clock, S: Sleep>(
    task: &mut Task<T, C, S>,
    from: File<'_>,
    to: File<'_>,
    blocks: u32,
) -> Result<(), GaveUp> {
    let me = pass_on::<T, C, S> as *const ();
    // Initial values that a block must overwrite.
    let mut block = [usize::MAX; BLOCK / size_of::<usize>()];
    for _ in 0..blocks {
        task.sys_read(me, from, &mut block)?;
        task.sys_write(me, to, &block)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use core::cell::Cell;
    use nostall_devices::VirtualClock;
    use nostall_io::HostClock;
    use std::boxed::Box;
    use std::thread;

    #[derive(Default)]
    struct Count(u64);

    impl Tracer for Count {
        fn record(&mut self, ip: u64, parent: u64) {
            assert!(ip != 0 && parent != 0 && ip != parent);
            self.0 += 1;
        }
    }

    /// A sleep that only lets some time pass.
    struct Looking<C>(C);

    impl<C: Clock> Sleep for Looking<C> {
        fn sleep(&self, ready: &dyn Fn() -> bool) {
            if !ready() {
                self.0.sleep_until(self.0.now() + Nanos::from_millis(1));
            }
        }

        fn wake_others(&self) {}
    }

    #[test]
    fn every_block_passes_all_stages_and_every_entry_is_recorded() {
        const BLOCKS: u32 = 1_000;
        let pipes = Box::new(Pipes::new());
        let clock = HostClock::new();
        let ran = thread::scope(|scope| {
            let threads = Stage::ALL.map(|stage| {
                let pipes = &pipes;
                scope.spawn(move || {
                    let mut count = Count::default();
                    let ran = pipes.run(stage, BLOCKS, &mut count, clock, Looking(clock));
                    let expected = u64::from(BLOCKS) * stage.entries_per_block();
                    assert_eq!(count.0, expected, "{stage:?}");
                    ran
                })
            });
            threads.map(|thread| thread.join().unwrap())
        });
        let entries: u64 = Stage::ALL.map(Stage::entries_per_block).iter().sum();
        assert_eq!(entries, ENTRIES_PER_BLOCK);
        let moved = Moved::by(&ran, 45_000);
        assert_eq!((moved.bytes, moved.records), (512_000, 45_000));
        assert!(moved.ns > 0);
    }

    #[test]
    fn a_stage_gives_up_if_its_neighbour_does_not_move() {
        let pipes = Box::new(Pipes::new());
        let clock = VirtualClock::default();
        let alone = |stage| pipes.run(stage, 1_000, (), &clock, Looking(&clock)).bytes;
        assert_eq!(alone(Stage::Writer), 0);
        assert_eq!(alone(Stage::Reader), 64 << 10, "a pipe's fill");
        pipes.clear();
        assert_eq!(alone(Stage::Passer), 0);
    }

    #[test]
    fn a_stage_gives_up_on_its_neighbour_with_any_clock() {
        /// A clock whose readings are a function of their number.
        struct Bad(Cell<u64>, fn(u64) -> u64);

        impl Clock for Bad {
            fn now(&self) -> Nanos {
                self.0.set(self.0.get() + 1);
                Nanos((self.1)(self.0.get()))
            }
        }

        struct Spurious;

        impl Sleep for Spurious {
            fn sleep(&self, _: &dyn Fn() -> bool) {}

            fn wake_others(&self) {}
        }

        const HOUR: u64 = Nanos::from_secs(3_600).0;
        let clocks: [fn(u64) -> u64; 3] = [
            |_| HOUR,
            |reading| {
                if reading <= 2 {
                    2 * HOUR
                } else {
                    HOUR + reading
                }
            },
            |reading| reading * HOUR,
        ];
        for clock in clocks {
            let clock = Bad(Cell::new(0), clock);
            let pipes = Box::new(Pipes::new());
            let ran = pipes.run(Stage::Passer, 1, (), &clock, Spurious);
            assert_eq!(ran.bytes, 0);
        }
    }
}

//! Two tasks and a worker: threads of this process.

use std::fs;
use std::panic::resume_unwind;
use std::thread;

use nostall_io::Nanos;
use nostall_spi::{Capabilities, Controller, Fault, Level, Progress, Threads, Wire, Words};
use nostall_work::spi::{CanBus, CanMachine, Counted};
use rustix::time::{ClockId, clock_gettime};

/// Threads of the host, and a controller without wires.
pub(super) struct Host;

impl CanMachine for Host {
    type Controller = NoWires;
    type Platform = Threads;

    fn controller(&self) -> NoWires {
        NoWires {
            clock: 1,
            under_way: false,
        }
    }

    fn platform(&self) -> Threads {
        Threads::new()
    }

    fn run(
        &self,
        bus: &CanBus<Self>,
        tasks: [&(dyn Fn() + Sync); 2],
        rest: &(dyn Fn() + Sync),
    ) -> Counted {
        let platform = bus.platform();
        thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let before = Usage::of_this_thread();
                Threads::serve(bus).expect("the bus has no other worker");
                Usage::of_this_thread().since(before)
            });
            while !platform.serves() {
                thread::yield_now();
            }
            let tasks = tasks.map(|task| {
                scope.spawn(move || {
                    let before = Usage::of_this_thread();
                    task();
                    Usage::of_this_thread().since(before)
                })
            });
            let ended = tasks.map(thread::ScopedJoinHandle::join);
            rest();
            // The worker ends here alone, also after a task that panicked.
            platform.stop();
            let worker = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
            let mut switches = worker.switches;
            for task in ended {
                let task = task.unwrap_or_else(|panic| resume_unwind(panic));
                switches = switches.zip(task.switches).map(|(sum, one)| sum + one);
            }
            Counted {
                switches,
                // The system counts them for all processes together.
                cross_cpu: None,
                interrupts: None,
                worker: worker.cpu,
            }
        })
    }
}

/// Resources that a thread has used.
#[derive(Clone, Copy)]
struct Usage {
    /// Times that it was taken off a CPU, or left it.
    switches: Option<u64>,
    cpu: Nanos,
}

impl Usage {
    fn of_this_thread() -> Self {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Self {
            switches: switches(),
            cpu: Nanos::from_secs(time.tv_sec as u64) + Nanos(time.tv_nsec as u64),
        }
    }

    fn since(self, before: Self) -> Self {
        let both = self.switches.zip(before.switches);
        Self {
            switches: both.map(|(now, before)| now.saturating_sub(before)),
            cpu: self.cpu - before.cpu,
        }
    }
}

/// `voluntary_ctxt_switches` and `nonvoluntary_ctxt_switches` (proc_pid_status(5)).
fn switches() -> Option<u64> {
    let status = fs::read_to_string("/proc/thread-self/status").ok()?;
    let counts = status.lines().filter_map(|line| {
        let (name, count) = line.split_once(':')?;
        name.ends_with("voluntary_ctxt_switches")
            .then(|| count.trim().parse::<u64>().ok())
    });
    counts
        .collect::<Option<Vec<_>>>()
        .map(|all| all.iter().sum())
}

/// A controller without wires: every transfer takes as long as its clock says, and the
/// CPU waits for it, as drivers do for short ones.
#[derive(Debug)]
pub(super) struct NoWires {
    /// Hertz.
    clock: u32,
    under_way: bool,
}

impl Controller for NoWires {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all(0)
    }

    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        self.clock = wire.clock.max(1);
        Ok(self.clock)
    }

    fn select(&mut self, _: Level) -> Result<(), Fault> {
        Ok(())
    }

    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        self.under_way = !self.under_way;
        if self.under_way {
            let bits = words.total() as u64 * u64::from(words.word().bits());
            let time = Nanos::from_secs(bits) / u64::from(self.clock);
            return Ok(Progress::After(time));
        }
        words.complete();
        Ok(Progress::Done)
    }

    fn abort(&mut self) -> Result<(), Fault> {
        self.under_way = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_thread_that_sleeps_is_switched_from() {
        let before = Usage::of_this_thread();
        thread::sleep(Duration::from_millis(1));
        let slept = Usage::of_this_thread().since(before);
        if let Some(switches) = slept.switches {
            assert!(switches > 0);
        }
        assert!(slept.cpu < Nanos::from_secs(1));
    }
}

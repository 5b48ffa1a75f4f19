//! SPI jobs on this machine's controllers.

mod cpus;

use core::sync::atomic::{AtomicBool, Ordering};

use nostall_io::{Nanos, Processor};
use nostall_spi::{Bus, Platform};
use nostall_work::spi::{CanBus, Counted, Job, JobResult, can, flash};
use nostall_work::{Timer, text};

use crate::arch::spi::{Controller, Found, find};
use crate::arch::{self, Cpu, MachineClock, while_handled};
use crate::{cpu, other_cpus, report};
use cpus::Cpus;

/// Name of a flash in the device tree (Linux's bindings).
const FLASH: &str = "jedec,spi-nor";

/// CPUs of the experiment: two tasks and the worker.
const RECEIVER: usize = 0;
const TRANSMITTER: usize = 1;
const WORKER: usize = 2;

/// Bound on the wait for the other CPUs at the end of a job.
const BOUND: Nanos = Nanos::from_secs(15);

/// The started CPUs, and their clock.
pub struct SpiJobs<'a> {
    pub cpus: u16,
    pub timer: Timer,
    pub clock: &'a MachineClock,
}

impl SpiJobs<'_> {
    /// Runs one job of the list, number `item`.
    ///
    /// Not inlined, so that other jobs do not need its stack space.
    #[inline(never)]
    pub fn run(&self, job: Job, item: u16) {
        assert!(
            self.timer == Timer::PerCpu,
            "spi: without a timer, a CPU's sleep does not end"
        );
        let mut tell = |result| report::tell(item, result);
        match job {
            Job::Flash => self.with_bus(|bus| flash(bus, 0, &mut tell)),
            Job::Can { strategy, frames } => {
                assert!(
                    usize::from(self.cpus) > WORKER,
                    "{} CPUs: spi:can runs on {} and more",
                    self.cpus,
                    WORKER + 1
                );
                let machine = Experiment {
                    found: find(FLASH),
                    clock: self.clock,
                };
                match can(&machine, strategy, frames) {
                    Ok(measured) => tell(JobResult::Can(measured)),
                    Err(failed) => tell(JobResult::Fault(text(format_args!("{failed}")))),
                }
            }
        }
    }

    /// Runs `run` with a bus for this CPU alone.
    fn with_bus(&self, run: impl FnOnce(&Bus<Controller, Cpus>)) {
        let found = find(FLASH);
        let platform = Cpus::new(*self.clock, Cpu.id());
        let bus = Bus::new(found.controller(), platform);
        interrupted(&found, &|| bus.on_interrupt(), || run(&bus));
    }
}

/// Calls `handler` for each interrupt of the controller while `body` runs.
fn interrupted(found: &Found, handler: &(dyn Fn() + Sync), body: impl FnOnce()) {
    let Some(interrupt) = found.interrupt else {
        return body();
    };
    let handler = || {
        found.mask();
        handler();
    };
    while_handled(interrupt, &handler, body);
}

/// State of the experiment.
struct Experiment<'a> {
    found: Found,
    clock: &'a MachineClock,
}

impl nostall_work::spi::CanMachine for Experiment<'_> {
    type Controller = Controller;
    type Platform = Cpus;

    fn controller(&self) -> Controller {
        self.found.controller()
    }

    fn platform(&self) -> Cpus {
        Cpus::new(*self.clock, WORKER)
    }

    fn run(
        &self,
        bus: &CanBus<Self>,
        tasks: [&(dyn Fn() + Sync); 2],
        rest: &(dyn Fn() + Sync),
    ) -> Counted {
        let platform = bus.platform();
        let [receive, transmit] = tasks;
        let transmitted = AtomicBool::new(false);
        let counted = spin::Mutex::new(Counted::default());
        let errand = |cpu: usize| match cpu {
            RECEIVER => {
                while !platform.serves() {
                    Cpu.relax();
                }
                let before = Counts::now();
                receive();
                while !transmitted.load(Ordering::Acquire) {
                    platform.block(Nanos(u64::MAX));
                }
                *counted.lock() = before.until(&Counts::now());
                rest();
                platform.stop();
            }
            TRANSMITTER => {
                while !platform.serves() {
                    Cpu.relax();
                }
                transmit();
                transmitted.store(true, Ordering::Release);
                cpus::wake(RECEIVER);
            }
            _ => Cpus::serve(bus),
        };
        interrupted(&self.found, &|| bus.on_interrupt(), || {
            other_cpus::together(WORKER as u16 + 1, &errand, self.clock, BOUND)
        });
        Counted {
            worker: platform.busy(),
            ..counted.into_inner()
        }
    }
}

/// Counters of all CPUs.
struct Counts {
    sleeps: u64,
    interrupts: u64,
    wakes: u64,
}

impl Counts {
    fn now() -> Self {
        let (interrupts, wakes) = arch::interrupts();
        Self {
            sleeps: cpu::sleeps(),
            interrupts,
            wakes,
        }
    }

    fn until(&self, later: &Self) -> Counted {
        Counted {
            switches: Some(later.sleeps - self.sleeps),
            cross_cpu: Some(later.wakes - self.wakes),
            interrupts: Some(later.interrupts - self.interrupts),
            worker: Nanos::ZERO,
        }
    }
}

//! Runs the flood: on the model here, and in QEMU with [`guest`].

use std::ffi::OsString;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use nostall_devices::uart::Profile;
use nostall_io::Nanos;
use nostall_uart::LineSettings;
use nostall_vm::Machine;
use nostall_vm::qemu::Architecture;
use nostall_work::console::PrintStrategy;

use super::guest;
use super::input::Log;
use super::model::{Failure, run};
use super::outcome::{FloodPair, FloodPlan, RATE};
use crate::experiments::on::On;
use nostall_figures::table::host_cpus;

/// All floods of the experiment.
pub struct Floods {
    pub log: Log,
    pub cpus: usize,
    pub rate: u32,
    pub panic_at: Nanos,
    pub setup: Setup,
    /// The floods of each profile and strategy.
    pub runs: Vec<FloodPair>,
}

/// The machine.
pub enum Setup {
    /// Virtual time: exact.
    Model,
    /// Real time, and so only a part of the log.
    Qemu {
        /// The machine in words.
        name: String,
        /// One line in this many is logged, and as many times as soon.
        part: u32,
        /// Whether a CPU that has masked interrupts can be interrupted.
        has_nmi: bool,
        /// Divisor of the detectors' thresholds.
        speedup: u32,
    },
}

impl Setup {
    /// The stable word for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Qemu { .. } => "qemu",
        }
    }

    /// Divisor of the detectors' thresholds.
    pub const fn speedup(&self) -> u32 {
        match self {
            Self::Model => 1,
            Self::Qemu { speedup, .. } => *speedup,
        }
    }
}

impl Floods {
    /// The runs of each profile.
    pub fn profiles(&self) -> impl Iterator<Item = &[FloodPair]> {
        self.runs
            .chunk_by(|one, next| one.profile.name == next.profile.name)
    }
}

/// The arguments of the experiment.
pub struct ConsoleArgs<'a> {
    pub cpus: u16,
    /// The port, if one is named.
    pub profile: Option<Profile>,
    /// Rate of the line in baud, if one is named.
    pub rate: Option<u32>,
    /// Time of the panic, if one is given.
    pub panic_at: Option<Nanos>,
    pub qemu_args: &'a [OsString],
}

impl ConsoleArgs<'_> {
    /// The ports to measure on the model.
    fn profiles(&self) -> Vec<Profile> {
        match (self.profile, self.rate) {
            (Some(profile), _) => vec![profile],
            // The other port's speed does not depend on its rate.
            (None, Some(_)) => vec![Profile::PC_16550A],
            (None, None) => vec![Profile::PC_16550A, Profile::HP_DL380_GEN9],
        }
    }
}

/// Measures `log` on `on`.
pub fn measure(on: &On, args: &ConsoleArgs<'_>, mut log: Log) -> Result<Floods> {
    let rate = args.rate.unwrap_or(RATE);
    let cpus = usize::from(args.cpus);
    // Where time is real, one port.
    let profile = args.profile.unwrap_or(Profile::PC_16550A);
    let setup = match on {
        On::Qemu { qemu, .. } => {
            let part = guest::part(&log, &profile, rate);
            log = log.one_line_in(part);
            Setup::Qemu {
                name: qemu.describe(),
                part,
                has_nmi: qemu.board().architecture() == Architecture::X86_64,
                speedup: guest::speedup(part, &profile, rate, cpus),
            }
        }
        _ => Setup::Model,
    };
    let frame = LineSettings::baud(rate).frame_time();
    let panic_at = args.panic_at.unwrap_or_else(|| log.middle(frame));
    let runs = match (on, &setup) {
        (On::Qemu { qemu, kernel }, Setup::Qemu { speedup, .. }) => {
            let plan = FloodPlan {
                log: &log.bytes,
                profile,
                rate,
                cpus,
                panic_at: Some(panic_at),
            };
            guest::run_all(qemu, kernel, args.qemu_args, plan, *speedup)?
        }
        _ => run_all(&log, &args.profiles(), rate, cpus, panic_at)?,
    };
    Ok(Floods {
        log,
        cpus,
        rate,
        panic_at,
        setup,
        runs,
    })
}

/// Runs each flood as a job of its own, on as many threads as the host has CPUs. The longest
/// ones begin first: those of the slowest port, which comes last, and among them `bounded`,
/// which computes most.
fn run_all(
    log: &Log,
    profiles: &[Profile],
    rate: u32,
    cpus: usize,
    panic_at: Nanos,
) -> Result<Vec<FloodPair>> {
    let mut jobs = Vec::new();
    for &profile in profiles {
        for strategy in PrintStrategy::ALL {
            for panic_at in [None, Some(panic_at)] {
                let plan = FloodPlan {
                    log: &log.bytes,
                    profile,
                    rate,
                    cpus,
                    panic_at,
                };
                jobs.push((plan, strategy));
            }
        }
    }
    let next = AtomicUsize::new(0);
    let done: Vec<_> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let workers = host_cpus();
    thread::scope(|scope| {
        for _ in 0..workers.min(jobs.len()) {
            scope.spawn(|| {
                while let Some((job, done)) = {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    jobs.iter().zip(&done).rev().nth(n)
                } {
                    let outcome = run(&job.0, job.1);
                    *done.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
                }
            });
        }
    });
    let mut outcomes = done.into_iter().zip(&jobs).map(|(done, job)| {
        let outcome = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        outcome.unwrap_or(Err(Failure::Deadlock(job.1)))
    });
    let mut runs = Vec::new();
    for (plan, strategy) in jobs.iter().step_by(2) {
        let mut outcome = || outcomes.next().unwrap_or(Err(Failure::Deadlock(*strategy)));
        runs.push(FloodPair {
            profile: plan.profile,
            strategy: *strategy,
            whole: outcome()?,
            panicked: outcome()?,
        });
    }
    Ok(runs)
}

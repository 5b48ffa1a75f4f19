//! Runs the flood: on the model here, in QEMU using [`guest`].

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
use nostall_work::console::Strategy;

use super::guest;
use super::input::Log;
use super::measured::{Measured, RATE, Run, Setup};
use super::model::{Experiment, Failure, run};
use crate::experiments::on::On;
use crate::experiments::table::host_cpus;

/// What is to be measured.
pub struct Plan<'a> {
    pub cpus: u16,
    /// The port, if one is named.
    pub profile: Option<Profile>,
    /// Rate of the line in baud, if one is named.
    pub rate: Option<u32>,
    /// When a CPU panics, if that is said.
    pub panic_at: Option<Nanos>,
    pub qemu_args: &'a [OsString],
}

impl Plan<'_> {
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
pub fn measure(on: &On, plan: &Plan<'_>, mut log: Log) -> Result<Measured> {
    let rate = plan.rate.unwrap_or(RATE);
    let cpus = usize::from(plan.cpus);
    // Where time is real, one port.
    let profile = plan.profile.unwrap_or(Profile::PC_16550A);
    let setup = match on {
        On::Qemu { qemu, .. } => {
            let part = guest::part(&log, &profile, rate);
            log = log.one_line_in(part);
            Setup::Qemu {
                name: qemu.describe(),
                part,
                has_nmi: qemu.board().architecture() == Architecture::X86_64,
                haste: guest::haste(part, &profile, rate, cpus),
            }
        }
        _ => Setup::Model,
    };
    let frame = LineSettings::baud(rate).frame_time();
    let panic_at = plan.panic_at.unwrap_or_else(|| log.middle(frame));
    let runs = match (on, &setup) {
        (On::Qemu { qemu, kernel }, Setup::Qemu { haste, .. }) => {
            let experiment = Experiment {
                log: &log.bytes,
                profile,
                rate,
                cpus,
                panic_at: Some(panic_at),
            };
            guest::run_all(qemu, kernel, plan.qemu_args, experiment, *haste)?
        }
        _ => run_all(&log, &plan.profiles(), rate, cpus, panic_at)?,
    };
    Ok(Measured {
        log,
        cpus,
        rate,
        panic_at,
        setup,
        runs,
    })
}

/// Each as a job of its own, on as many threads as the host has CPUs. What takes longest
/// is begun first: the slowest port, which comes last, and on it `bounded`, which has the
/// most to compute.
fn run_all(
    log: &Log,
    profiles: &[Profile],
    rate: u32,
    cpus: usize,
    panic_at: Nanos,
) -> Result<Vec<Run>> {
    let mut jobs = Vec::new();
    for &profile in profiles {
        for strategy in Strategy::ALL {
            for panic_at in [None, Some(panic_at)] {
                let experiment = Experiment {
                    log: &log.bytes,
                    profile,
                    rate,
                    cpus,
                    panic_at,
                };
                jobs.push((experiment, strategy));
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
    for (experiment, strategy) in jobs.iter().step_by(2) {
        let mut outcome = || outcomes.next().unwrap_or(Err(Failure::Deadlock(*strategy)));
        runs.push(Run {
            profile: experiment.profile,
            strategy: *strategy,
            whole: outcome()?,
            panicked: outcome()?,
        });
    }
    Ok(runs)
}

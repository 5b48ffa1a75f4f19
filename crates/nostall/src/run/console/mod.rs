//! `nostall run console`: a flood of messages on a slow serial console.

mod figures;
mod guest;
mod input;
mod picture;
mod table;
mod verdict;

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use nostall_devices::uart::{Line, Profile};
use nostall_io::Nanos;
use nostall_uart::LineSettings;
use nostall_vm::console::{Experiment, Failure, Outcome, run};
use nostall_vm::qemu::Architecture;
use nostall_work::console::Strategy;

use super::on::On;
use super::{Answer, Args, OnArg};
use input::Log;

/// If not told otherwise.
const CPUS: u16 = 4;

/// Likewise; in baud.
const RATE: u32 = 115_200;

/// A slower line does not bring a panic's text in the time that a panic may take.
const SLOWEST: u32 = 300;

/// What came of it.
struct Measured {
    log: Log,
    cpus: usize,
    rate: u32,
    panic_at: Nanos,
    machine: Machine,
    /// Of each profile and strategy.
    runs: Vec<Run>,
}

/// What the CPUs are.
enum Machine {
    /// In virtual time: exact.
    Model,
    /// In real time, and so of a part of the log.
    Qemu {
        /// In words.
        name: String,
        /// One line in so many, and as many times as soon.
        part: u32,
        /// Whether a CPU that has masked interrupts can be interrupted.
        has_nmi: bool,
        /// The detectors' thresholds are divided by it.
        haste: u32,
    },
}

impl Machine {
    /// The stable word for it.
    const fn name(&self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Qemu { .. } => "qemu",
        }
    }

    /// The detectors' thresholds are divided by it.
    const fn haste(&self) -> u32 {
        match self {
            Self::Model => 1,
            Self::Qemu { haste, .. } => *haste,
        }
    }
}

/// A flood by one strategy on one port.
struct Run {
    profile: Profile,
    strategy: Strategy,
    /// To its end.
    whole: Outcome,
    /// Cut short by a panic.
    panicked: Outcome,
}

impl Run {
    /// Records that were left when a panic was over.
    fn unsent(&self) -> u64 {
        let panicked = &self.panicked;
        panicked.checked.missing.saturating_sub(panicked.lost)
    }
}

impl Measured {
    /// The runs of each profile.
    fn profiles(&self) -> impl Iterator<Item = &[Run]> {
        self.runs
            .chunk_by(|one, next| one.profile.name == next.profile.name)
    }
}

/// The arguments' mistakes.
pub fn check(args: &Args) -> Result<()> {
    ensure!(
        matches!(args.on, OnArg::Auto | OnArg::Model | OnArg::Qemu),
        "the path console runs on the model and in QEMU: leave out --on, or give --on model \
         or --on qemu"
    );
    if args.on == OnArg::Qemu {
        guest::check(args)?;
    }
    ensure!(args.bytes.is_none(), "--bytes goes with the path uart");
    if let (Some(_), Some(profile)) = (args.rate, args.profile) {
        ensure!(
            profile.line == Line::Baud,
            "--rate has no meaning with --profile {}, whose speed is its own",
            profile.name
        );
    }
    let rate = args.rate.unwrap_or(RATE);
    ensure!(
        rate >= SLOWEST,
        "--rate {rate}: {SLOWEST} at least, or the text of a panic takes longer than a panic may"
    );
    LineSettings::baud(rate)
        .divisor()
        .map_err(|error| anyhow!("--rate: {error}"))?;
    Ok(())
}

/// The ports that are asked for.
fn profiles(args: &Args) -> Vec<Profile> {
    match (args.profile, args.rate) {
        (Some(profile), _) => vec![profile],
        // The other's speed is not a matter of its rate.
        (None, Some(_)) => vec![Profile::PC_16550A],
        (None, None) => vec![Profile::PC_16550A, Profile::HP_DL380_GEN9],
    }
}

/// Runs all that the arguments ask for.
pub fn measure(args: &Args, on: &On) -> Result<Answer> {
    let mut log = input::read(args)?;
    let rate = args.rate.unwrap_or(RATE);
    let cpus = usize::from(args.cpus.unwrap_or(CPUS));
    // Where time is real, one port.
    let profile = args.profile.unwrap_or(Profile::PC_16550A);
    let machine = match on {
        On::Qemu { qemu, .. } if args.on == OnArg::Qemu => {
            let part = guest::part(&log, &profile, rate);
            log = log.one_line_in(part);
            Machine::Qemu {
                name: format!("qemu {}, {}", qemu.version(), qemu.machine()),
                part,
                has_nmi: qemu.machine().architecture() == Architecture::X86_64,
                haste: guest::haste(part, &profile, rate, cpus),
            }
        }
        _ => Machine::Model,
    };
    let frame = LineSettings::baud(rate).frame_time();
    let panic_at = args.panic_at.unwrap_or_else(|| log.middle(frame));
    let runs = match (on, &machine) {
        (On::Qemu { qemu, kernel }, Machine::Qemu { haste, .. }) => {
            let experiment = Experiment {
                log: &log.bytes,
                profile,
                rate,
                cpus,
                panic_at: Some(panic_at),
            };
            guest::run_all(qemu, kernel, &args.qemu_arg, experiment, *haste)?
        }
        _ => run_all(&log, &profiles(args), rate, cpus, panic_at)?,
    };
    let measured = Measured {
        log,
        cpus,
        rate,
        panic_at,
        machine,
        runs,
    };
    if let Some(file) = &args.report {
        fs::write(file, measured.picture())
            .with_context(|| format!("--report {}", file.display()))?;
    }
    let verdicts = measured.verdicts();
    let text = [
        measured.heading(),
        measured.tables(),
        measured.legend(),
        verdict::text(&verdicts),
    ];
    Ok(Answer {
        text: text.join("\n\n"),
        figures: measured.figures(),
        devices: None,
        files: None,
        failure: verdict::failure(&verdicts),
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
    let workers = thread::available_parallelism().map_or(1, usize::from);
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

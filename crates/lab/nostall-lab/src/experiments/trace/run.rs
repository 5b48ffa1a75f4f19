//! The sendings, the crash, and the next boot.

use nostall_trace::layout::LINE;
use nostall_uart::Strategy;
use nostall_vm::{Ending, Error, Guest, GuestRam, GuestRun, Limits, Machine, Report};
use nostall_work::trace::{CRASH, Job, JobResult, SIZES, part, recover};
use nostall_work::uart::Sent;

use crate::experiments::runner::{one_each, run_jobs};

/// MiB of the guest's RAM.
const RAM: u32 = 128;

/// One sending, and its trace.
#[derive(Clone, Debug)]
pub struct Sending {
    pub strategy: Strategy,
    pub bytes: u32,
    /// The sender's report.
    pub sent: Sent,
    /// Functions whose calls are recorded, besides the scopes that every kernel has.
    pub functions: u32,
    /// Functions that could not be patched.
    pub refused: u32,
    /// The region of the trace.
    pub trace: Vec<u8>,
}

/// Traces and messages of a crash.
#[derive(Clone, Debug)]
pub struct Crash {
    /// The region of the trace, from the crashed guest's RAM.
    pub trace: Vec<u8>,
    /// Records that the host reads there.
    pub host: Vec<JobResult>,
    /// Records that the next kernel on this RAM reads there.
    pub next_boot: Vec<JobResult>,
    /// The panic message.
    pub panic: String,
}

/// Results of the experiment.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub sendings: Vec<Sending>,
    /// Bytes of the sendings that arrived at the end of the line.
    pub arrived: u64,
    /// The crash; `None` on a machine without a guest.
    pub crash: Option<Crash>,
}

/// Number of bytes that a crashing guest sends last.
const LAST_WORDS: u64 = 32;

/// Runs the experiment on `machine` with `guest`, whose work and RAM are replaced.
///
/// # Errors
///
/// Returns the errors of [`Machine::run`] in either boot.
pub fn run(machine: &dyn Machine, guest: &Guest<'_>) -> Result<(Recorded, GuestRun), Error> {
    let jobs: Vec<_> = Job::sendings().collect();
    let with_crash = jobs.iter().copied().chain([Job::Crash]);
    let work: Vec<_> = with_crash.collect();
    let ram = GuestRam::new(RAM)?;
    let first = Guest {
        ram: Some(&ram),
        ..*guest
    };
    let bytes = SIZES.iter().sum::<u32>() as u64 * Strategy::ALL.len() as u64;
    let mut limits = Limits::of(1_000, bytes + LAST_WORDS);
    // A KVM that interprets guest code is slow at each access.
    limits.total *= 10;
    let ran = run_jobs(
        machine,
        &first,
        (&work, 1),
        &limits,
        Ending::Panic,
        &mut |_| {},
    )?;
    let trace = ram.read(CRASH)?;
    let again = (&[Job::Recover][..], 1);
    let next = run_jobs(machine, &first, again, &limits, Ending::Done, &mut |_| {})?;

    let mut sendings = Vec::new();
    let results = one_each(jobs.into_iter().enumerate(), ran.results()?)?;
    for (at, (job, result)) in (0..).zip(results) {
        let (
            Job::Send { strategy, bytes },
            JobResult::Sent {
                sent,
                functions,
                refused,
            },
        ) = (job, result)
        else {
            return Err(Error::Undone);
        };
        sendings.push(Sending {
            strategy,
            bytes,
            sent,
            functions,
            refused,
            trace: ram.read(part(at))?,
        });
    }
    let panic = match ran.reports.last() {
        Some(Report::Panic { message, .. }) => message.as_str().to_owned(),
        _ => return Err(Error::Unbroken),
    };
    let next_boot = next
        .results()?
        .into_iter()
        .map(|(_, result)| result)
        .collect();
    let crash = Crash {
        host: read(&trace),
        next_boot,
        panic,
        trace,
    };
    let recorded = Recorded {
        sendings,
        arrived: (ran.serial.len() as u64).saturating_sub(LAST_WORDS),
        crash: Some(crash),
    };
    Ok((recorded, ran))
}

/// Reads the trace of a crash.
pub fn read(trace: &[u8]) -> Vec<JobResult> {
    let mut result = Vec::new();
    recover(trace, |found| result.push(found));
    result
}

const _: () = assert!(CRASH.start.is_multiple_of(LINE as u64));

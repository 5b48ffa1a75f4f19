//! Recording function entries in persistent RAM, in several ways, and the crash.

use nostall_work::pstore::{Job, JobResult, Moved, REGION, Recovered, ZoneStrategy, recover};

use nostall_vm::{Ending, Error, Guest, GuestRam, GuestRun, Limits, Machine, Report};

use crate::experiments::runner::{one_each, run_jobs};

/// MiB of the guest's RAM.
const RAM: u32 = 128;

/// Everything that the experiment came to.
#[derive(Clone, Debug)]
pub struct Survived {
    /// Result of each moving, round after round.
    pub moved: Vec<(ZoneStrategy, Moved)>,
    /// The traces as their writer reported them before it panicked. The text of the panic was
    /// not written yet.
    pub writer: Vec<Recovered>,
    /// Content of persistent RAM as the host reads it after the crash.
    pub host: Vec<Recovered>,
    /// Content of persistent RAM as the next kernel on this RAM recovers it.
    pub next_boot: Vec<Recovered>,
    /// All of persistent RAM after the crash.
    pub image: Vec<u8>,
    /// The guest's panic message, if it panicked.
    pub panic: Option<String>,
}

/// Runs the experiment on `machine` in `guest`, and replaces the guest's work and RAM. All
/// strategies are run in turn, `rounds` times. A crash follows. The host reads the crashed
/// guest's RAM, and a second kernel boots on it.
///
/// # Errors
///
/// Returns the errors of [`Machine::run`] in either boot.
pub fn run(
    machine: &dyn Machine,
    guest: &Guest<'_>,
    rounds: u16,
) -> Result<(Survived, GuestRun), Error> {
    let strategies = (0..rounds).flat_map(|_| ZoneStrategy::ALL);
    let jobs: Vec<_> = strategies.map(Job::Move).chain([Job::Crash]).collect();
    let ram = GuestRam::new(RAM)?;
    let first = Guest {
        ram: Some(&ram),
        ..*guest
    };
    let limits = Limits::of(jobs.len() as u64 + 16, 0);
    let ran = run_jobs(
        machine,
        &first,
        (&jobs, 1),
        &limits,
        Ending::Panic,
        &mut |_| {},
    )?;
    let image = ram.read(REGION)?;
    let again = (&[Job::Recover][..], 1);
    let next = run_jobs(machine, &first, again, &limits, Ending::Done, &mut |_| {})?;

    let mut host = Vec::new();
    recover(&image[..], guest.cpus, |found| host.push(found));
    let panic = ran.reports.last().and_then(|report| match report {
        Report::Panic { message, .. } => Some(message.as_str().to_owned()),
        _ => None,
    });
    let survived = Survived {
        moved: moved(&jobs, &ran)?,
        writer: recovered(&ran)?,
        host,
        next_boot: recovered(&next)?,
        image,
        panic,
    };
    Ok((survived, ran))
}

fn recovered(ran: &GuestRun) -> Result<Vec<Recovered>, Error> {
    let found = ran
        .results()?
        .into_iter()
        .filter_map(|(_, result)| match result {
            JobResult::Recovered(found) => Some(found),
            _ => None,
        });
    Ok(found.collect())
}

/// One result for each moving of the list, in its order.
fn moved(jobs: &[Job], ran: &GuestRun) -> Result<Vec<(ZoneStrategy, Moved)>, Error> {
    let moved = ran
        .results()?
        .into_iter()
        .filter_map(|(item, result)| match result {
            JobResult::Moved(moved) => Some((item, moved)),
            _ => None,
        });
    let movings = jobs.iter().enumerate();
    let movings = movings.filter_map(|(item, job)| match job {
        Job::Move(strategy) => Some((item, *strategy)),
        _ => None,
    });
    one_each(movings, moved)
}

//! Runs the work of an experiment in a guest, and matches its results to its jobs.

use anyhow::Result;
use nostall_vm::{Ending, Error, Guest, GuestRun, Limits, Machine, Work};

use super::experiment::Experiment;
use super::on::{On, on_qemu};

/// Runs a part of an experiment in a guest of `on`, and describes the machine in lines; `None` if
/// there is no guest.
pub fn in_guest<E: Experiment, T>(
    experiment: &E,
    on: &On,
    run: impl FnOnce(&dyn Machine, &Guest<'_>) -> Result<(T, GuestRun), Error>,
) -> Result<Option<(T, String)>> {
    let Some(machine) = on.machine() else {
        return Ok(None);
    };
    let (result, ran) = run(machine, &experiment.guest(on.kernel()))?;
    Ok(Some((result, headline(experiment, on, &ran))))
}

/// Describes the machine of a guest's run.
pub fn headline<E: Experiment>(experiment: &E, on: &On, ran: &GuestRun) -> String {
    match on {
        On::Qemu { qemu, .. } => on_qemu(E::NAME, qemu, &experiment.cpus_in_words(), ran),
        On::Kvm(on) => experiment.headline_on_kvm(on, ran),
        On::Model => String::new(),
    }
}

/// Runs jobs on `machine` in `guest`, in turn and `repeat` times, and replaces the guest's work.
///
/// # Errors
///
/// Returns the errors of [`Machine::run`].
pub fn run_jobs<J: Copy>(
    machine: &dyn Machine,
    guest: &Guest<'_>,
    (jobs, repeat): (&[J], u16),
    limits: &Limits,
    ending: Ending,
    progress: &mut dyn FnMut(u64),
) -> Result<GuestRun, Error>
where
    Work: From<J>,
{
    let work: Vec<_> = jobs.iter().copied().map(Work::from).collect();
    let guest = Guest {
        work: &work,
        repeat,
        ..*guest
    };
    machine.run(&guest, limits, ending, progress)
}

/// Returns the job of each result. `jobs` are those that have one, each with its place in the list.
///
/// # Errors
///
/// Returns [`Error::Undone`] for a job without a result, and [`Error::NotAReport`] for a result of
/// another job.
pub fn one_each<J, R>(
    jobs: impl IntoIterator<Item = (usize, J)>,
    results: impl IntoIterator<Item = (usize, R)>,
) -> Result<Vec<(J, R)>, Error> {
    let mut results = results.into_iter();
    let pairs = jobs.into_iter().map(|(place, job)| match results.next() {
        Some((item, result)) if item == place => Ok((job, result)),
        Some((item, _)) => Err(Error::NotAReport(format!("item {item} out of turn"))),
        None => Err(Error::Undone),
    });
    pairs.collect()
}

/// Returns the heading of a text: the machine, and the note about its choice.
pub fn heading(machine: &str, note: Option<&str>) -> String {
    let lines = [Some(machine), note].into_iter().flatten();
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_needs_a_result_of_its_own_in_its_turn() {
        let jobs = || ["a", "b"].into_iter().enumerate();
        let pairs = one_each(jobs(), [(0, 7), (1, 8)]).unwrap();
        assert_eq!(pairs, [("a", 7), ("b", 8)]);
        let undone = one_each(jobs(), [(0, 7)]).unwrap_err();
        assert!(matches!(undone, Error::Undone), "{undone}");
        let error = one_each(jobs(), [(1, 8), (0, 7)]).unwrap_err().to_string();
        assert!(error.contains("item 1 out of turn"), "{error}");
    }
}

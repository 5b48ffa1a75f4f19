//! Recording function entries in persistent RAM, in several ways, and the crash.

use nostall_work::pstore::{Job, Moved, REGION, Recovered, Strategy, Told, recover};

use nostall_vm::{Ending, Error, Guest, GuestRam, Limits, Machine, Ran, Report, Work};

/// MiB of the guest's RAM.
const RAM: u32 = 128;

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What each moving came to, round after round.
    pub moved: Vec<(Strategy, Moved)>,
    /// What is in persistent RAM, by whom it is asked. All agree, or something
    /// is wrong.
    pub found: Vec<(Finder, Vec<Recovered>)>,
    /// All of persistent RAM, as it was left.
    pub image: Vec<u8>,
    /// What the guest said when it panicked, if there was one.
    pub panic: Option<String>,
}

/// One that looks into persistent RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finder {
    /// The one that wrote it, before it died: it knows the traces, but not yet
    /// its last words.
    Writer,
    /// The host, in the RAM of the dead guest.
    Host,
    /// The next kernel that boots on this RAM.
    NextBoot,
}

/// Runs the experiment on `machine` in `guest`, whose work and RAM are then those of the
/// experiment: all strategies in turn, `rounds` times; a crash; the host's look
/// into the dead guest's RAM; and a second boot on it.
///
/// # Errors
///
/// As [`Machine::run`], of either boot.
pub fn run(machine: &dyn Machine, guest: &Guest<'_>, rounds: u16) -> Result<(Outcome, Ran), Error> {
    let strategies = (0..rounds).flat_map(|_| Strategy::ALL);
    let jobs: Vec<_> = strategies.map(Job::Move).chain([Job::Crash]).collect();
    let work: Vec<_> = jobs.iter().copied().map(Work::from).collect();
    let ram = GuestRam::new(RAM)?;
    let first = Guest {
        work: &work,
        repeat: 1,
        ram: Some(&ram),
        ..*guest
    };
    let limits = Limits::of(work.len() as u64 + 16, 0);
    let ran = machine.run(&first, &limits, Ending::Panic, &mut |_| {})?;
    let image = ram.read(REGION)?;
    let second = Guest {
        work: &[Job::Recover.into()],
        ..first
    };
    let next = machine.run(&second, &limits, Ending::Done, &mut |_| {})?;

    let mut host = Vec::new();
    recover(&image[..], guest.cpus, |found| host.push(found));
    let found = vec![
        (Finder::Writer, recovered(&ran)?),
        (Finder::Host, host),
        (Finder::NextBoot, recovered(&next)?),
    ];
    let moved = moved(&jobs, &ran)?;
    let panic = ran.reports.last().and_then(|report| match report {
        Report::Panic { message, .. } => Some(message.as_str().to_owned()),
        _ => None,
    });
    let outcome = Outcome {
        moved,
        found,
        image,
        panic,
    };
    Ok((outcome, ran))
}

fn recovered(ran: &Ran) -> Result<Vec<Recovered>, Error> {
    let found = ran.told()?.into_iter().filter_map(|(_, told)| match told {
        Told::Recovered(found) => Some(found),
        _ => None,
    });
    Ok(found.collect())
}

/// One result for each moving of the list, in its order.
fn moved(jobs: &[Job], ran: &Ran) -> Result<Vec<(Strategy, Moved)>, Error> {
    let mut reported = ran
        .told()?
        .into_iter()
        .filter_map(|(item, told)| match told {
            Told::Moved(moved) => Some((item, moved)),
            _ => None,
        });
    let mut all = Vec::new();
    for (item, job) in jobs.iter().enumerate() {
        let Job::Move(strategy) = job else {
            continue;
        };
        match reported.next() {
            Some((n, moved)) if n == item => all.push((*strategy, moved)),
            Some((n, _)) => return Err(Error::NotAReport(format!("item {n} out of turn"))),
            None => return Err(Error::Undone),
        }
    }
    Ok(all)
}

//! No guest: the drivers on the host, against device models in virtual time.

use nostall_devices::uart::{Profile, Published, Uart, VirtualPort};
use nostall_devices::{Fault, VirtualClock};
use nostall_io::{Counting, Nanos};
use nostall_uart::{Console, ConsoleSettings, FlowControl, LineSettings, OpenError, PowerLoss};
use nostall_work::uart::{Driver, Job, Sent, Writes, send};

use super::run::{Experiment, Outcome, alphabet};

/// A fault to come, after so many accesses of each sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    /// Which.
    pub fault: Fault,
    /// Accesses that still work, those that open the console included.
    pub after: u64,
}

/// Runs the experiment on the model of a 16550A at 115,200 baud. Each sending
/// meets a new port, so that none finds what another has left in it.
///
/// `progress` is told how many bytes have arrived so far.
///
/// # Errors
///
/// [`OpenError`] if the fault is there before the console can be opened.
pub fn run(
    profile: Profile,
    planned: Option<Planned>,
    experiment: &Experiment<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Outcome, OpenError> {
    let mut outcome = Outcome {
        sent: Vec::new(),
        arrived: Vec::new(),
        exits: Vec::new(),
    };
    let mut bytes = 0;
    for job in experiment.sendings() {
        let (sent, arrived) = one(profile, planned, job, experiment.text)?;
        bytes += arrived.len() as u64;
        progress(bytes);
        outcome.sent.push((job, sent));
        outcome.arrived.push(arrived);
    }
    Ok(outcome)
}

fn one(
    profile: Profile,
    planned: Option<Planned>,
    job: Job,
    text: &[u8],
) -> Result<(Sent, Vec<u8>), OpenError> {
    let (mut port, clock): (VirtualPort<Vec<u8>>, VirtualClock) =
        Uart::in_virtual_time(profile, Vec::new());
    if let Some(Planned { fault, after }) = planned {
        port = port.with_fault(after, fault);
    }
    let settings = settings(planned.map(|planned| planned.fault));
    let mut console = Console::open(Counting::new(&port), &clock, settings)?;
    let sent = send(&mut console, job, text, || clock.slept());
    Ok((sent, port.into_sink()))
}

/// Settings for a port that may fail so.
fn settings(fault: Option<Fault>) -> ConsoleSettings {
    let usual = ConsoleSettings::from(LineSettings::baud(115_200));
    match fault {
        Some(Fault::NoCts) => ConsoleSettings {
            flow_control: FlowControl::Cts,
            ..usual
        },
        Some(Fault::PowerLoss) => ConsoleSettings {
            power_loss: PowerLoss::Recover,
            ..usual
        },
        _ => usual,
    }
}

/// What the model takes for each figure that was published for such a port.
///
/// # Errors
///
/// As [`run`].
pub fn published(profile: Profile) -> Result<Vec<(Published, Nanos)>, OpenError> {
    let figure = |published: &Published| {
        let text = alphabet(published.bytes as usize);
        let job = Job {
            driver: Driver::Ours(published.strategy),
            writes: Writes::Whole,
        };
        let (sent, _) = one(profile, None, job, &text)?;
        Ok((*published, Nanos(sent.ns)))
    };
    profile.published.iter().map(figure).collect()
}

//! No guest: the drivers on the host, against device models in virtual time.

use nostall_devices::uart::{Profile, Uart, VirtualPort};
use nostall_devices::{Fault, VirtualClock};
use nostall_io::Counting;
use nostall_uart::{Console, ConsoleSettings, FlowControl, LineSettings, OpenError, PowerLoss};
use nostall_work::uart::{Driver, Job, Writes, send};

use super::run::{Sending, UartPlan, alphabet};

/// A fault of the port, after this many accesses of each sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedFault {
    /// The fault.
    pub fault: Fault,
    /// Accesses that still work, those that open the console included.
    pub after: u64,
}

impl PlannedFault {
    /// Describes a fault behind a comma, if there is one.
    pub(in crate::experiments) fn described(planned: Option<Self>) -> String {
        planned.map_or(String::new(), |Self { fault, after }| {
            format!(", {fault} after {after} accesses")
        })
    }
}

/// Runs `plan` on the model of a 16550A at 115,200 baud. Each sending has a new port, so that
/// none finds bytes of the one before.
///
/// `progress` gets the number of bytes that have arrived so far.
///
/// # Errors
///
/// [`OpenError`] if the fault is there before the console can be opened.
pub fn run(
    profile: Profile,
    planned: Option<PlannedFault>,
    plan: &UartPlan<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<Sending>, OpenError> {
    let mut bytes = 0;
    let sendings = plan.sendings().map(|job| {
        let sending = one(profile, planned, job, plan.text)?;
        bytes += sending.arrived.len() as u64;
        progress(bytes);
        Ok(sending)
    });
    sendings.collect()
}

fn one(
    profile: Profile,
    planned: Option<PlannedFault>,
    job: Job,
    text: &[u8],
) -> Result<Sending, OpenError> {
    let (mut port, clock): (VirtualPort<Vec<u8>>, VirtualClock) =
        Uart::in_virtual_time(profile, Vec::new());
    if let Some(PlannedFault { fault, after }) = planned {
        port = port.with_fault(after, fault);
    }
    let settings = settings(planned.map(|planned| planned.fault));
    let mut console = Console::open(Counting::new(&port), &clock, settings)?;
    let sent = send(&mut console, job, text, || clock.slept());
    Ok(Sending {
        job,
        sent,
        exits: None,
        arrived: port.into_sink(),
    })
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

/// Sends each of the writes that were published for such a port.
///
/// # Errors
///
/// Returns the errors of [`run`].
pub fn published(profile: Profile) -> Result<Vec<Sending>, OpenError> {
    let sendings = profile.published.iter().map(|published| {
        let job = Job {
            driver: Driver::Ours(published.strategy),
            writes: Writes::Whole,
        };
        one(profile, None, job, &alphabet(published.bytes as usize))
    });
    sendings.collect()
}

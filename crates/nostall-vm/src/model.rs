//! No guest: the drivers on the host, against device models in virtual time.

use nostall_devices::uart::{Profile, Uart};
use nostall_io::Counting;
use nostall_uart::{Console, LineSettings, OpenError};
use nostall_work::uart::send;

use crate::uart::{Experiment, Outcome};

/// Runs the experiment on the model of a serial port at 115,200 baud.
///
/// `progress` is told how many bytes have arrived so far.
///
/// # Errors
///
/// None for the profiles there are; [`OpenError`] if the console cannot be
/// opened on the model.
pub fn uart(
    profile: Profile,
    experiment: &Experiment<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Outcome, OpenError> {
    let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
    let mut console = Console::open(Counting::new(&port), clock, LineSettings::baud(115_200))?;
    let mut sent = Vec::new();
    for job in experiment.sendings() {
        sent.push((job, send(&mut console, job, experiment.text)));
        progress(port.with(|uart| uart.sink_mut().len()) as u64);
    }
    let arrived = port.into_sink();
    Ok(Outcome { sent, arrived })
}

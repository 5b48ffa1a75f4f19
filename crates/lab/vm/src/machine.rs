//! The trait of machines that run guests.

use crate::Error;
use crate::guest::{Ending, Guest, GuestRun, Limits};
use crate::need::{Device, Need};

/// A machine that runs guests: [`Qemu`](crate::qemu::Qemu) or KVM's. The model in virtual time has
/// no guest and does not implement this trait.
pub trait Machine {
    /// Returns the machine's name and version for display.
    fn describe(&self) -> String;

    /// Checks that the machine has all required devices and CPUs.
    ///
    /// # Errors
    ///
    /// [`Error::Lacks`] or [`Error::Cpus`] for the first missing requirement.
    fn offers(&self, need: &Need<'_>) -> Result<(), Error>;

    /// Runs `guest` until it ends; `ending` is the intended end. RAM passed with the guest outlives
    /// the run.
    ///
    /// The machine calls `progress` repeatedly with the number of bytes received from the serial
    /// line. The byte limits also apply during such a call.
    ///
    /// # Errors
    ///
    /// [`Error`]: the reason why the guest did not complete its work or did not end as intended.
    /// The machine no longer exists then.
    fn run(
        &self,
        guest: &Guest<'_>,
        limits: &Limits,
        ending: Ending,
        progress: &mut dyn FnMut(u64),
    ) -> Result<GuestRun, Error>;
}

/// Checks `need` against a machine with these devices and CPUs.
pub(crate) fn offers(
    machine: &'static str,
    devices: &[Device],
    most: u16,
    need: &Need<'_>,
) -> Result<(), Error> {
    let mut devices_needed = need.devices.iter();
    if let Some(&device) = devices_needed.find(|device| !devices.contains(device)) {
        return Err(Error::Lacks { machine, device });
    }
    let cpus = need.cpus;
    if !(1..=most).contains(&cpus) {
        return Err(Error::Cpus {
            machine,
            cpus,
            most,
        });
    }
    Ok(())
}

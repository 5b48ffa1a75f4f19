//! Machines that run guests, behind one trait.

use crate::Error;
use crate::guest::{Ending, Guest, Limits, Ran};
use crate::need::{Device, Need};

/// A machine that runs guests: [`Qemu`](crate::qemu::Qemu), or KVM's. The model in virtual time
/// is a peer without a guest.
pub trait Machine {
    /// Returns the machine's name and version, for people.
    fn describe(&self) -> String;

    /// Checks that the machine has all that is needed.
    ///
    /// # Errors
    ///
    /// [`Error::Lacks`] or [`Error::Cpus`]: the first thing that it does not have.
    fn offers(&self, need: &Need<'_>) -> Result<(), Error>;

    /// Runs `guest` to its end, which is to be `ending`. RAM that is given with the guest
    /// outlives the run.
    ///
    /// `progress` is called now and then with the number of bytes that have come over the
    /// serial line. The limits on bytes hold while it runs.
    ///
    /// # Errors
    ///
    /// [`Error`]: the reason why the guest did not do all of its work, or did not end so. The
    /// machine is gone by then.
    fn run(
        &self,
        guest: &Guest<'_>,
        limits: &Limits,
        ending: Ending,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Ran, Error>;
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

//! Our own machine, on the host's KVM.

use std::borrow::Cow;
use std::io;
use std::path::Path;

use anyhow::Result;
use nostall_vm::kvm::{Kvm, Options, PciMode, Speed, UartMode};
use nostall_vm::qemu::Architecture;
use nostall_vm::{Error, Exits, GuestRun};

use crate::kernel;

/// A KVM, its properties, and the kernel to boot on it.
pub struct OnKvm {
    pub kvm: Kvm,
    pub speed: Speed,
    pub kernel: Cow<'static, [u8]>,
}

/// The host's KVM, to boot the kernel in `file` or the one inside this command.
pub fn find(file: Option<&Path>, options: Options) -> Result<OnKvm> {
    let kernel = kernel::find(file, Architecture::X86_64)?;
    let kvm = Kvm::find(options)?;
    let speed = kvm.speed()?;
    Ok(OnKvm { kvm, speed, kernel })
}

/// The same if hardware runs the guest, or else a line that says why it is not used, if there
/// is something to say.
pub fn find_if_good(file: Option<&Path>, options: Options) -> Result<OnKvm, Option<String>> {
    match find(file, options) {
        Ok(OnKvm { speed, .. }) if speed.is_interpreted() => {
            Err(Some(format!("KVM here {speed}: not used (--on kvm does)")))
        }
        Ok(on) => Ok(on),
        // A mistake in arguments or kernel is one for the next machine as well.
        Err(error) => Err(error.downcast_ref().and_then(why_not)),
    }
}

/// Returns the reason why there is no KVM that offers every mode, if there is none.
pub fn lacks(file: Option<&Path>) -> Option<String> {
    let options = Options {
        uart: UartMode::MmioReadonly,
        pci: PciMode::EcamShadow,
    };
    match find(file, options) {
        Ok(on) if on.kvm.options() == options => None,
        Ok(on) => Some(on.kvm.notes().join("; ")),
        Err(error) => Some(match error.downcast_ref() {
            Some(Error::NoKvm { path, cause }) => format!("{path}: {cause}"),
            _ => error.to_string(),
        }),
    }
}

/// Returns the message for a KVM that is there and cannot be used.
fn why_not(error: &Error) -> Option<String> {
    match error {
        Error::NoKvm { cause, .. } if is_missing(cause) => None,
        Error::NoKvm { path, cause } => {
            let why = format!("KVM not used: {path}: {cause}; --on kvm says more");
            Some(why)
        }
        error => Some(format!("KVM not used: {error}")),
    }
}

/// Whether there is no such device: no file, or one with no driver behind it.
fn is_missing(error: &io::Error) -> bool {
    // Linux: include/uapi/asm-generic/errno-base.h.
    const ENXIO: i32 = 6;
    const ENODEV: i32 = 19;
    error.kind() == io::ErrorKind::NotFound || matches!(error.raw_os_error(), Some(ENXIO | ENODEV))
}

/// A way to offer the serial port, from its name.
pub fn uart_mode(name: &str) -> Result<UartMode, String> {
    let names = || UartMode::ALL.map(UartMode::name).join(", ");
    name.parse()
        .map_err(|_| format!("the modes are {}", names()))
}

impl OnKvm {
    /// How often everything is measured: an interpreter takes seconds a round, and
    /// its counts are the same each time.
    pub fn rounds(&self, usual: u16) -> u16 {
        if self.speed.is_interpreted() {
            1
        } else {
            usual
        }
    }

    /// Describes the machine that the serial port was measured on.
    pub fn headline(&self, ran: &GuestRun) -> String {
        let what = format!("uart on kvm, {}", self.kvm.options().uart);
        let exits = ran.exits.as_ref().map(|exits| exits.total);
        let mut notes = self.kvm.notes().to_vec();
        // Without the capability there is a note already.
        if self.kvm.capabilities().statistics {
            notes.extend(no_light_exits(exits).map(str::to_owned));
        }
        self.headline_of(&what, ran, &notes)
    }

    /// Describes the machine that the experiment was measured on, with `notes` on it.
    pub fn headline_of(&self, what: &str, ran: &GuestRun, notes: &[String]) -> String {
        let up = ran.first_report.as_secs_f64();
        let mut lines = vec![format!("{what}, 1 CPU; up after {up:.2} s")];
        if self.speed.is_interpreted() {
            lines.push(format!("this KVM {}: trust counts, not times", self.speed));
        }
        lines.extend_from_slice(notes);
        lines.join("\n")
    }
}

/// Returns the note for a table of light exits, if KVM's statistics do not report them.
fn no_light_exits(exits: Option<Exits>) -> Option<&'static str> {
    let known = exits.is_some_and(|exits| exits.light().is_some());
    (!known).then_some("this KVM's statistics tell no exits: light exits are not counted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_without_exits_are_reported_in_one_line() {
        let counted = Exits {
            hardware: Some(0),
            ..Exits::default()
        };
        assert_eq!(no_light_exits(Some(counted)), None);
        assert!(no_light_exits(Some(Exits::default())).is_some());
    }

    fn no_kvm(code: i32) -> Option<String> {
        why_not(&Error::NoKvm {
            path: "/dev/kvm",
            cause: io::Error::from_raw_os_error(code),
        })
    }

    #[test]
    fn a_missing_kvm_is_not_mentioned_and_a_failing_one_is_in_one_line() {
        for code in [2, 6, 19] {
            assert_eq!(no_kvm(code), None);
        }
        assert_eq!(
            no_kvm(13).unwrap(),
            "KVM not used: /dev/kvm: Permission denied (os error 13); --on kvm says more"
        );
        let failed = Error::Kvm {
            doing: "create a machine",
            cause: io::Error::from_raw_os_error(16),
        };
        assert_eq!(
            why_not(&failed).unwrap(),
            "KVM not used: KVM failed to create a machine: Device or resource busy (os error 16)"
        );
    }
}

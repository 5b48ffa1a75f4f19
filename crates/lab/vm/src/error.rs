//! Errors of a run, with texts for the user.

use std::fmt::{self, Write};
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use crate::need::Device;
use crate::qemu::Architecture;

/// Failure of a run. When an error is returned, the machine no longer exists.
///
/// The text contains the system's error. It is therefore not a
/// [`source`](std::error::Error::source): a chain of errors would print it twice.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// QEMU is not installed.
    #[error(
        "{} is not installed: run `make setup`, or install your system's package \
         (Debian, Ubuntu: {}), or use {}", .0.program(), .0.packages(), .0.instead()
    )]
    NotInstalled(Architecture),
    /// The machine does not support the requested number of CPUs.
    #[error("{machine} can have 1 to {most} CPUs for the guest, not {cpus}")]
    Cpus {
        /// Name of the machine.
        machine: &'static str,
        /// Requested number of CPUs.
        cpus: u16,
        /// Largest number of CPUs.
        most: u16,
    },
    /// The machine lacks a required device.
    #[error("{machine} has no {device}")]
    Lacks {
        /// Name of the machine.
        machine: &'static str,
        /// Missing device.
        device: Device,
    },
    /// QEMU has no firmware for the RISC-V machine.
    #[error(
        "QEMU has no firmware for this machine: install your system's package \
         (Debian, Ubuntu: opensbi): {}", Printable(.0)
    )]
    NoFirmware(String),
    /// The host system refused an operation that the run needs.
    #[error("cannot run the machine: {0}")]
    System(io::Error),
    /// KVM does not exist, or the user lacks permission.
    #[error(
        "no KVM: {path}: {cause}: load the module kvm_intel or kvm_amd and let this user \
         write to it (group kvm), or use `--on qemu`"
    )]
    NoKvm {
        /// Expected path of the device file.
        path: &'static str,
        /// The system's error.
        cause: io::Error,
    },
    /// KVM refused an operation that the run needs.
    #[error("KVM failed to {doing}: {cause}")]
    Kvm {
        /// Requested operation.
        doing: &'static str,
        /// KVM's error.
        cause: io::Error,
    },
    /// This machine cannot boot the guest.
    #[error("cannot boot this guest on KVM: {0}")]
    Unbootable(String),
    /// The virtual CPU cannot continue.
    #[error("the virtual CPU stopped: {0}")]
    Cpu(String),
    /// QEMU ended, but the guest did not end it.
    #[error("QEMU ended with {status}: {}", Printable(.said))]
    Qemu {
        /// QEMU's exit status.
        status: ExitStatus,
        /// QEMU's last output.
        said: String,
    },
    /// QEMU did not report its version in time.
    #[error("{0} --version did not end within {1:?}")]
    NoVersion(&'static str, Duration),
    /// An option would detach QEMU from its parent.
    #[error("QEMU cannot be run with -daemonize: the run could not be watched or ended")]
    Daemonize,
    /// QEMU's own output exceeded its limit in bytes.
    #[error("QEMU flooded its own output: more than {0} bytes")]
    QemuFlood(u64),
    /// The guest reset the machine.
    #[error("the guest reset the machine (a triple fault, or not a kernel for this machine)")]
    Reset,
    /// The guest reported that it failed.
    #[error("the guest failed: {}", Printable(.0))]
    Guest(String),
    /// The guest ended before it had completed its work.
    #[error("the guest ended before its work was complete")]
    Undone,
    /// The guest completed its work instead of panicking.
    #[error("the guest completed its work instead of panicking")]
    Unbroken,
    /// No report arrived within this time.
    #[error(
        "no report from the guest within {0:?} of its start: \
         is it nostall's kernel, built for this machine?"
    )]
    NeverStarted(Duration),
    /// The guest sent nothing for this time.
    #[error("the guest hung: no output for {0:?}")]
    Hung(Duration),
    /// The run exceeded this time limit.
    #[error("the guest did not finish within {0:?}")]
    TooLong(Duration),
    /// The guest's serial output exceeded this limit in bytes.
    #[error("the guest flooded its serial line: more than {0} bytes")]
    Flood(u64),
    /// The guest's reports exceeded this limit in bytes.
    #[error("the guest flooded its report channel: more than {0} bytes")]
    ReportFlood(u64),
    /// A line on the report channel is not a report.
    #[error("the guest sent a line that is not a report: {}", Printable(.0))]
    NotAReport(String),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Untrusted text for a terminal: control characters are escaped.
struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            c if c.is_control() => write!(f, "{}", c.escape_default()),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_contains_the_systems_error_once() {
        let cause = || io::Error::from_raw_os_error(13);
        let (path, doing) = ("/dev/kvm", "run");
        for error in [
            Error::System(cause()),
            Error::NoKvm {
                path,
                cause: cause(),
            },
            Error::Kvm {
                doing,
                cause: cause(),
            },
        ] {
            let chain = std::iter::successors(Some(&error as &dyn std::error::Error), |error| {
                error.source()
            });
            let text: Vec<_> = chain.map(ToString::to_string).collect();
            let text = text.join(": ");
            assert_eq!(text.matches("Permission denied").count(), 1, "{text}");
        }
    }

    #[test]
    fn control_characters_of_a_guest_do_not_reach_the_terminal() {
        let said = "a\x1b[2Jb\nc\u{9b}d\u{fc}";
        let shown = r"a\u{1b}[2Jb\nc\u{9b}d".to_owned() + "\u{fc}";
        for error in [Error::Guest(said.into()), Error::NotAReport(said.into())] {
            assert!(error.to_string().ends_with(&shown), "{error}");
        }
    }
}

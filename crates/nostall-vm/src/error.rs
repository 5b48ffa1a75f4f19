//! What can go wrong, in words for the person who runs it.

use std::fmt::{self, Write};
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use crate::need::Device;
use crate::qemu::Architecture;

/// Why a run failed. In every case the machine is gone when you see it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no QEMU.
    #[error(
        "{} is not installed: run `make setup`, or install your system's package \
         (Debian, Ubuntu: {}), or use {}", .0.program(), .0.packages(), .0.instead()
    )]
    NotInstalled(Architecture),
    /// A machine cannot be given so many CPUs.
    #[error("{machine} can have 1 to {most} CPUs for the guest, not {cpus}")]
    Cpus {
        /// Its name.
        machine: &'static str,
        /// How many were asked for.
        cpus: u16,
        /// How many there can be.
        most: u16,
    },
    /// A machine does not have a device.
    #[error("{machine} has no {device}")]
    Lacks {
        /// Its name.
        machine: &'static str,
        /// The device.
        device: Device,
    },
    /// QEMU has nothing to start a RISC-V machine with.
    #[error(
        "QEMU has no firmware for this machine: install your system's package \
         (Debian, Ubuntu: opensbi): {}", Printable(.0)
    )]
    NoFirmware(String),
    /// The system would not do what a run needs.
    #[error("cannot run the machine: {0}")]
    System(#[from] io::Error),
    /// There is no KVM, or none for this user.
    #[error(
        "no KVM: {path}: {source}: load the module kvm_intel or kvm_amd and let this user \
         write to it (group kvm), or use `--on qemu`"
    )]
    NoKvm {
        /// Where it should be.
        path: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// KVM would not do what a run needs.
    #[error("KVM failed to {doing}: {source}")]
    Kvm {
        /// What it was asked for.
        doing: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// The guest cannot be put into this machine.
    #[error("cannot boot this guest on KVM: {0}")]
    Unbootable(String),
    /// The virtual CPU stopped where it cannot go on.
    #[error("the virtual CPU stopped: {0}")]
    Cpu(String),
    /// QEMU ended by itself, and not at the guest's word.
    #[error("QEMU ended with {status}: {}", Printable(.said))]
    Qemu {
        /// How.
        status: ExitStatus,
        /// The last it said.
        said: String,
    },
    /// It did not even tell its version in time.
    #[error("{0} --version did not end within {1:?}")]
    NoVersion(&'static str, Duration),
    /// It was to go where it cannot be watched.
    #[error("QEMU cannot be run with -daemonize: nobody could watch or end it")]
    Daemonize,
    /// QEMU itself said more than could be right.
    #[error("QEMU flooded its own output: more than {0} bytes")]
    QemuFlood(u64),
    /// The guest reset the machine.
    #[error("the guest reset the machine (a triple fault, or not a kernel for this machine)")]
    Reset,
    /// The guest said that it could not go on.
    #[error("the guest failed: {}", Printable(.0))]
    Guest(String),
    /// The guest ended itself without having done all of its work.
    #[error("the guest ended with its work undone")]
    Undone,
    /// It was to panic, and did all of its work.
    #[error("the guest was to panic, and did not")]
    Unbroken,
    /// No report came in time.
    #[error(
        "the guest said nothing within {0:?} of its start: \
         is it nostall's kernel, built for this machine?"
    )]
    NeverStarted(Duration),
    /// Nothing more came.
    #[error("the guest hung: nothing came from it for {0:?}")]
    Hung(Duration),
    /// It went on for too long.
    #[error("the guest was not done after {0:?}")]
    TooLong(Duration),
    /// More came over the serial line than could be right.
    #[error("the guest flooded its serial line: more than {0} bytes")]
    Flood(u64),
    /// More reports came than could be right.
    #[error("the guest flooded its report channel: more than {0} bytes")]
    ReportFlood(u64),
    /// A line on the report channel is not a report.
    #[error("the guest sent something that is not a report: {}", Printable(.0))]
    NotAReport(String),
}

/// What others said, for a terminal: control characters are shown, not obeyed.
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
    fn control_characters_of_a_guest_do_not_reach_the_terminal() {
        let said = "a\x1b[2Jb\nc\u{9b}d\u{fc}";
        let shown = r"a\u{1b}[2Jb\nc\u{9b}d".to_owned() + "\u{fc}";
        for error in [Error::Guest(said.into()), Error::NotAReport(said.into())] {
            assert!(error.to_string().ends_with(&shown), "{error}");
        }
    }
}

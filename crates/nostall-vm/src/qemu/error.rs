//! What can go wrong, in words for the person who runs it.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a run in QEMU failed. In every case QEMU is gone when you see it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no QEMU.
    #[error(
        "{0} is not installed: run `make setup`, or install your system's package \
         (Debian, Ubuntu: qemu-system-x86), or use `--on model`"
    )]
    NotInstalled(&'static str),
    /// The system would not do what a run needs.
    #[error("cannot run QEMU: {0}")]
    System(#[from] io::Error),
    /// QEMU ended by itself, and not at the guest's word.
    #[error("QEMU ended with {status}: {said}")]
    Qemu {
        /// How.
        status: ExitStatus,
        /// The last it said.
        said: String,
    },
    /// The guest reset the machine.
    #[error("the guest reset the machine (a triple fault, or not a kernel for this machine)")]
    Reset,
    /// The guest said that it could not go on.
    #[error("the guest failed: {0}")]
    Guest(String),
    /// The guest ended itself without having done all of its work.
    #[error("the guest ended with its work undone")]
    Undone,
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
    #[error("the guest sent something that is not a report: {0}")]
    NotAReport(String),
}

//! QEMU as a child process that runs guests.

mod architecture;
mod board;
mod command;
mod files;
mod program_output;
mod run;
mod version;

pub use crate::error::Error;
pub use crate::guest::{Guest, GuestRun, Limits};
pub use crate::ram::GuestRam;
pub use architecture::Architecture;
pub use board::QemuBoard;
pub use run::Qemu;

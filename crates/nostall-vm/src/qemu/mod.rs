//! QEMU as a child process that runs guests.

mod architecture;
mod board;
mod command;
mod drive;
mod files;
mod program_output;
mod qcow2;
mod run;
mod version;

pub use crate::error::Error;
pub use crate::guest::{Guest, Limits, Ran};
pub use crate::ram::GuestRam;
pub use architecture::Architecture;
pub use board::QemuBoard;
pub use drive::Drive;
pub use run::Qemu;

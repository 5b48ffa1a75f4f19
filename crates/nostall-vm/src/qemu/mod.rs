//! QEMU as a child process.

mod command;
mod drive;
mod files;
mod machine;
mod qcow2;
mod run;
mod version;

pub use crate::error::Error;
pub use crate::guest::{Guest, Limits, Ran};
pub use crate::ram::GuestRam;
pub use drive::{Drive, erased_flash};
pub use machine::{Architecture, Machine};
pub use run::Qemu;

//! QEMU as a child process.

mod error;
mod machine;
mod ram;

pub use error::Error;
pub use machine::{Guest, Limits, Machine, Qemu, Ran};
pub use ram::GuestRam;

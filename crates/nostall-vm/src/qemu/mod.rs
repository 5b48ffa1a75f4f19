//! QEMU as a child process.

mod machine;

pub use crate::error::Error;
pub use crate::guest::{Guest, Limits, Ran};
pub use crate::ram::GuestRam;
pub use machine::{Machine, Qemu};

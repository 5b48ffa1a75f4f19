//! QEMU as a child process.

mod error;
mod machine;
mod process;

pub use error::Error;
pub use machine::{Guest, Limits, Machine, Qemu, Ran};

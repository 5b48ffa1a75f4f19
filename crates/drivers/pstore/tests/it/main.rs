//! The integration tests of nostall-pstore, in one program.

#[path = "../common/mod.rs"]
mod common;
mod cuts;
mod locked;
mod parity;
mod reading;

//! The integration tests of nostall-trace, in one program.

#[path = "../common/mod.rs"]
mod common;
mod hostile;

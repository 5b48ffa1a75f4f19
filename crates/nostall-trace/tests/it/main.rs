//! The integration tests of nostall-trace, in one program.

#[path = "../common/mod.rs"]
mod common;
mod dat;
mod dat_export;
mod events;
mod hostile;
mod print_format;
mod report;
mod text;

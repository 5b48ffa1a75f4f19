//! The integration tests of nostall-tracefile, in one program.

#[path = "../../../../drivers/trace/tests/common/mod.rs"]
mod common;
mod dat;
mod dat_export;
mod events;
mod print_format;
mod report;
mod text;

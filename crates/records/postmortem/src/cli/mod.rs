//! The command: reads images, and writes records as text, JSON lines or Linux's files.
//!
//! The binaries `nostall-postmortem` and `nostall` share it.

mod args;
pub(crate) mod buffers;
mod cause;
pub mod escape;
mod files;
pub(crate) mod input;
mod job;
pub(crate) mod json;
mod json_buffer;
pub(crate) mod kernel_logs;
mod log_text;
mod names;
pub mod number;
pub(crate) mod outcome;
pub mod output;
pub(crate) mod part;
mod region;
pub(crate) mod rings;
mod swap;
pub(crate) mod text;
mod time;
pub(crate) mod traces;

pub use crate::count::counted;
pub use args::{AFTER, Args};
pub use input::{read_file, read_or};
pub use job::run;
pub use names::load as load_symbols;
pub use region::{Sizes, options as region_options, zone_order};
pub use text::Escaped;

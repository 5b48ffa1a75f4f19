//! The command: reads images, and writes records as text, JSON lines or Linux's files.
//!
//! The binaries `nostall-postmortem` and `nostall` share it.

mod args;
mod banners;
mod buffers;
pub mod escape;
mod files;
mod input;
mod job;
mod json;
mod json_buffer;
mod names;
pub mod number;
mod outcome;
pub mod output;
mod part;
mod region;
mod rings;
mod swap;
mod text;
mod time;
mod traces;

pub use crate::count::counted;
pub use args::{AFTER, Args};
pub use input::{read_file, read_or};
pub use job::run;
pub use names::load as load_symbols;
pub use region::{Sizes, options as region_options, zone_order};
pub use text::Escaped;

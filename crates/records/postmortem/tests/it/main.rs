//! The integration tests of nostall-postmortem, in one program.

#[path = "../../../../drivers/trace/tests/common/mod.rs"]
mod recorders;
#[path = "../../../../drivers/pstore/tests/common/mod.rs"]
mod recordings;

mod avml;
mod banners;
mod decompress;
mod detect;
mod detect_any;
mod ftrace_ring;
mod ftrace_ring_made;
mod hostile;
mod image;
mod inputs;
mod kdump;
mod kdump_writer;
mod kernel_logs;
mod kernel_logs_structure;
mod kernel_logs_tables;
mod linux_files;
mod log_rings;
mod made_names;
mod made_printk;
mod ordinary;
mod output;
mod symbols;
mod traces;
mod unverified;

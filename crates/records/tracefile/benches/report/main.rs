//! Speed and memory of reports, on generated traces.
//!
//! `cargo bench -p nostall-tracefile --bench report`. On Linux also on a temporary file of 1.5 GiB
//! with 100 million records that a program recorded. With the feature `perfetto`, that file is also
//! exported. Without `--bench`, which cargo passes, each row runs once and briefly.

#[cfg(target_os = "linux")]
mod file;
mod generated;
mod memory;
mod records;

fn main() {
    #[cfg(target_os = "linux")]
    if file::is_recording() {
        return;
    }
    nostall_bench::main(&[
        ("records", records::tables),
        ("memory", memory::tables),
        #[cfg(target_os = "linux")]
        ("file", file::tables),
    ]);
}

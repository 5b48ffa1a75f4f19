//! Speed and memory of reports, on traces that an iterator makes up.
//!
//! `cargo bench -p nostall-trace --features report --bench report`. With the feature `program`,
//! also on a file of 512 MiB that the recorder wrote. Without `--bench`, which cargo
//! passes, each row runs once and briefly.

#[cfg(all(feature = "program", target_os = "linux"))]
mod file;
mod generated;
mod memory;
mod records;

fn main() {
    nostall_bench::main(&[
        ("records", records::tables),
        ("memory", memory::tables),
        #[cfg(all(feature = "program", target_os = "linux"))]
        ("file", file::tables),
    ]);
}

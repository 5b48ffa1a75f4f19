//! Speed and memory of reports, on traces that an iterator makes up.
//!
//! `cargo bench -p nostall-trace --features report --bench report`. Without `--bench`, which cargo
//! passes, each row runs once and briefly.

mod generated;
mod memory;
mod records;

fn main() {
    nostall_bench::main(&[("records", records::tables), ("memory", memory::tables)]);
}

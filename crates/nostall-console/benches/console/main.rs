//! What a record costs, beside other queues.
//!
//! `cargo bench -p nostall-console`. Without `--bench`, which cargo gives, every row is
//! run once and briefly.

mod alone;
mod contended;
mod peers;

fn main() {
    nostall_bench::main(&[("alone", alone::tables), ("contended", contended::tables)]);
}

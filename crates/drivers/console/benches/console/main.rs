//! The cost of a record, compared with other queues.
//!
//! Run it with `cargo bench -p nostall-console`. Without `--bench`, which cargo passes, each row
//! runs once and briefly.

mod alone;
mod contended;
mod peers;

fn main() {
    nostall_bench::main(&[("alone", alone::tables), ("contended", contended::tables)]);
}

//! What recording costs, beside the loop that a C programmer would write, beside
//! Linux's way of error correction and beside others' crash-surviving rings; and
//! how fast the parity of a zone is checked.
//!
//! `cargo bench -p nostall-pstore --all-features`, or `... -- threads` for the
//! tables of one file. Without `--all-features` the error correction is a
//! kernel's, without vector registers.
//! Without `--bench`, which cargo gives, every row is run once and briefly.

mod ecc;
mod lttng;
mod peers;
mod reading;
mod record;
mod threads;

fn main() {
    nostall_bench::main(&[
        ("record", record::tables),
        ("threads", threads::tables),
        ("ecc", ecc::tables),
        ("peers", peers::tables),
        ("reading", reading::tables),
    ]);
}

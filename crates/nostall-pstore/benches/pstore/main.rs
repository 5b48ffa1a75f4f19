//! The cost of recording, beside a plain loop in C style, beside Linux's way of error
//! correction and beside other crash-surviving rings; and the speed of checking the parity
//! of a zone.
//!
//! `cargo bench -p nostall-pstore --all-features`, or `... -- threads` for the tables of one
//! file. Without `--all-features` the error correction is a kernel's, without vector
//! registers. Without `--bench`, which cargo passes, each row runs once and briefly.

mod ecc;
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

//! The cost of recording, and the speed of checking the parity of a zone. Recording is compared
//! with a plain loop in C style, with Linux's error correction, and with other crash-surviving
//! rings.
//!
//! Run it with `cargo bench -p nostall-pstore --all-features`, or with `-- threads` for the tables
//! of one file. Without `--all-features`, the error correction uses no vector registers, as in a
//! kernel. Without `--bench`, which cargo passes, each row runs once and briefly.

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

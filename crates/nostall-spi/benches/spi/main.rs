//! What a shared bus costs, beside embedded-hal-bus's `MutexDevice` and beside the
//! pump of old.
//!
//! `cargo bench -p nostall-spi --features std`, or `... -- contended` for the tables
//! of one file. Without `--bench`, which cargo gives, every row is run once and
//! briefly.

mod alone;
mod contended;
mod devices;
mod parts;

fn main() {
    nostall_bench::main(&[
        ("alone", alone::tables),
        ("contended", contended::tables),
        ("devices", devices::tables),
    ]);
}

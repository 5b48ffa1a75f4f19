//! The cost of a shared bus, compared with embedded-hal-bus's `MutexDevice` and with the old
//! message pump.
//!
//! Run it with `cargo bench -p nostall-spi --features std`, or with `-- contended` for the tables
//! of one file. Without `--bench`, which cargo passes, each row runs once and briefly.

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

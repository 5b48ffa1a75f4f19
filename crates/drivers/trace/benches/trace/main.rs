//! Cost of an entry and its exit in a Linux program: off, on, with two threads, and compared with
//! other tracers.
//!
//! `cargo bench -p nostall-trace --all-features --bench trace`. Without `--bench`, which cargo
//! passes, each row runs once and briefly. One process prints all tables, so the table with the
//! recorder off comes first. The part `ftrace` boots a Linux that runs this program again.

mod ftrace;
mod peers;
mod record;
mod rftrace;

fn main() {
    if ftrace::is_guest() {
        return;
    }
    nostall_bench::main(&[
        ("off", record::off),
        ("pair", record::pair),
        ("threads", record::threads),
        ("peers", peers::tables),
        ("ftrace", ftrace::tables),
    ]);
}

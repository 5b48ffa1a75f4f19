//! The cost of an entry and its exit in a Linux program: off, on, with two threads, and beside
//! other tracers.
//!
//! `cargo bench -p nostall-trace --all-features --bench trace`. Without `--bench`, which cargo
//! passes, each row runs once and briefly. All tables are of one process, so the table of the
//! recorder that is off comes first. The part `ftrace` boots a Linux, in which this program
//! runs again.

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

//! What a record costs, beside other queues.
//!
//! `cargo bench -p nostall-console`. Without `--bench`, which cargo gives, every row is
//! run once and briefly.

mod alone;
mod contended;
mod peers;
mod table;

use table::Effort;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |wanted: &str| arguments.iter().any(|argument| argument == wanted);
    let effort = if has("--bench") && !has("--test") {
        Effort::FULL
    } else {
        Effort::TEST
    };
    alone::tables(effort);
    contended::tables(effort);
}

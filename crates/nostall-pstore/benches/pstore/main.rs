//! What recording costs, beside the loop that a C programmer would write, beside
//! Linux's way of error correction and beside others' crash-surviving rings; and
//! how fast what was recorded is read.
//!
//! `cargo bench -p nostall-pstore --all-features`, or `... -- threads` for the
//! tables of one file. Without `--all-features` the error correction is a
//! kernel's, without vector registers, and `reading` has its first table only.
//! Without `--bench`, which cargo gives, every row is run once and briefly.

mod ecc;
mod lttng;
mod peers;
mod reading;
mod record;
mod table;
mod threads;

use table::Effort;

/// Prints the tables of one part.
type Tables = fn(Effort);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let bench = arguments.iter().any(|argument| argument == "--bench");
    let test = arguments.iter().any(|argument| argument == "--test");
    let effort = if bench && !test {
        Effort::FULL
    } else {
        Effort::TEST
    };
    let wanted: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let parts: [(&str, Tables); 5] = [
        ("record", record::tables),
        ("threads", threads::tables),
        ("ecc", ecc::tables),
        ("peers", peers::tables),
        ("reading", reading::tables),
    ];
    for (name, tables) in parts {
        if wanted.is_empty() || wanted.iter().any(|wanted| *wanted == name) {
            tables(effort);
        }
    }
}

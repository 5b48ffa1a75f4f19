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
mod table;

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
    let parts: [(&str, Tables); 3] = [
        ("alone", alone::tables),
        ("contended", contended::tables),
        ("devices", devices::tables),
    ];
    for (name, tables) in parts {
        if wanted.is_empty() || wanted.iter().any(|wanted| *wanted == name) {
            tables(effort);
        }
    }
}

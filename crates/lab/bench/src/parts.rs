//! Entry point of a benchmark with several parts.

use crate::Effort;

/// A function that prints the tables of one part.
pub type Tables = fn(Effort);

/// Prints the tables of the parts in the program's arguments, or of all parts. Without `--bench`,
/// which cargo passes, each row runs once and briefly.
pub fn main(parts: &[(&str, Tables)]) {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let effort = Effort::of(&arguments);
    let wanted: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    for (name, tables) in parts {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            tables(effort);
        }
    }
}

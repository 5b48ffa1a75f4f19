//! Numbers with their nouns.

use std::fmt::Display;

/// Formats a number with its noun, as in `1 batch` and `2 batches`.
#[must_use]
pub fn counted(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    match (&*number, noun.ends_with("sh") || noun.ends_with("ch")) {
        ("1", _) => format!("1 {noun}"),
        (_, true) => format!("{number} {noun}es"),
        _ => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_has_no_plural() {
        for (number, noun, text) in [
            (0, "zone", "0 zones"),
            (1, "zone", "1 zone"),
            (21, "crash", "21 crashes"),
            (1, "batch", "1 batch"),
            (2, "batch", "2 batches"),
        ] {
            assert_eq!(counted(number, noun), text);
        }
    }
}

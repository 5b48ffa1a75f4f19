//! Paragraphs in lines of at most 79 columns.

use std::io::{self, Write};

const COLUMNS: usize = 79;

/// Adds a paragraph with these indents of its first line and the others. Words that are longer than
/// a line are cut into pieces.
pub fn wrap(text: &mut String, first: usize, others: usize, paragraph: &str) {
    let mut line = " ".repeat(first);
    let mut is_empty = true;
    for word in paragraph.split_whitespace() {
        let chars: Vec<_> = word.chars().collect();
        for piece in chars.chunks(COLUMNS - 4) {
            if !is_empty && line.chars().count() + 1 + piece.len() > COLUMNS {
                *text += &format!("{line}\n");
                line = " ".repeat(others);
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.extend(piece);
            is_empty = false;
        }
    }
    *text += &format!("{line}\n");
}

/// Writes a paragraph, with this indent of all lines but the first.
///
/// # Errors
///
/// Fails as `out` does.
pub fn wrapped(out: &mut dyn Write, others: usize, paragraph: &str) -> io::Result<()> {
    let mut text = String::new();
    wrap(&mut text, 0, others, paragraph);
    out.write_all(text.as_bytes())
}

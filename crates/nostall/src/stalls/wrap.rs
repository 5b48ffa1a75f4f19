//! Paragraphs in lines of at most 79 columns.

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

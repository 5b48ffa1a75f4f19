//! Restores the logged lines from the bytes that a drain sent, using the shipped joiner.

use nostall_postmortem::join::Joiner;

/// A part of the output after the lines were joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// A whole line.
    Line(String),
    /// The beginning of a line whose rest is missing.
    Fragment(String),
    /// The mark of an owner that died in an offer: lines of the last 256 bytes may be repeated.
    Again,
}

/// Joins the parts of interrupted lines, according to the grammar in the book.
pub fn rejoin(sent: &str) -> Vec<Joined> {
    let joined = joined(sent);
    let mut lines = joined.split('\n').peekable();
    let mut all = Vec::new();
    while let Some(line) = lines.next() {
        let next = lines.peek().copied();
        let is_cut = next.is_some_and(|next| next.starts_with("{cut "));
        let is_torn = is_cut || next.is_none_or(|next| next == "{again}");
        all.push(match line {
            "{again}" => Joined::Again,
            "" if is_torn => continue,
            line if is_torn => Joined::Fragment(line.to_owned()),
            line => Joined::Line(line.to_owned()),
        });
        if is_cut {
            lines.next();
        }
    }
    all
}

fn joined(sent: &str) -> String {
    let (mut joiner, mut joined) = (Joiner::default(), Vec::new());
    // The input arrives in parts.
    for part in sent.as_bytes().chunks(7) {
        joiner.push(part, &mut joined).unwrap();
    }
    joiner.finish(&mut joined).unwrap();
    String::from_utf8(joined).unwrap()
}

/// Returns the whole lines only.
pub fn lines(sent: &str) -> Vec<String> {
    let whole = |joined| match joined {
        Joined::Line(line) => Some(line),
        Joined::Fragment(_) | Joined::Again => None,
    };
    rejoin(sent).into_iter().filter_map(whole).collect()
}

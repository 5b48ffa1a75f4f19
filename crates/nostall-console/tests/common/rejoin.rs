//! Restores the logged lines from the bytes that a drain sent.

use std::mem;

/// A part of the output after the lines were joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Joined {
    /// A whole line.
    Line(String),
    /// The beginning of a line whose rest is missing. If its owner died, the whole line follows.
    Fragment(String),
    /// The mark of an owner that died in an offer: lines of the last 256 bytes may be repeated.
    Again,
}

/// Joins the parts of interrupted lines, according to the grammar in the book.
pub fn rejoin(sent: &str) -> Vec<Joined> {
    let mut lines: Vec<&str> = sent
        .split('\n')
        .map(|line| line.trim_end_matches('\r'))
        .collect();
    let unfinished = lines.pop().unwrap_or_default();
    let mut cut: [String; 3] = Default::default();
    let mut joined = Vec::new();
    // Lines whose end may be missing because an owner died.
    let mut doubtful = Vec::new();
    let mut lines = lines.into_iter().peekable();
    while let Some(line) = lines.next() {
        let next = lines.peek().copied().unwrap_or_default();
        let is_again = line == "{again}";
        if let Some(lane) = lane(next, "{cut ").filter(|_| next.len() == "{cut 0}".len()) {
            lines.next();
            // A marker that was interrupted itself is sent again.
            if !is_begun(line) {
                let whole = whole(&mut cut, line);
                let before = mem::replace(&mut cut[lane], whole);
                push_fragment(&mut joined, before);
            }
        } else if is_again || next == "{again}" {
            if !is_again {
                lines.next();
            }
            if line.is_empty() || is_begun(line) {
                doubtful.extend(joined.len().checked_sub(1));
            } else if !is_again {
                let whole = whole(&mut cut, line);
                push_fragment(&mut joined, whole);
            }
            for fragment in &mut cut {
                push_fragment(&mut joined, mem::take(fragment));
            }
            joined.push(Joined::Again);
        } else {
            joined.push(Joined::Line(whole(&mut cut, line)));
        }
    }
    if !is_begun(unfinished) {
        let whole = whole(&mut cut, unfinished);
        push_fragment(&mut joined, whole);
    }
    for fragment in cut {
        push_fragment(&mut joined, fragment);
    }
    for at in doubtful {
        let Joined::Line(start) = joined[at].clone() else {
            continue;
        };
        let is_start = |later: &Joined| matches!(later, Joined::Line(line) if line.len() > start.len() && line.starts_with(&start));
        if joined[at..].iter().any(is_start) {
            joined[at] = Joined::Fragment(start);
        }
    }
    joined
}

/// Returns the whole lines only.
pub fn lines(sent: &str) -> Vec<String> {
    let whole = |joined| match joined {
        Joined::Line(line) => Some(line),
        Joined::Fragment(_) | Joined::Again => None,
    };
    rejoin(sent).into_iter().filter_map(whole).collect()
}

/// Returns `line`, joined with its part from before the interruption.
fn whole(cut: &mut [String; 3], line: &str) -> String {
    match lane(line, "{rest ") {
        Some(lane) => mem::take(&mut cut[lane]) + &line["{rest 0}".len()..],
        None => line.to_owned(),
    }
}

/// Returns whether `line` is the beginning of a marker. No other line begins with a brace.
fn is_begun(line: &str) -> bool {
    let whole = [
        "{cut 0}", "{cut 1}", "{cut 2}", "{rest 0}", "{rest 1}", "{rest 2}", "{again}",
    ];
    let is_prefix = |marker: &&str| marker.len() > line.len() && marker.starts_with(line);
    !line.is_empty() && whole.iter().any(is_prefix)
}

fn lane(line: &str, start: &str) -> Option<usize> {
    let (number, _) = line.strip_prefix(start)?.split_once('}')?;
    number.parse().ok().filter(|&lane| lane < 3)
}

fn push_fragment(joined: &mut Vec<Joined>, text: String) {
    if !text.is_empty() {
        joined.push(Joined::Fragment(text));
    }
}

//! Output of nostall-console, with the lines whole that more urgent ones cut.
//!
//! The book's chapter "Reading a console's log" has the grammar of the marks.

use std::io::{self, Write};
use std::mem;

/// Length in bytes up to which a line is joined. The console's own lines have less than 23,000.
const MOST: usize = 1 << 16;

/// Mark of a CPU that crashed while it sent.
const AGAIN: &[u8] = b"{again}";

/// Joins the parts of lines that a console cut.
///
/// A line is written when its last part has come. Marks whose other part is missing are written,
/// so nothing is lost. Any input needs 1 MiB of memory at most.
///
/// ```
/// use nostall_postmortem::join::Joiner;
///
/// let (mut joiner, mut joined) = (Joiner::default(), Vec::new());
/// joiner.push(b"a li\r\n{cut 0}\r\nurgent\r\n{rest 0}ne\r\n", &mut joined)?;
/// joiner.finish(&mut joined)?;
/// assert_eq!(joined, b"urgent\na line\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Joiner {
    /// Line that has not ended.
    line: Vec<u8>,
    /// The line is longer than [`MOST`], and its beginning is written.
    is_long: bool,
    /// A line, and perhaps an empty line or an incomplete mark behind it. Their meaning depends on
    /// the next mark.
    held: Vec<Vec<u8>>,
    /// Beginnings of cut lines, by stream.
    cut: [Option<Vec<u8>>; 3],
    /// Parts of lines before the last `{again}`.
    parts: Vec<Part>,
    /// Output that comes after them.
    behind: Vec<u8>,
}

/// Part of a line, which is dropped if a later line begins with it.
#[derive(Debug)]
struct Part {
    /// Text and marks.
    bytes: Vec<u8>,
    /// Length of the text.
    len: usize,
    /// Length of the shortest line that repeats it.
    least: usize,
}

impl Joiner {
    /// Takes bytes of a console's output, and writes the lines that are complete.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written.
    pub fn push(&mut self, bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            let is_end = piece.ends_with(b"\n");
            if self.is_long {
                out.write_all(piece)?;
                self.is_long = !is_end;
                continue;
            }
            self.line.extend_from_slice(piece);
            if self.line.len() > MOST {
                self.write_held(out)?;
                self.release(out)?;
                let line = mem::take(&mut self.line);
                out.write_all(&self.whole(line))?;
                self.is_long = !is_end;
            } else if is_end {
                let mut line = mem::take(&mut self.line);
                while line.ends_with(b"\n") || line.ends_with(b"\r") {
                    line.pop();
                }
                self.take(line, out)?;
            }
        }
        Ok(())
    }

    /// Writes the parts that are left at the end of the output.
    ///
    /// # Errors
    ///
    /// If `out` cannot be written.
    pub fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let mut line = mem::take(&mut self.line);
        if line == AGAIN || cut(&line).is_some() {
            self.take(mem::take(&mut line), out)?;
        }
        self.write_held(out)?;
        self.release(out)?;
        let line = self.whole(line);
        self.keep_cut();
        self.release(out)?;
        let end = if is_begun(&line) { &[][..] } else { &line };
        out.write_all(end)
    }

    /// Takes a line without its end.
    fn take(&mut self, line: Vec<u8>, out: &mut dyn Write) -> io::Result<()> {
        if let Some(stream) = cut(&line) {
            return self.take_cut(&line, stream, out);
        }
        if line == AGAIN {
            return self.take_again(out);
        }
        if self.held.len() != 1 || !is_incomplete(&line) {
            self.write_held(out)?;
        }
        self.held.push(line);
        Ok(())
    }

    /// Takes a mark: the line before it is the beginning of one of this stream.
    fn take_cut(&mut self, mark: &[u8], stream: usize, out: &mut dyn Write) -> io::Result<()> {
        let Some(line) = self.held.pop() else {
            return self.write(mark, out);
        };
        self.write_held(out)?;
        // A mark that was interrupted itself is sent again.
        if is_begun(&line) {
            return Ok(());
        }
        let begun = self.whole(line);
        let earlier = self.cut[stream].replace(begun);
        let too_long = self.cut[stream].take_if(|begun| begun.len() > MOST);
        for text in [earlier, too_long].into_iter().flatten() {
            if !text.is_empty() {
                self.write(&text, out)?;
                self.write(mark, out)?;
            }
        }
        Ok(())
    }

    /// Takes `{again}`: incomplete lines come again behind it.
    fn take_again(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.release(out)?;
        let mut held = mem::take(&mut self.held).into_iter();
        let torn = match (held.next(), held.next()) {
            (Some(line), None) if !is_incomplete(&line) => Some((line, "", 0)),
            // The line may be complete. Then one that repeats it is another line.
            (Some(line), Some(_)) => Some((line, "\n", 1)),
            _ => None,
        };
        let torn = torn.map(|(line, end, more)| (self.whole(line), end, more));
        self.keep_cut();
        if let Some((line, end, more)) = torn {
            self.keep(line, end, more);
        }
        // Its line feed ends the torn line. Without one, the line before it is complete.
        self.behind.push(b'\n');
        self.write(AGAIN, out)
    }

    /// Writes a line, or keeps it behind the parts that it does not repeat.
    fn write(&mut self, line: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let is_other = |part: &Part| line.len() < part.least || !line.starts_with(part.text());
        self.parts.retain(is_other);
        self.behind.extend_from_slice(line);
        self.behind.push(b'\n');
        if self.parts.is_empty() || self.behind.len() > MOST {
            self.release(out)?;
        }
        Ok(())
    }

    fn write_held(&mut self, out: &mut dyn Write) -> io::Result<()> {
        for line in mem::take(&mut self.held) {
            let line = self.whole(line);
            self.write(&line, out)?;
        }
        Ok(())
    }

    /// Keeps a part of a line until a later line repeats it with `more` bytes at least.
    fn keep(&mut self, text: Vec<u8>, marks: &str, more: usize) {
        let len = text.len();
        if len > 0 {
            self.parts.push(Part {
                bytes: [&text, marks.as_bytes()].concat(),
                len,
                least: len + more,
            });
        }
    }

    /// Keeps the beginnings of all cut lines.
    fn keep_cut(&mut self) {
        for stream in 0..self.cut.len() {
            let text = self.cut[stream].take().unwrap_or_default();
            self.keep(text, &format!("\n{{cut {stream}}}\n"), 0);
        }
    }

    /// Writes the parts that no line has repeated, and the output behind them.
    fn release(&mut self, out: &mut dyn Write) -> io::Result<()> {
        for part in mem::take(&mut self.parts) {
            out.write_all(&part.bytes)?;
        }
        out.write_all(&self.behind)?;
        self.behind.clear();
        Ok(())
    }

    /// Returns `line` with its part from before the interruption.
    fn whole(&mut self, line: Vec<u8>) -> Vec<u8> {
        match stream(&line, b"{rest ").and_then(|stream| self.cut[stream].take()) {
            Some(begun) => [&begun, &line[b"{rest 0}".len()..]].concat(),
            None => line,
        }
    }
}

impl Part {
    fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Returns the stream of a mark that closes a line.
fn cut(line: &[u8]) -> Option<usize> {
    stream(line, b"{cut ").filter(|_| line.len() == b"{cut 0}".len())
}

/// Returns the stream in a mark with this start.
fn stream(line: &[u8], start: &[u8]) -> Option<usize> {
    match line.strip_prefix(start)? {
        [digit @ b'0'..=b'2', b'}', ..] => Some(usize::from(digit - b'0')),
        _ => None,
    }
}

/// Returns whether `line` is the beginning of a mark. No other line of a console begins with a
/// brace.
fn is_begun(line: &[u8]) -> bool {
    const MARKS: [&[u8]; 7] = [
        b"{cut 0}",
        b"{cut 1}",
        b"{cut 2}",
        b"{rest 0}",
        b"{rest 1}",
        b"{rest 2}",
        AGAIN,
    ];
    let is_start = |mark: &&[u8]| mark.len() > line.len() && mark.starts_with(line);
    !line.is_empty() && MARKS.iter().any(is_start)
}

/// Returns whether `line` is a mark of which nothing but its line feed, or a part, was sent.
fn is_incomplete(line: &[u8]) -> bool {
    line.is_empty() || is_begun(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn join(log: &[u8], chunk: usize) -> Vec<u8> {
        let (mut joiner, mut out) = (Joiner::default(), Vec::new());
        for part in log.chunks(chunk) {
            joiner.push(part, &mut out).unwrap();
            let held = joiner.held.iter().chain(joiner.cut.iter().flatten());
            let parts = joiner.parts.iter().map(|part| &part.bytes);
            let kept = held.chain(parts).chain([&joiner.line, &joiner.behind]);
            let kept: usize = kept.map(Vec::len).sum();
            assert!(kept < (1 << 20) + chunk, "{kept}");
        }
        joiner.finish(&mut out).unwrap();
        out
    }

    fn joined(log: &str) -> String {
        String::from_utf8(join(log.as_bytes(), 3)).unwrap()
    }

    #[test]
    fn marks_without_their_other_part_stay() {
        for log in [
            "{rest 0}end\nnext\n",
            "begun\n{cut 1}\n",
            "{cut 0}\nnext\n",
            "{cut 3}\n{rest 9}\n{other}\n",
            "no line feed",
            "torn\n{again}\nother\n",
            "whole\n\n{again}\nother\n",
            "begun\n{cut 2}\n\n{again}\n",
        ] {
            assert_eq!(joined(log), log);
        }
        // The stream is cut again before its rest.
        let twice = "a\n{cut 0}\nb\n{cut 0}\n{rest 0}c\n";
        assert_eq!(joined(twice), "a\n{cut 0}\nbc\n");
    }

    #[test]
    fn a_part_before_again_is_left_out_if_a_later_line_begins_with_it() {
        for (log, text) in [
            ("o\n{again}\nurgent\none\n", "\n{again}\nurgent\none\n"),
            ("on\n{cut 0}\n\n{again}\none\n", "\n{again}\none\n"),
            ("on\n\n{again}\none\n", "\n{again}\none\n"),
            // A complete line, and another one like it.
            ("one\n\n{again}\none\n", "one\n\n{again}\none\n"),
            ("one\n{cu\n{again}\ntwo\n", "one\n\n{again}\ntwo\n"),
        ] {
            assert_eq!(joined(log), text, "{log}");
        }
    }

    #[test]
    fn a_line_of_any_length_needs_bounded_memory_and_keeps_its_bytes() {
        let long = vec![b'x'; 20 * MOST];
        assert_eq!(join(&long, 4096), long);
        let long = String::from_utf8(long).unwrap();
        let after = format!("a\n{{cut 0}}\nu\n{{rest 0}}{long}\n");
        assert_eq!(joined(&after), format!("u\na{long}\n"));
        // Each part is short, and the line is not.
        let part = "y".repeat(MOST / 2);
        let parts = format!("{{rest 1}}{part}\n{{cut 1}}\n").repeat(50);
        let text = joined(&parts);
        assert_eq!(text.matches('y').count(), parts.matches('y').count());
        // Parts before `{again}` that never come again.
        let again = format!(
            "1\n{{cut 0}}\n2\n{{cut 1}}\n3\n{{again}}\n{}",
            "z\n".repeat(MOST)
        );
        assert_eq!(joined(&again), again);
    }

    proptest! {
        #[test]
        fn no_text_is_lost_and_a_joined_log_stays_as_it_is(
            lines in prop::collection::vec(
                prop_oneof![
                    "[a-c]{0,3}", "\\{cut [0-3]\\}", "\\{rest [0-3]\\}[a-c]{0,2}",
                    Just("{again}".to_owned()), Just("{re".to_owned()), Just("{".to_owned()),
                ],
                0..30,
            ),
            chunk in 1..9usize,
        ) {
            let log = lines.join("\n") + "\n";
            let text = join(log.as_bytes(), chunk);
            prop_assert_eq!(&text, &join(log.as_bytes(), 1 << 20));
            let again = |text: &[u8]| text.windows(7).filter(|part| *part == AGAIN).count();
            prop_assert_eq!(again(&text), again(log.as_bytes()));
            if again(&text) == 0 {
                let letters = |text: &[u8]| {
                    let mut letters = text.to_vec();
                    letters.retain(|byte| b"abc".contains(byte));
                    letters.sort_unstable();
                    letters
                };
                let marks = text.windows(5).filter(|part| *part == b"{cut ").count();
                let all = log.matches("{cut ").count();
                // Each mark that is gone had one `c`.
                let mut expected = letters(log.as_bytes());
                expected.drain(expected.len() - (all - marks)..);
                prop_assert_eq!(letters(&text), expected);
            }
        }
    }
}

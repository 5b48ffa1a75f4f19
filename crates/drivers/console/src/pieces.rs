//! Splits a text into records: one per line, and more for lines longer than a record.

use nostall_io::line_feed_in;

use crate::layout::{LONGEST_TARGET, PAYLOAD};

/// Rest of a text that is being split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces<'a> {
    text: &'a [u8],
    /// The next piece continues a line.
    continued: bool,
    /// Size of the target that precedes the text at the start of a line, in bytes.
    target: usize,
    done: bool,
}

/// Text of one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    pub(crate) text: &'a [u8],
    pub(crate) continued: bool,
    pub(crate) continues: bool,
}

impl<'a> Pieces<'a> {
    /// Splits `text`. A line feed at its end adds no empty line.
    #[inline]
    pub(crate) fn new(text: &'a [u8], target: usize, continued: bool) -> Self {
        Self {
            text: text.strip_suffix(b"\n").unwrap_or(text),
            continued,
            target: target.min(LONGEST_TARGET),
            done: false,
        }
    }

    /// Returns the whole text if it is one piece.
    #[inline]
    pub(crate) fn single(&self) -> Option<Piece<'a>> {
        let fits = self.text.len() <= self.room() && !has_line_feed(self.text);
        fits.then_some(Piece {
            text: self.text,
            continued: self.continued,
            continues: false,
        })
    }

    /// Returns the number of remaining bytes.
    pub(crate) fn rest(&self) -> usize {
        self.text.len()
    }

    fn room(&self) -> usize {
        if self.continued {
            PAYLOAD
        } else {
            PAYLOAD - self.target
        }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Piece<'a>> {
        (!self.done).then(|| self.split())
    }
}

impl<'a> Pieces<'a> {
    fn split(&mut self) -> Piece<'a> {
        let room = self.room();
        let window = &self.text[..self.text.len().min(room + 1)];
        let (len, skip, continues) = match line_feed_in(window) {
            Some(at) => (at, 1, false),
            None if window.len() <= room => (window.len(), 0, false),
            None => (between_characters(window, room), 0, true),
        };
        let piece = Piece {
            text: &self.text[..len],
            continued: self.continued,
            continues,
        };
        self.text = &self.text[len + skip..];
        self.continued = continues;
        self.done = skip == 0 && !continues;
        piece
    }
}

/// Returns whether there is a line feed in `text`.
///
/// The compiler vectorizes this. The search of a slice's `contains` takes several times as long for
/// a typical line.
#[inline]
fn has_line_feed(text: &[u8]) -> bool {
    let any = |bytes: &[u8; 16]| bytes.iter().fold(false, |any, &byte| any | (byte == b'\n'));
    match text.last_chunk() {
        Some(last) => text
            .as_chunks()
            .0
            .iter()
            .fold(any(last), |found, chunk| found | any(chunk)),
        None => text.contains(&b'\n'),
    }
}

/// Returns a position to split at: `at`, or up to three bytes before it, outside of a UTF-8
/// character.
fn between_characters(text: &[u8], at: usize) -> usize {
    let starts = |&at: &usize| text[at] & 0xc0 != 0x80;
    let least = at.saturating_sub(3).max(1);
    match starts(&at) {
        true => at,
        false => (least..at).rev().find(starts).unwrap_or(at),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn pieces(text: &[u8]) -> Vec<Piece<'_>> {
        Pieces::new(text, 0, false).collect()
    }

    #[test]
    fn a_line_is_a_record_and_the_last_line_feed_none() {
        let texts: Vec<_> = pieces(b"one\n\ntwo\n").iter().map(|p| p.text).collect();
        assert_eq!(texts, [&b"one"[..], b"", b"two"]);
        assert_eq!(pieces(b"").len(), 1);
        assert_eq!(pieces(b"\n").len(), 1);
        assert!(Pieces::new(b"one\n", 0, false).single().is_some());
        assert!(Pieces::new(b"one\ntwo", 0, false).single().is_none());
    }

    #[test]
    fn a_long_line_is_continued_and_no_character_is_broken() {
        let text = "\u{e4}".repeat(PAYLOAD);
        let text = &text.as_bytes()[..text.len()];
        let all = Pieces::new(text, 5, false).collect::<Vec<_>>();
        assert!(all.iter().all(|p| str::from_utf8(p.text).is_ok()));
        assert!(!all[0].continued && all[0].continues && all[1].continued);
        assert!(!all.last().unwrap().continues);
        assert_eq!(all.iter().flat_map(|p| p.text).count(), text.len());
    }

    #[test]
    fn a_line_feed_is_found_at_every_place_of_a_text_of_any_size() {
        for len in 0..=PAYLOAD {
            let mut text = std::vec![b'x'; len];
            assert!(!has_line_feed(&text));
            for at in 0..len {
                text[at] = b'\n';
                assert!(has_line_feed(&text), "{at} of {len}");
                text[at] = b'x';
            }
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_split_at_any_byte() {
        let text = [0x80; 3 * PAYLOAD];
        assert_eq!(pieces(&text).len(), 3);
    }

    #[test]
    fn a_line_that_just_fits_is_not_continued() {
        let mut text = std::vec![b'x'; PAYLOAD];
        assert_eq!(pieces(&text).len(), 1);
        text.extend(b"\ny");
        assert_eq!(pieces(&text).len(), 2);
        assert!(!pieces(&text)[0].continues);
    }
}

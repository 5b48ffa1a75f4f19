//! Newline conversion, in pieces of any size.

use nostall_io::line_feed_in;

use crate::Newline;

/// Text for a terminal: each LF is sent as CR LF, unless the settings leave it unchanged.
///
/// The pieces may end anywhere: if a CR is the last byte of one, its LF is the first of the next.
#[derive(Clone)]
pub(crate) struct Crlf<'a> {
    rest: &'a [u8],
    /// Number of bytes of `rest` that are known to be sent as they are, up to a line feed.
    plain: usize,
    newline: Newline,
    /// The CR of the LF at the front of `rest` has been returned.
    cr_sent: bool,
}

impl<'a> Crlf<'a> {
    /// Creates the text. With `cr_sent`, `text` begins with an LF whose CR has been sent.
    pub(crate) fn new(text: &'a [u8], newline: Newline, cr_sent: bool) -> Self {
        Self {
            rest: text,
            plain: 0,
            newline,
            cr_sent: cr_sent && newline == Newline::CrLf && text.first() == Some(&b'\n'),
        }
    }

    /// Returns whether the CR of the next LF has been returned.
    pub(crate) const fn cr_sent(&self) -> bool {
        self.cr_sent
    }

    /// Returns the number of remaining text bytes.
    pub(crate) const fn text_remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns the number of text bytes that end within the next `line_bytes` bytes of the line.
    pub(crate) fn text_in(mut self, line_bytes: usize) -> usize {
        let all = self.rest.len();
        if line_bytes >= self.remaining() {
            return all;
        }
        for _ in 0..line_bytes {
            self.next();
        }
        all - self.rest.len()
    }

    /// Returns the next `len` bytes, or all if fewer are left. `None` if they contain a line feed that
    /// needs a CR.
    #[inline]
    pub(crate) fn plain(&mut self, len: usize) -> Option<&'a [u8]> {
        let len = len.min(self.rest.len());
        if self.find_plain() < len {
            return None;
        }
        Some(self.take(len))
    }

    /// Returns the number of bytes before the next line feed that needs a CR.
    #[inline]
    fn find_plain(&mut self) -> usize {
        if self.plain == 0 {
            self.search();
        }
        self.plain
    }

    #[inline(never)]
    fn search(&mut self) {
        let found = match self.newline {
            Newline::CrLf => line_feed_in(self.rest),
            Newline::Lf => None,
        };
        self.plain = found.unwrap_or(self.rest.len());
    }

    #[inline]
    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        self.plain = self.plain.saturating_sub(len);
        taken
    }

    /// Fills `piece` as far as possible, and returns its content: empty only if no text is left.
    pub(crate) fn fill<'p>(&mut self, piece: &'p mut [u8]) -> &'p [u8] {
        let mut len = 0;
        while !self.rest.is_empty() && len < piece.len() {
            let room = &mut piece[len..];
            let plain = self.find_plain().min(room.len());
            if plain > 0 {
                room[..plain].copy_from_slice(self.take(plain));
                len += plain;
            } else if self.cr_sent {
                self.cr_sent = false;
                room[..1].copy_from_slice(self.take(1));
                len += 1;
            } else {
                self.cr_sent = true;
                room[0] = b'\r';
                len += 1;
            }
        }
        &piece[..len]
    }

    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        let is_due = first == b'\n' && self.newline == Newline::CrLf && !self.cr_sent;
        self.cr_sent = is_due;
        if is_due {
            return Some(b'\r');
        }
        self.rest = rest;
        self.plain = 0;
        Some(first)
    }

    /// Returns the number of remaining bytes, including CRs.
    pub(crate) fn remaining(&self) -> usize {
        let newlines = match self.newline {
            Newline::Lf => 0,
            Newline::CrLf => self.rest.iter().filter(|&&byte| byte == b'\n').count(),
        };
        self.rest.len() + newlines - usize::from(self.cr_sent)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn in_pieces(text: &[u8], size: usize) -> Vec<Vec<u8>> {
        let mut crlf = Crlf::new(text, Newline::CrLf, false);
        let mut pieces = Vec::new();
        let mut buffer = [0; 32];
        loop {
            let remaining = crlf.remaining();
            let piece = crlf.fill(&mut buffer[..size]).to_vec();
            assert_eq!(crlf.remaining(), remaining - piece.len());
            if piece.is_empty() {
                assert_eq!(remaining, 0);
                return pieces;
            }
            pieces.push(piece);
        }
    }

    #[test]
    fn a_cr_in_the_last_slot_has_its_lf_in_the_next_piece() {
        assert_eq!(
            in_pieces(b"abc\nd", 4),
            [b"abc\r".to_vec(), b"\nd".to_vec()]
        );
    }

    #[test]
    fn every_lf_gets_a_cr_even_one_that_had_one() {
        assert_eq!(in_pieces(b"\n\n\r\n", 16), [b"\r\n\r\n\r\r\n".to_vec()]);
    }

    #[test]
    fn an_lf_that_is_left_unchanged_gets_no_cr_and_counts_once() {
        let mut lf = Crlf::new(b"\n\n\r\n", Newline::Lf, true);
        assert_eq!(lf.remaining(), 4);
        assert_eq!(lf.fill(&mut [0; 16]), b"\n\n\r\n");
        assert_eq!(lf.remaining(), 0);
    }

    #[test]
    fn a_line_feed_counts_as_text_once_its_second_byte_is_out() {
        for (sent, text) in [(0, 0), (1, 1), (2, 1), (3, 2), (4, 3), (9, 3)] {
            let crlf = Crlf::new(b"a\nb", Newline::CrLf, false);
            assert_eq!(crlf.text_in(sent), text, "{sent}");
        }
    }

    proptest! {
        #[test]
        fn the_pieces_together_are_the_text_with_each_lf_replaced(
            text in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..100),
            size in 1usize..=32,
        ) {
            let mut expected = Vec::new();
            for &byte in &text {
                if byte == b'\n' {
                    expected.push(b'\r');
                }
                expected.push(byte);
            }
            let pieces = in_pieces(&text, size);
            prop_assert_eq!(pieces.concat(), expected);
            if let Some((_, full)) = pieces.split_last() {
                prop_assert!(full.iter().all(|piece| piece.len() == size));
            }
        }
    }
}

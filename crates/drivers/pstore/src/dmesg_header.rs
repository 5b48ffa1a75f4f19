//! First line of a dmesg record: its time, and whether the rest is compressed.
//!
//! Source: Linux 6.1, `fs/pstore/ram.c` (`ramoops_write_kmsg_hdr`, `ramoops_read_kmsg_hdr`), and
//! the behaviour of its `sscanf` with those formats.

use core::fmt::Write;

use arrayvec::ArrayString;

/// Header of a dmesg record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DmesgHeader {
    /// Seconds since 1970, if the clock was set.
    pub seconds: i64,
    /// Microseconds of the second. A decoded number may be of any size, as in Linux.
    pub micros: u64,
    /// Set if the contents are compressed. The method is not recorded.
    pub compressed: bool,
}

/// Size of a buffer for any header line, in bytes.
pub const DMESG_HEADER: usize = 36;

impl DmesgHeader {
    /// Returns the line and its length. Microseconds are limited to 999,999.
    pub fn encode(self) -> ([u8; DMESG_HEADER], usize) {
        let (seconds, micros) = (self.seconds, self.micros.min(999_999));
        let letter = if self.compressed { 'C' } else { 'D' };
        let mut line = ArrayString::<DMESG_HEADER>::new();
        // Every line fits.
        let _ = writeln!(line, "===={seconds}.{micros:06}-{letter}");
        let mut bytes = [0; DMESG_HEADER];
        bytes[..line.len()].copy_from_slice(line.as_bytes());
        (bytes, line.len())
    }

    /// Decodes the line at the start of `text`. Also returns the offset of the text after it.
    /// Returns `None` without such a line (Linux skips such a record).
    ///
    /// ```
    /// use nostall_pstore::DmesgHeader;
    ///
    /// let (header, len) = DmesgHeader::decode(b"====1700000000.000042-D\nPanic#1").unwrap();
    /// assert_eq!((header.seconds, header.micros), (1_700_000_000, 42));
    /// assert_eq!(len, 24);
    /// ```
    pub fn decode(text: &[u8]) -> Option<(Self, usize)> {
        Self::scan(|at| text.get(at).copied())
    }

    /// Decodes like [`decode`](Self::decode), with bytes read one by one; `None` ends them.
    ///
    /// The line is read as in Linux. White space is skipped before a number, and in any amount
    /// after the line, even if it belongs to the text. Numbers wrap. Any letter except `C` means
    /// plain. The letter may be missing (as in Linux before 3.9). A zero byte ends the text.
    ///
    /// In contrast to Linux, a compressed body starts right after the line feed: its first bytes
    /// may equal white space.
    pub fn scan(byte: impl FnMut(usize) -> Option<u8>) -> Option<(Self, usize)> {
        let mut scan = Scan { byte, at: 0 };
        for _ in 0..4 {
            scan.literal(b'=')?;
        }
        let negative = {
            scan.spaces();
            scan.literal(b'-').is_some()
        };
        let seconds = scan.digits()?.cast_signed();
        scan.literal(b'.')?;
        scan.spaces();
        let micros = scan.digits()?;

        let after_numbers = scan.at;
        let letter = scan.literal(b'-').and_then(|()| scan.any());
        if letter.is_none() {
            scan.at = after_numbers;
        }
        let compressed = letter == Some(b'C');
        if compressed {
            let _ = scan.literal(b'\n');
        } else {
            scan.spaces();
        }
        let header = Self {
            seconds: if negative {
                seconds.wrapping_neg()
            } else {
                seconds
            },
            micros,
            compressed,
        };
        Some((header, scan.at))
    }
}

struct Scan<F> {
    byte: F,
    at: usize,
}

impl<F: FnMut(usize) -> Option<u8>> Scan<F> {
    fn peek(&mut self) -> Option<u8> {
        (self.byte)(self.at).filter(|&byte| byte != 0)
    }

    fn any(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn literal(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// Skips white space as Linux's `isspace` does, in Latin-1.
    fn spaces(&mut self) {
        while let Some(9..=13 | 32 | 160) = self.peek() {
            self.at += 1;
        }
    }

    fn digits(&mut self) -> Option<u64> {
        let mut value = None::<u64>;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            let more = u64::from(digit - b'0');
            value = Some(value.unwrap_or(0).wrapping_mul(10).wrapping_add(more));
            self.at += 1;
        }
        value
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    fn decode(text: &[u8]) -> Option<(i64, u64, bool, usize)> {
        let (header, len) = DmesgHeader::decode(text)?;
        Some((header.seconds, header.micros, header.compressed, len))
    }

    #[test]
    fn a_line_is_read_as_linux_reads_it() {
        assert_eq!(decode(b"====1.000002-C\nx"), Some((1, 2, true, 15)));
        assert_eq!(decode(b"====1.000002-D\nx"), Some((1, 2, false, 15)));
        // The letter may be missing, or may be any letter.
        assert_eq!(decode(b"====1.2\nx"), Some((1, 2, false, 8)));
        assert_eq!(decode(b"====1.2-"), Some((1, 2, false, 7)));
        assert_eq!(decode(b"====1.2-\n\nx"), Some((1, 2, false, 10)));
        assert_eq!(decode(b"====1.2-Xy"), Some((1, 2, false, 9)));
        // White space before numbers, and any amount of it after the line.
        assert_eq!(
            decode(b"==== \t1.\xa02-D\n \x0b\r x"),
            Some((1, 2, false, 17))
        );
        // A compressed body begins behind the line.
        assert_eq!(decode(b"====1.2-C\n\x0b\x01"), Some((1, 2, true, 10)));
        assert_eq!(decode(b"====1.2-C\x0b"), Some((1, 2, true, 9)));
        assert_eq!(decode(b"====1.2-C"), Some((1, 2, true, 9)));
        // A sign is allowed only in the first number, and numbers wrap.
        assert_eq!(decode(b"====-1.2-C\n"), Some((-1, 2, true, 11)));
        assert_eq!(decode(b"====- 1.2-C\n"), None);
        assert_eq!(decode(b"====1.-2-C\n"), None);
        assert_eq!(
            decode(b"====18446744073709551617.2-C\n"),
            Some((1, 2, true, 29))
        );
        for none in [
            &b""[..],
            b"===",
            b"====",
            b"====1",
            b"====1.",
            b"===\0=1.2-C\n",
        ] {
            assert_eq!(decode(none), None);
        }
        assert_eq!(decode(b"====1.2\0-C\n"), Some((1, 2, false, 7)));
    }

    proptest! {
        #[test]
        fn a_written_header_is_read_back(seconds: i64, micros in 0u64..1_000_000, compressed: bool) {
            let header = DmesgHeader { seconds, micros, compressed };
            let (line, len) = header.encode();
            let text = std::format!(
                "===={seconds}.{micros:06}-{}\n",
                if compressed { 'C' } else { 'D' }
            );
            prop_assert_eq!(&line[..len], text.as_bytes());
            prop_assert_eq!(DmesgHeader::decode(&line[..len]), Some((header, len)));
        }

        #[test]
        fn no_text_causes_a_panic(text in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Some((_, len)) = DmesgHeader::decode(&text) {
                prop_assert!(len <= text.len());
            }
        }
    }
}

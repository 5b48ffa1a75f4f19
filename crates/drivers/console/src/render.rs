//! Rendering of a record as a line of text.

use core::fmt::{self, Write};
use core::mem;

use nostall_io::{is_free_of, word_of};

use crate::Record;
use crate::layout::{LONGEST_PAYLOAD, WORD};
use crate::options::Charset;
use crate::prefix::{Prefix, USUAL_START, time};

/// Marker at the end of a text that was cut off.
const CUT: &[u8] = b"[cut]";

/// Mark before the prefix of a record that continues a line. It is sent if the previous part is not
/// directly before it. Without it, the second part of a text could imitate a line. Eight bytes keep
/// the text aligned.
const CONTINUED: &[u8; 8] = b"(cont.) ";

/// Largest size of a prefix, in bytes.
const LONGEST_PREFIX: usize = 64;

/// Size of the longest text in words. It has the line of lost records, the mark, the prefix, four
/// bytes for each byte, and the markers at the end.
pub(crate) const LINE_WORDS: usize =
    (36 + CONTINUED.len() + LONGEST_PREFIX + 4 * LONGEST_PAYLOAD + 8).div_ceil(WORD);

/// Buffer that drops bytes that do not fit.
pub(crate) struct LineBuffer<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> LineBuffer<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, len: 0 }
    }

    /// Appends bytes `start` to `end` of a word in memory.
    pub(crate) fn put_word(&mut self, word: usize, start: usize, end: usize) {
        let bytes = word.to_ne_bytes();
        let fits = start == 0 && end <= self.room();
        match self.bytes.get_mut(self.len..self.len + WORD) {
            // The bytes behind `end` do not count.
            Some(to) if fits => {
                to.copy_from_slice(&bytes);
                self.len += end;
            }
            _ => self.put(&bytes[start..end]),
        }
    }

    /// Appends a short constant, without a call that copies.
    fn put_few<const N: usize>(&mut self, bytes: &[u8; N]) {
        match self.bytes.get_mut(self.len..self.len + N) {
            Some(to) => {
                to.copy_from_slice(bytes);
                self.len += N;
            }
            None => self.put(bytes),
        }
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let fits = bytes.len().min(self.room());
        self.bytes[self.len..][..fits].copy_from_slice(&bytes[..fits]);
        self.len += fits;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn room(&self) -> usize {
        self.bytes.len() - self.len
    }

    /// Takes the end of the room, for one whole text.
    pub(crate) fn split_off_line(&mut self) -> LineBuffer<'a> {
        let bytes = mem::take(&mut self.bytes);
        let place = self.len.max(bytes.len().saturating_sub(LINE_WORDS * WORD));
        let (bytes, line) = bytes.split_at_mut(place);
        self.bytes = bytes;
        LineBuffer::new(line)
    }

    pub(crate) fn into_bytes(self) -> &'a [u8] {
        &self.bytes[..self.len]
    }
}

impl Write for LineBuffer<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.put(text.as_bytes());
        Ok(())
    }
}

/// Size of a record's text, and its relation to adjacent records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) len: usize,
    /// Number of bytes before the record's own text. Omitted if the record continues a line.
    pub(crate) prefix: usize,
    pub(crate) adjoins: bool,
    pub(crate) continues: bool,
    pub(crate) raw: bool,
}

impl Shape {
    pub(crate) fn pack(self) -> usize {
        let flags = [self.adjoins, self.continues, self.raw];
        let bits = (20..).zip(flags).map(|(bit, is)| usize::from(is) << bit);
        self.len | self.prefix << 10 | bits.sum::<usize>()
    }

    pub(crate) fn unpack(word: usize) -> Self {
        let is = |bit: u32| word >> bit & 1 != 0;
        Self {
            len: word & 0x3ff,
            prefix: word >> 10 & 0x3ff,
            adjoins: is(20),
            continues: is(21),
            raw: is(22),
        }
    }
}

/// A record rendered as text.
#[derive(Debug)]
pub(crate) struct Rendered {
    bytes: [u8; LINE_WORDS * WORD],
    pub(crate) shape: Shape,
}

impl Rendered {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: [0; _],
            shape: Shape {
                len: 0,
                prefix: 0,
                adjoins: false,
                continues: false,
                raw: false,
            },
        }
    }

    /// Renders `record`, after a line that reports `gap` lost records, if any.
    pub(crate) fn render(&mut self, record: &Record, gap: u64, style: Style) {
        let mut text = LineBuffer::new(&mut self.bytes);
        self.shape = render(record, gap, style, &mut text);
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.bytes[..self.shape.len]
    }
}

/// Format of a sink's lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) charset: Charset,
    /// `None` writes the time.
    pub(crate) prefix: Option<Prefix>,
    /// Escapes raw text too, for readers other than the program's terminal.
    pub(crate) escapes_raw: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            charset: Charset::Utf8,
            prefix: None,
            escapes_raw: true,
        }
    }
}

/// Appends `[    1.234567] target: text`, after a line that reports lost records, if any. Returns
/// the shape of the appended text.
pub(crate) fn render(record: &Record, gap: u64, style: Style, line: &mut LineBuffer<'_>) -> Shape {
    let start = line.len;
    // Writing to the buffer cannot fail.
    if gap > 0 {
        let plural = if gap == 1 { "" } else { "s" };
        let _ = writeln!(line, "[{gap} record{plural} lost]");
    }
    let mut own = start;
    if record.raw {
        raw(record.text(), style, line);
    } else {
        if record.continued {
            line.put_few(CONTINUED);
        }
        prefix(record, style, line);
        own = line.len;
        escaped(record.text(), style.charset, line);
        if record.cut {
            line.put(CUT);
        }
        if !record.continues {
            line.put_few(b"\n");
        }
    }
    Shape {
        len: line.len - start,
        prefix: own - start,
        adjoins: record.adjoins,
        continues: record.continues,
        raw: record.raw,
    }
}

/// Appends a program's output.
fn raw(text: &[u8], style: Style, window: &mut LineBuffer<'_>) {
    if !style.escapes_raw {
        return window.put(text);
    }
    for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
        if at > 0 {
            window.put(b"\n");
        }
        escaped(line, style.charset, window);
    }
}

fn prefix(record: &Record, style: Style, window: &mut LineBuffer<'_>) {
    match style.prefix {
        None => {
            let (text, start) = time(record);
            match text.last_chunk::<{ 20 - USUAL_START }>() {
                Some(usual) if start == USUAL_START => window.put_few(usual),
                _ => window.put(&text[start..]),
            }
        }
        Some(prefix) => {
            let mut beginning = Beginning {
                window,
                left: LONGEST_PREFIX,
            };
            // An error comes from the hook; the text written so far counts.
            let _ = prefix(record, &mut beginning);
        }
    }
    if !record.target().is_empty() {
        escaped(record.target(), style.charset, window);
        window.put(b": ");
    }
}

/// Writer that limits the size of a prefix.
struct Beginning<'a, 'b> {
    window: &'a mut LineBuffer<'b>,
    left: usize,
}

impl Write for Beginning<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let text = &text[..text.floor_char_boundary(self.left)];
        self.left -= text.len();
        self.window.put(text.as_bytes());
        Ok(())
    }
}

/// Appends text unchanged, except for harmful characters and invalid UTF-8: each of those bytes
/// becomes `\xNN`.
#[inline(always)]
fn escaped(text: &[u8], mode: Charset, window: &mut LineBuffer<'_>) {
    // A borrow or a carry comes only from a byte that is not plain itself.
    let special = |word: usize| {
        let below = word.wrapping_sub(word_of(b' '));
        let above = word.wrapping_add(word_of(1));
        word | below | above
    };
    // Nearly every text is printable ASCII.
    match is_free_of(text, special) {
        true => window.put(text),
        false => escaped_slowly(text, mode, window),
    }
}

#[cold]
#[inline(never)]
fn escaped_slowly(text: &[u8], mode: Charset, window: &mut LineBuffer<'_>) {
    let plain = text.iter().take_while(|byte| matches!(byte, b' '..=b'~'));
    let (plain, rest) = text.split_at(plain.count());
    window.put(plain);
    for chunk in rest.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = rest.find(|c: char| !mode.passes(c)) {
            let (plain, special) = rest.split_at(at);
            window.put(plain.as_bytes());
            let len = special.chars().next().map_or(1, char::len_utf8);
            let (special, later) = special.split_at(len);
            hex(special.as_bytes(), window);
            rest = later;
        }
        window.put(rest.as_bytes());
        hex(chunk.invalid(), window);
    }
}

fn hex(bytes: &[u8], window: &mut LineBuffer<'_>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for &byte in bytes {
        let digit = |digit: u8| DIGITS[usize::from(digit & 0xf)];
        window.put(&[b'\\', b'x', digit(byte >> 4), digit(byte)]);
    }
}

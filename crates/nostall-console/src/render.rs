//! A record as a line of text.

use core::fmt::{self, Write};

use crate::options::{Charset, Prefix};
use crate::{Level, Record};

/// Marks the end of a text that was cut off.
const CUT: &[u8] = b"[cut]";

/// Most bytes of a prefix.
const LONGEST_PREFIX: usize = 64;

/// The bytes to be sent, as far as there is room for them.
pub(crate) struct LineBuffer<'a> {
    bytes: &'a mut [u8],
    len: usize,
    /// Number of bytes that are already sent: counted, not stored.
    skip: usize,
    /// Number of bytes to omit: not counted either.
    leave_out: usize,
    total: usize,
}

impl<'a> LineBuffer<'a> {
    pub(crate) fn new(bytes: &'a mut [u8]) -> Self {
        Self {
            bytes,
            len: 0,
            skip: 0,
            leave_out: 0,
            total: 0,
        }
    }

    /// A line starts, of which `skip` bytes are out.
    pub(crate) fn start(&mut self, skip: usize) -> usize {
        self.skip = skip;
        self.total
    }

    pub(crate) fn leave_out(&mut self, bytes: usize) {
        self.leave_out = bytes;
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let left_out = self.leave_out.min(bytes.len());
        self.leave_out -= left_out;
        let bytes = &bytes[left_out..];
        self.total += bytes.len();
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        let bytes = &bytes[skipped..];
        let fits = bytes.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..][..fits].copy_from_slice(&bytes[..fits]);
        self.len += fits;
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len == self.bytes.len()
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

/// Format of a sink's lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) charset: Charset,
    /// The lane that sends them.
    pub(crate) lane: usize,
    pub(crate) prefix: Prefix,
    /// Escapes raw text, too: for readers that are no terminal of the program's.
    pub(crate) escapes_raw: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self {
            charset: Charset::Utf8,
            lane: 0,
            prefix: write_time,
            escapes_raw: true,
        }
    }
}

/// Puts `[    1.234567] target: text`, and a line before if records are lost before it.
///
/// At most 476 bytes: 36 for those lost, 64 of the prefix, four for each byte, 8 more.
pub(crate) fn body(record: &Record, gap: u64, style: Style, window: &mut LineBuffer<'_>) {
    // None of these fails.
    if gap > 0 {
        let plural = if gap == 1 { "" } else { "s" };
        let _ = writeln!(window, "[{gap} record{plural} lost]");
    }
    if record.raw {
        return raw(record.text(), style, window);
    }
    prefix(record, style, window);
    escaped(record.text(), style.charset, window);
    if record.cut {
        window.put(CUT);
    }
    if !record.continues {
        window.put(b"\n");
    }
}

/// Puts bytes of a program's output.
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

/// Returns the length of the prefix and the target.
pub(crate) fn prefix_len(record: &Record, style: Style) -> usize {
    let mut window = LineBuffer::new(&mut []);
    if !record.raw {
        prefix(record, style, &mut window);
    }
    window.total()
}

fn prefix(record: &Record, style: Style, window: &mut LineBuffer<'_>) {
    let mut beginning = Beginning {
        window,
        left: LONGEST_PREFIX,
    };
    // An error is one of the hook's; the text that it has written counts.
    let _ = (style.prefix)(record, &mut beginning);
    if !record.target().is_empty() {
        escaped(record.target(), style.charset, window);
        window.put(b": ");
    }
}

/// As much of a prefix as is sent.
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

/// Writes a record's time as `[    1.234567] `, the default beginning of a line. An unknown time
/// is as many blanks.
///
/// # Errors
///
/// Those of `out`.
pub fn write_time(record: &Record, out: &mut dyn Write) -> fmt::Result {
    // As wide as the greatest known time, "[9223372036.854775] ".
    let mut text = [b' '; 20];
    let mut start = 5;
    text[18] = b']';
    if record.time.is_known() {
        let micros = record.time.0 / 1_000;
        let mut digits = (micros % 1_000_000) as u32;
        for digit in text[12..18].iter_mut().rev() {
            *digit = b'0' + (digits % 10) as u8;
            digits /= 10;
        }
        text[11] = b'.';
        let mut seconds = micros / 1_000_000;
        for at in (1..11).rev() {
            text[at] = b'0' + (seconds % 10) as u8;
            start = start.min(at - 1);
            seconds /= 10;
            if seconds == 0 {
                break;
            }
        }
    }
    text[start] = b'[';
    out.write_str(str::from_utf8(&text[start..]).unwrap_or_default())
}

/// Writes [the time](write_time), the CPU's number and the level, which has a colour, as
/// `[    1.234567]   0 INFO   `.
///
/// # Errors
///
/// The error of `out`.
pub fn write_time_cpu_level(record: &Record, out: &mut dyn Write) -> fmt::Result {
    let (colour, level) = match record.level {
        Level::Emergency => (31, "EMERG"),
        Level::Alert => (31, "ALERT"),
        Level::Critical => (31, "CRIT"),
        Level::Error => (31, "ERROR"),
        Level::Warning => (33, "WARN"),
        Level::Notice => (36, "NOTICE"),
        Level::Info => (32, "INFO"),
        Level::Debug => (34, "DEBUG"),
    };
    write_time(record, out)?;
    write!(out, "{:>3} \x1b[{colour}m{level:<6}\x1b[0m ", record.cpu)
}

/// Puts text as it is, and as `\xNN` each byte of what could harm a terminal or is no
/// UTF-8.
fn escaped(text: &[u8], mode: Charset, window: &mut LineBuffer<'_>) {
    // Nearly every text, which is not to be taken apart at each offer of it.
    if text.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t')) {
        return window.put(text);
    }
    for chunk in text.utf8_chunks() {
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
    for byte in bytes {
        let _ = write!(window, "\\x{byte:02x}");
    }
}

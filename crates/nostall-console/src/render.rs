//! A record as a line of text.

use core::fmt::{self, Write};

use crate::{Charset, Record};

/// Marks the end of a text that was cut off.
const CUT: &[u8] = b"[cut]";

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
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style {
    pub(crate) charset: Charset,
    /// The lane that sends them.
    pub(crate) lane: usize,
}

/// Puts `[    1.234567] target: text`, and a line before if records are lost before it.
///
/// At most 433 bytes: 36 for those lost, 21 of time, four for each byte, 8 more.
pub(crate) fn body(record: &Record, gap: u64, style: Style, window: &mut LineBuffer<'_>) {
    // None of these fails.
    if gap > 0 {
        let plural = if gap == 1 { "" } else { "s" };
        let _ = writeln!(window, "[{gap} record{plural} lost]");
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

/// Returns the length of the time and the target.
pub(crate) fn prefix_len(record: &Record, style: Style) -> usize {
    let mut window = LineBuffer::new(&mut []);
    prefix(record, style, &mut window);
    window.total()
}

fn prefix(record: &Record, style: Style, window: &mut LineBuffer<'_>) {
    let time = record.time.0;
    let (s, us) = (time / 1_000_000_000, time / 1_000 % 1_000_000);
    let _ = write!(window, "[{s:5}.{us:06}] ");
    if !record.target().is_empty() {
        escaped(record.target(), style.charset, window);
        window.put(b": ");
    }
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

//! Records as text with unambiguous marks. A backslash in the crashed kernel's text, or `==> ` at
//! the start of a line, is always escaped.

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

use anstyle::Style as Ansi;
use nostall_pstore::{Trace as Call, Trust};

use super::escape::{escape, escape_name};
use super::names::Names;
use super::output::Style;
use super::time::Utc;
use crate::count::counted;
use crate::{Calls, Content, Dmesg, Packing, Record, Text};

/// Start of each line that the decoder adds.
pub const HEADING: &str = "==> ";

/// Marks around unverified bytes.
const DOUBT: [&str; 2] = ["\\unverified{", "\\}"];

/// Number of ranges per line.
const RANGES: usize = 6;

/// Number of bytes escaped at once.
const PIECE: usize = 4096;

/// Function that reads the calls of a trace in the requested order.
pub type CallSequence = fn(&Calls<'_>, &mut dyn FnMut(Call) -> io::Result<()>) -> io::Result<()>;

/// Writes a heading line above the records of a region.
pub fn heading(line: &str, style: Style, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let heading = style.heading();
    writeln!(out, "{heading}{HEADING}{line}{heading:#}")
}

/// Writes a record: its summary, its contents, an empty line.
pub fn write(
    record: &Record<'_>,
    order: CallSequence,
    names: &Names,
    style: Style,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    summary(record, style, out)?;
    contents(record, order, names, style, out)?;
    // The contents of a ring may end in the middle of a line.
    let ends_open = match &record.content {
        Content::Dmesg(Dmesg { packing, .. }) if *packing == Packing::Packed => false,
        Content::Dmesg(Dmesg { text, .. }) | Content::Console(text) | Content::Pmsg(text) => {
            text.bytes.last().is_some_and(|&byte| byte != b'\n')
        }
        Content::Ftrace(_) => false,
    };
    out.write_all(if ends_open { b"\n\n" } else { b"\n" })
}

/// Writes the record's kind, size and trust level, and lines with the unverified ranges, if any.
pub fn summary(
    record: &Record<'_>,
    style: Style,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    let heading = style.heading();
    write!(
        out,
        "{heading}{HEADING}{} {}{heading:#}: ",
        record.kind(),
        record.index
    )?;
    let mut ranges = &[][..];
    match &record.content {
        Content::Dmesg(dmesg) => {
            about_dmesg(dmesg, record.stored, out)?;
            ranges = &dmesg.text.unverified;
        }
        Content::Console(text) | Content::Pmsg(text) => {
            write!(out, "{}", counted(text.bytes.len(), "byte"))?;
            ranges = &text.unverified;
        }
        Content::Ftrace(calls) => {
            let (calls, cpus) = (counted(calls.len(), "call"), counted(calls.cpus(), "CPU"));
            write!(out, "{calls} on {cpus}")?;
        }
    }
    if record.full {
        write!(out, ", older ones overwritten")?;
    }
    if let Some(ecc) = record.ecc {
        match (ecc.corrected_bytes, ecc.bad_blocks) {
            (0, 0) => write!(out, "; ECC: no errors")?,
            (bytes, 0) => write!(out, "; ECC: {} corrected", counted(bytes, "byte"))?,
            (bytes, bad) => write!(
                out,
                "; ECC: {} corrected, {bad} of {} failed",
                counted(bytes, "byte"),
                counted(ecc.blocks, "block")
            )?,
        }
    }
    worth(record, style, out)?;
    for ranges in self::ranges(ranges) {
        writeln!(out, "{HEADING}  unverified bytes: {ranges}")?;
    }
    Ok(())
}

/// Formats ranges of bytes, several per line.
pub fn ranges(ranges: &[Range<usize>]) -> impl Iterator<Item = String> {
    ranges.chunks(RANGES).map(|ranges| {
        let ranges = ranges
            .iter()
            .map(|range| format!("{}..{}", range.start, range.end));
        ranges.collect::<Vec<_>>().join(", ")
    })
}

/// Returns a trust level as text, with the reason if there is only one.
pub fn trust(trust: Trust) -> &'static str {
    match trust {
        Trust::Unchecked => "unchecked: no error correction",
        _ => trust.name(),
    }
}

fn about_dmesg(dmesg: &Dmesg, stored: usize, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    if let Some(header) = dmesg.header {
        write!(out, "{}", Utc(header.seconds, header.micros))?;
        if dmesg.header_trust == Trust::Unverified {
            write!(out, " (unverified)")?;
        }
        write!(out, ", ")?;
    } else {
        write!(out, "no header, so Linux would not show it; ")?;
    }
    let len = counted(dmesg.text.bytes.len(), "byte");
    match &dmesg.packing {
        Packing::Plain => write!(out, "{len}"),
        Packing::Unpacked(method) => write!(out, "{len}, {stored} by {method}"),
        Packing::Cut(method) => write!(
            out,
            "{len}, {stored} by {method}, cut: the rest is damaged or too long"
        ),
        Packing::Packed => write!(
            out,
            "{len} that could not be decompressed (damaged, or --compression is another)"
        ),
    }
}

/// Ends the summary's line with the trust level.
fn worth(record: &Record<'_>, style: Style, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let doubt = if record.trust == Trust::Unverified {
        style.doubt()
    } else {
        Ansi::new()
    };
    write!(out, "; {doubt}{}{doubt:#}", trust(record.trust))?;
    match (&record.content, record.trust) {
        (_, Trust::Verified | Trust::Corrected(_) | Trust::Unchecked) => {}
        (Content::Ftrace(calls), Trust::Unverified) => {
            let all = counted(calls.len(), "call");
            write!(out, ": {} of {all}", calls.unverified())?;
        }
        (_, Trust::Unverified) if record.header_trust == Trust::Unverified => {
            write!(
                out,
                ": by a zone header that is damaged or was being written"
            )?;
        }
        (
            Content::Dmesg(Dmesg { text, .. }) | Content::Console(text) | Content::Pmsg(text),
            Trust::Unverified,
        ) => {
            let bytes: usize = text.unverified.iter().map(Range::len).sum();
            write!(out, ": {bytes} of {}", counted(text.bytes.len(), "byte"))?;
        }
    }
    writeln!(out)
}

/// Writes the contents of a record.
fn contents(
    record: &Record<'_>,
    order: CallSequence,
    names: &Names,
    style: Style,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    match &record.content {
        Content::Dmesg(dmesg) if dmesg.packing == Packing::Packed => {
            writeln!(
                out,
                "{HEADING}  not shown: --format linux writes the compressed bytes"
            )
        }
        Content::Dmesg(Dmesg { text, .. }) | Content::Console(text) | Content::Pmsg(text) => {
            words(text, style, out)
        }
        Content::Ftrace(calls) => {
            let width = calls.latest().to_string().len();
            order(calls, &mut |trace| call(&trace, names, width, style, out))
        }
    }
}

/// Writes a record's file: its contents, or the bytes of a record that is still compressed.
pub fn file(
    record: &Record<'_>,
    order: CallSequence,
    names: &Names,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    match &record.content {
        Content::Dmesg(dmesg) if dmesg.packing == Packing::Packed => {
            out.write_all(&dmesg.text.bytes)
        }
        _ => contents(record, order, names, Style::Plain, out),
    }
}

/// Writes the line of a part: its title, a description and its trust level.
pub fn part(
    title: &str,
    about: &str,
    level: Trust,
    style: Style,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    let (heading, trust) = (style.heading(), trust(level));
    writeln!(
        out,
        "{heading}{HEADING}{title}{heading:#}: {about}; {trust}"
    )
}

/// Writes lines of a trace record, with marks if it is unverified.
pub fn trace_lines(
    lines: &[u8],
    is_doubtful: bool,
    style: Style,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    let doubt = if is_doubtful {
        style.doubt()
    } else {
        Ansi::new()
    };
    let mark = if is_doubtful { " (unverified)" } else { "" };
    let lines = lines.strip_suffix(b"\n").unwrap_or(lines);
    for line in lines.split(|byte| *byte == b'\n') {
        write!(out, "{doubt}")?;
        passage(line, true, out)?;
        writeln!(out, "{mark}{doubt:#}")?;
    }
    Ok(())
}

/// Writes a text. Marks enclose the unverified parts of each line.
fn words(text: &Text, style: Style, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let (doubt, [open, close]) = (style.doubt(), DOUBT);
    let mut ranges = &text.unverified[..];
    let mut at = 0;
    for line in text.bytes.split_inclusive(|&byte| byte == b'\n') {
        let (start, end) = (at, at + line.len());
        while at < end {
            while let [first, later @ ..] = ranges
                && first.end <= at
            {
                ranges = later;
            }
            let (until, is_doubtful) = match ranges.first() {
                Some(range) if range.start <= at => (range.end.min(end), true),
                Some(range) => (range.start.min(end), false),
                None => (end, false),
            };
            let part = &text.bytes[at..until];
            let (part, newline) = match part.strip_suffix(b"\n") {
                Some(part) => (part, "\n"),
                None => (part, ""),
            };
            if is_doubtful {
                write!(out, "{doubt}{open}")?;
                passage(part, false, out)?;
                write!(out, "{close}{doubt:#}{newline}")?;
            } else {
                passage(part, at == start, out)?;
                write!(out, "{newline}")?;
            }
            at = until;
        }
    }
    Ok(())
}

/// Writes bytes of the crashed machine, with every backslash escaped, and the start of each line
/// that looks like a heading. `is_start` is set if the first byte starts a line.
pub fn passage(
    bytes: &[u8],
    mut is_start: bool,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    for mut line in bytes.split_inclusive(|&byte| byte == b'\n') {
        if is_start && line.starts_with(HEADING.as_bytes()) {
            out.write_all(b"\\x3d")?;
            line = &line[1..];
        }
        is_start = true;
        let mut parts = line.split(|&byte| byte == b'\\');
        safe(parts.next().unwrap_or_default(), out)?;
        for part in parts {
            out.write_all(b"\\x5c")?;
            safe(part, out)?;
        }
    }
    Ok(())
}

/// Writes bytes of the crashed machine, without characters that control a terminal.
fn safe(mut bytes: &[u8], out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut count = bytes.len().min(PIECE);
        // Do not split a character, which has at most four bytes.
        let is_inside = |at: &usize| bytes.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
        let start = (count.saturating_sub(3)..=count).rfind(|at| !is_inside(at));
        count = start.filter(|&start| start > 0).unwrap_or(count);
        let (now, later) = bytes.split_at(count);
        out.write_all(escape(now).as_bytes())?;
        bytes = later;
    }
    Ok(())
}

/// A writer that escapes the bytes of the crashed machine for a terminal.
pub struct Escaped<'a, W: ?Sized>(pub &'a mut W);

impl<W: Write + ?Sized> Write for Escaped<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        safe(bytes, self.0)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn call(
    trace: &Call,
    names: &Names,
    width: usize,
    style: Style,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    let record = trace.record;
    let function = Named(names.function(record.ip), record.ip);
    let caller = Named(names.place(record.parent), record.parent);
    let unverified = trace.trust == Trust::Unverified;
    let doubt = if trace.suspect || unverified {
        style.doubt()
    } else {
        Ansi::new()
    };
    write!(
        out,
        "{doubt}{:>width$} CPU {:<3} {function} <- {caller}",
        record.stamp, record.cpu
    )?;
    let marks = [(trace.suspect, " (suspect)"), (unverified, " (unverified)")];
    for (_, mark) in marks.iter().filter(|(is_so, _)| *is_so) {
        out.write_all(mark.as_bytes())?;
    }
    writeln!(out, "{doubt:#}")
}

/// A name, or the address without one.
struct Named(Option<String>, u64);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(Some(name), _) => f.write_str(&escape_name(name)),
            Self(None, address) => write!(f, "{address:#x}"),
        }
    }
}

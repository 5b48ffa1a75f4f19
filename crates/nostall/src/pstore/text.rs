//! Records for people.

use std::fmt;
use std::io::{self, Write};

use anstyle::Style as Ansi;
use nostall_pstore::{Content, Dmesg, Packing, Record, Text, Trace, Trust};

use super::names::Names;
use super::time::Utc;
use crate::escape::escape;
use crate::output::Style;

/// A record: its summary, what is in it, an empty line.
pub fn write(
    record: &Record,
    names: &Names,
    style: Style,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    summary(record, style, out)?;
    contents(record, names, style, out)?;
    // A ring ends where it ends, in the middle of a line perhaps.
    let ends_open = match &record.content {
        Content::Dmesg(Dmesg { text, .. }) | Content::Console(text) | Content::Pmsg(text) => {
            text.bytes.last().is_some_and(|&byte| byte != b'\n')
        }
        Content::Ftrace(_) => false,
    };
    out.write_all(if ends_open { b"\n\n" } else { b"\n" })
}

/// What it is, in a line.
pub fn summary(record: &Record, style: Style, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let (heading, doubt) = (style.heading(), style.doubt());
    write!(
        out,
        "{heading}{} {}{heading:#}: ",
        record.kind(),
        record.index
    )?;
    match &record.content {
        Content::Dmesg(dmesg) => about_dmesg(dmesg, record.stored, out)?,
        Content::Console(text) | Content::Pmsg(text) => {
            write!(out, "{} bytes", text.bytes.len())?;
        }
        Content::Ftrace(traces) => about_traces(traces, out)?,
    }
    if record.full {
        write!(out, ", older ones overwritten")?;
    }
    if let Some(ecc) = record.ecc {
        match (ecc.corrected_bytes, ecc.bad_blocks) {
            (0, 0) => write!(out, "; ECC: no errors")?,
            (bytes, 0) => write!(out, "; ECC: {bytes} bytes corrected")?,
            (bytes, bad) => write!(
                out,
                "; ECC: {bytes} bytes corrected, {doubt}{bad} of {} blocks unverified{doubt:#}",
                ecc.blocks
            )?,
        }
    }
    writeln!(out)
}

fn about_dmesg(dmesg: &Dmesg, stored: usize, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    if let Some(header) = dmesg.header {
        write!(out, "{}, ", Utc(header.seconds, header.micros))?;
    } else {
        write!(out, "no header, so Linux would not show it; ")?;
    }
    let len = dmesg.text.bytes.len();
    match &dmesg.packing {
        Packing::Plain => write!(out, "{len} bytes"),
        Packing::Unpacked(method) => write!(out, "{len} bytes, {stored} by {method}"),
        Packing::Packed => write!(
            out,
            "{len} bytes that could not be decompressed (damaged, or --compress is another)"
        ),
    }
}

fn about_traces(traces: &[Trace], out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let mut cpus = [false; 256];
    for trace in traces {
        cpus[usize::from(trace.record.cpu)] = true;
    }
    let cpus = cpus.into_iter().filter(|seen| *seen).count();
    write!(out, "{} calls on {cpus} CPUs", traces.len())?;
    let unverified = traces
        .iter()
        .filter(|trace| trace.trust == Trust::Unverified);
    match unverified.count() {
        0 => Ok(()),
        count => write!(out, ", {count} of them unverified"),
    }
}

/// What is in it.
pub fn contents(
    record: &Record,
    names: &Names,
    style: Style,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    match &record.content {
        Content::Dmesg(dmesg) if dmesg.packing == Packing::Packed && style != Style::Plain => {
            writeln!(out, "(not shown on a terminal)")
        }
        Content::Dmesg(Dmesg { text, .. }) | Content::Console(text) | Content::Pmsg(text) => {
            words(text, style, out)
        }
        Content::Ftrace(traces) => {
            let latest = traces.iter().map(|trace| trace.record.stamp).max();
            let width = latest.unwrap_or(0).to_string().len();
            let mut traces = traces.iter();
            traces.try_for_each(|trace| call(trace, names, width, style, out))
        }
    }
}

fn words(text: &Text, style: Style, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    let doubt = style.doubt();
    let mut at = 0;
    for range in &text.unverified {
        passage(&text.bytes[at..range.start], style, out)?;
        write!(out, "{doubt}")?;
        passage(&text.bytes[range.clone()], style, out)?;
        write!(out, "{doubt:#}")?;
        at = range.end;
    }
    passage(&text.bytes[at..], style, out)
}

/// Bytes of the dead machine.
pub fn passage(bytes: &[u8], style: Style, out: &mut (impl Write + ?Sized)) -> io::Result<()> {
    match style {
        Style::Plain => out.write_all(bytes),
        Style::Safe | Style::Colour => out.write_all(escape(bytes).as_bytes()),
    }
}

fn call(
    trace: &Trace,
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

/// A name, or else the address.
struct Named(Option<String>, u64);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(Some(name), _) => f.write_str(&escape(name.as_bytes())),
            Self(None, address) => write!(f, "{address:#x}"),
        }
    }
}

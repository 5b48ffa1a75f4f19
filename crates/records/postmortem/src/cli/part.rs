//! Parts of an image other than ramoops regions, and their output.

use std::io::{self, Write};
use std::ops::Range;

use nostall_tracefile::linux::Formats;

use super::buffers;
use super::escape::escape_name;
use super::input::Input;
use super::json::{self, About};
use super::json_buffer;
use super::outcome::{Outcome, Status};
use super::output::Style;
use super::rings::Ring;
use super::text::{self, Escaped};
use super::traces::Trace;
use crate::discovery::Discovery;
use crate::ftrace_ring::{Kernel, OtherKernel, RingBuffer, TraceText};
use crate::memory::Memory;
use crate::symbols::Symbols;

/// Arguments with which the parts of an image are opened.
pub struct Opening<'a> {
    pub image: &'a Memory,
    pub discovery: &'a Discovery<'a>,
    /// Whether everything is shown.
    pub all: bool,
    pub symbols: Option<&'a Symbols>,
    pub formats: &'a Formats,
    /// KASLR offset, if the user gives it.
    pub offset: Option<u64>,
}

/// A log ring, a trace, or a ring buffer of Linux.
pub trait Part {
    /// Returns the name of the kind in headings.
    fn kind(&self) -> &'static str;

    /// Returns the physical address.
    fn address(&self) -> u64;

    /// Returns the file name.
    fn name(&self) -> String;

    /// Returns the memory in which other kinds have no parts, if any.
    fn takes(&self) -> Option<Range<u64>> {
        None
    }

    /// Prepares for the functions below. Called once.
    fn prepare(&mut self) {}

    /// Returns a one-line description.
    fn describe(&self) -> String;

    /// Returns explanations of the part.
    fn explain(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the result if the part cannot be shown.
    fn fault(&self, _input: &Input) -> Option<Outcome> {
        None
    }

    /// Writes a line with its numbers and trust level.
    fn summary(&self, style: Style, out: &mut dyn Write) -> io::Result<()>;

    /// Writes the records as text.
    fn text(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()>;

    /// Writes the file contents in Linux's form.
    fn linux(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()>;

    /// Writes its JSON line and those of its records.
    fn json(&self, about: &About<'_>, out: &mut dyn Write) -> io::Result<()>;

    /// Returns notes on the written records.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns its contribution to the exit status.
    fn outcome(&self, input: &Input) -> Outcome;
}

/// The parts of one kind, in the order of output.
pub type Parts<'a> = Vec<Box<dyn Part + 'a>>;

/// Returns the log rings outside the parts that were taken.
pub fn log_rings<'a>(opening: &Opening<'a>, taken: &[Range<u64>]) -> Parts<'a> {
    let rings = opening.discovery.log_rings(taken).into_iter().enumerate();
    let rings = rings.map(|(index, ring)| Box::new(Ring::new(index, ring, opening.all)) as _);
    rings.collect()
}

/// Returns the traces of nostall-trace outside the parts that were taken.
pub fn traces<'a>(opening: &Opening<'a>, taken: &[Range<u64>]) -> Parts<'a> {
    let regions = opening.discovery.traces(taken);
    let (symbols, offset) = (opening.symbols, opening.offset);
    let regions = regions.into_iter().enumerate();
    let traces =
        regions.map(|(index, region)| Box::new(Trace::new(index, region, symbols, offset)) as _);
    traces.collect()
}

/// Returns Linux's ring buffers outside the parts that were taken.
pub fn ring_buffers<'a>(opening: &Opening<'a>, taken: &[Range<u64>]) -> Parts<'a> {
    let buffers = opening.discovery.ring_buffers(taken).into_iter();
    let buffers = buffers.map(|buffer| {
        Box::new(Buffer {
            image: opening.image,
            kernel: Ok(Kernel::unnamed(&buffer)),
            buffer,
            symbols: opening.symbols,
            formats: opening.formats,
            offset: opening.offset,
            reasons: Vec::new(),
        }) as _
    });
    buffers.collect()
}

/// Escapes control characters, unless the output is a file or pipe.
fn safe(
    style: Style,
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    match style {
        Style::Plain => write(out),
        Style::Safe | Style::Colour => write(&mut Escaped(out)),
    }
}

impl Part for Ring<'_> {
    fn kind(&self) -> &'static str {
        "log ring"
    }
    fn address(&self) -> u64 {
        Ring::address(self)
    }
    fn name(&self) -> String {
        Ring::name(self)
    }
    fn describe(&self) -> String {
        Ring::describe(self)
    }
    fn summary(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        text::ring_summary(self, style, out)
    }
    fn text(&mut self, _: Style, out: &mut dyn Write) -> io::Result<()> {
        text::ring_lines(self, out)
    }
    fn linux(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        safe(style, out, |out| self.write_to(out))
    }
    fn json(&self, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
        json::ring(about, self, out)
    }
    fn outcome(&self, input: &Input) -> Outcome {
        Ring::outcome(self, input)
    }
}

impl Part for Trace<'_> {
    fn kind(&self) -> &'static str {
        "trace"
    }
    fn address(&self) -> u64 {
        Trace::address(self)
    }
    fn name(&self) -> String {
        Trace::name(self)
    }
    fn takes(&self) -> Option<Range<u64>> {
        Some(self.range())
    }
    fn prepare(&mut self) {
        self.read();
    }
    fn describe(&self) -> String {
        Trace::describe(self)
    }
    fn explain(&self) -> Vec<String> {
        let name = self.name();
        let lines = self.notes().iter();
        lines
            .map(|line| format!("{name}: {}", escape_name(line)))
            .collect()
    }
    fn summary(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        text::trace_summary(self, style, out)
    }
    fn text(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        self.graph(style, out)
    }
    fn linux(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        self.graph(style, out)
    }
    fn json(&self, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
        json::trace(about, self, out)
    }
    fn outcome(&self, input: &Input) -> Outcome {
        Trace::outcome(self, input)
    }
}

/// A ring buffer of Linux, and the kernel that wrote it.
struct Buffer<'a> {
    image: &'a Memory,
    buffer: RingBuffer,
    symbols: Option<&'a Symbols>,
    formats: &'a Formats,
    offset: Option<u64>,
    kernel: Result<Kernel, OtherKernel>,
    /// Notes on the written records.
    reasons: Vec<String>,
}

impl Buffer<'_> {
    fn kernel(&self) -> io::Result<&Kernel> {
        self.kernel
            .as_ref()
            .map_err(|other| io::Error::other(other.clone()))
    }
}

impl Part for Buffer<'_> {
    fn kind(&self) -> &'static str {
        "ring buffer"
    }
    fn address(&self) -> u64 {
        self.buffer.address
    }
    fn name(&self) -> String {
        buffers::name(&self.buffer)
    }
    fn prepare(&mut self) {
        let (symbols, formats) = (self.symbols.cloned(), self.formats.clone());
        self.kernel = Kernel::new(self.image, &self.buffer, symbols, formats, self.offset);
    }
    fn describe(&self) -> String {
        buffers::describe(&self.buffer)
    }
    fn explain(&self) -> Vec<String> {
        let note = self.kernel.as_ref().ok().and_then(Kernel::note);
        let notes = self.buffer.notes().into_iter();
        notes.chain(note).collect()
    }
    fn fault(&self, input: &Input) -> Option<Outcome> {
        let other = self.kernel.as_ref().err()?;
        let message = format!("{input}: ring buffer at {:#x}: {other}", self.address());
        Some(Outcome::none(Status::Error, message))
    }
    fn summary(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        buffers::summary(&self.buffer, style, out)
    }
    fn text(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let mut text = TraceText::new(self.kernel()?, &self.buffer);
        buffers::lines(self.image, &self.buffer, &mut text, style, out)?;
        self.reasons = text.reasons().iter().cloned().collect();
        Ok(())
    }
    fn linux(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let mut text = TraceText::as_linux(self.kernel()?, &self.buffer);
        safe(style, out, |out| {
            buffers::write_to(self.image, &self.buffer, &mut text, out)
        })?;
        self.reasons = text.reasons().iter().cloned().collect();
        Ok(())
    }
    fn json(&self, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
        json_buffer::buffer(about, self.image, &self.buffer, self.kernel()?, out)
    }
    fn notes(&self) -> Vec<String> {
        self.reasons.clone()
    }
    fn outcome(&self, input: &Input) -> Outcome {
        buffers::outcome(&self.buffer, input)
    }
}

//! Parts of an image other than ramoops regions, and their output.

use std::io::{self, Write};

use super::buffers;
use super::input::Input;
use super::json::{self, About};
use super::json_buffer;
use super::outcome::Outcome;
use super::output::Style;
use super::rings::Ring;
use super::text::{self, Escaped};
use super::traces::Trace;
use crate::ftrace_ring::{Kernel, RingBuffer, TraceText};
use crate::memory::Memory;

/// A log ring, a trace, or a ring buffer of Linux.
pub trait Part {
    /// Name of the kind in headings.
    const KIND: &'static str;

    /// Returns the physical address.
    fn address(&self) -> u64;

    /// Returns the file name.
    fn name(&self) -> String;

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

impl Part for &Ring<'_> {
    const KIND: &'static str = "log ring";

    fn address(&self) -> u64 {
        self.address
    }
    fn name(&self) -> String {
        Ring::name(self)
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

impl Part for &Trace<'_> {
    const KIND: &'static str = "trace";

    fn address(&self) -> u64 {
        Trace::address(self)
    }
    fn name(&self) -> String {
        Trace::name(self)
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

/// A ring buffer, with the kernel that wrote it.
pub struct Buffer<'a> {
    pub image: &'a Memory,
    pub buffer: &'a RingBuffer,
    pub kernel: &'a Kernel,
    pub text: TraceText<'a>,
}

impl Part for Buffer<'_> {
    const KIND: &'static str = "ring buffer";

    fn address(&self) -> u64 {
        self.buffer.address
    }
    fn name(&self) -> String {
        buffers::name(self.buffer)
    }
    fn summary(&self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        buffers::summary(self.buffer, style, out)
    }
    fn text(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        buffers::lines(self.image, self.buffer, &mut self.text, style, out)
    }
    fn linux(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let (image, buffer, text) = (self.image, self.buffer, &mut self.text);
        safe(style, out, |out| {
            buffers::write_to(image, buffer, text, out)
        })
    }
    fn json(&self, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
        json_buffer::buffer(about, self.image, self.buffer, self.kernel, out)
    }
    fn notes(&self) -> Vec<String> {
        self.text.reasons().iter().cloned().collect()
    }
    fn outcome(&self, input: &Input) -> Outcome {
        buffers::outcome(self.buffer, input)
    }
}

//! Linux's persistent ring buffers in an image, and their output.

use std::io::{self, Write};
use std::ops::Range;

use nostall_pstore::Trust;
use nostall_tracefile::linux::Formats;

use super::input::Input;
use super::json::About;
use super::json_buffer;
use super::outcome::{Outcome, Status};
use super::output::Style;
use super::part::{Opening, Output, Part, Parts, Turn, safe};
use super::text::{self, HEADING};
use crate::count::counted;
use crate::ftrace_ring::{Kernel, MOST, Merge, MergeBy, OtherKernel, RingBuffer, TraceText};
use crate::memory::Memory;
use crate::symbols::Symbols;

/// The output of ring buffers.
pub static OUTPUT: Output = Output {
    plural: "ring buffers",
    most: MOST,
    takes_memory: false,
    turn: Turn::OnDemand,
    is_record: true,
    open,
};

fn open<'a>(opening: &Opening<'a>, taken: &[Range<u64>]) -> Parts<'a> {
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
        format!("ftrace-ring-{}.trace", self.buffer.index)
    }

    fn prepare(&mut self, in_memory: Option<&Symbols>) {
        let kernel = |symbols: Option<&Symbols>| {
            let (symbols, formats) = (symbols.cloned(), self.formats.clone());
            Kernel::new(self.image, &self.buffer, symbols, formats, self.offset)
        };
        // The log's kernel may be another than the one that wrote the ring buffer.
        let named = in_memory.and_then(|symbols| kernel(Some(symbols)).ok());
        let named = named.filter(|kernel| self.symbols.is_none() && kernel.offset().is_some());
        self.kernel = named.map_or_else(|| kernel(self.symbols), Ok);
    }

    fn describe(&self) -> String {
        let RingBuffer { address, cpus, .. } = &self.buffer;
        format!(
            "a ring buffer of {} at {address:#x}: {} on {}",
            self.buffer.version.name(),
            counted(self.buffer.records(), "record"),
            counted(cpus.len(), "CPU")
        )
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
        summary(&self.buffer, style, out)
    }

    fn text(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let mut text = TraceText::new(self.kernel()?, &self.buffer);
        lines(self.image, &self.buffer, &mut text, style, out)?;
        self.reasons = text.reasons().iter().cloned().collect();
        Ok(())
    }

    fn linux(&mut self, style: Style, out: &mut dyn Write) -> io::Result<()> {
        let mut text = TraceText::as_linux(self.kernel()?, &self.buffer);
        safe(style, out, |out| {
            write_to(self.image, &self.buffer, &mut text, out)
        })?;
        self.reasons = text.reasons().iter().cloned().collect();
        Ok(())
    }

    fn json(&self, about: &About<'_>, out: &mut dyn Write) -> io::Result<()> {
        json_buffer::buffer(
            about,
            &self.name(),
            self.image,
            &self.buffer,
            self.kernel()?,
            out,
        )
    }

    fn notes(&self) -> Vec<String> {
        self.reasons.clone()
    }

    fn outcome(&self, input: &Input) -> Outcome {
        outcome(&self.buffer, input)
    }
}

/// Returns the buffer's contribution to the exit status.
fn outcome(buffer: &RingBuffer, input: &Input) -> Outcome {
    let at = buffer.address;
    match buffer.records() {
        0 if buffer.is_damaged() => {
            let message = format!("{input}: no record of the ring buffer at {at:#x} can be read");
            Outcome::none(Status::Damaged, message)
        }
        0 => Outcome::none(
            Status::Empty,
            format!("{input}: the ring buffer at {at:#x} is empty"),
        ),
        records => Outcome {
            status: Status::Records,
            records: records as usize,
            message: None,
        },
    }
}

/// Writes a line with the buffer's numbers and trust level, and lines about its parts.
fn summary(buffer: &RingBuffer, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let about = format!(
        "at {:#x}, of {}, {}",
        buffer.address,
        buffer.version.name(),
        counted(buffer.records(), "record")
    );
    let title = format!("ring buffer {}", buffer.index);
    text::part(&title, &about, Trust::Unchecked, style, out)?;
    for cpu in &buffer.cpus {
        let (number, records) = (cpu.number, counted(cpu.records(), "record"));
        let subbufs = counted(cpu.pages.len(), "sub-buffer");
        writeln!(out, "{HEADING}  CPU {number}: {records} in {subbufs}")?;
    }
    for note in buffer.notes() {
        writeln!(out, "{HEADING}  {note}")?;
    }
    Ok(())
}

/// Writes the records, boot by boot, with their marks.
fn lines(
    image: &Memory,
    buffer: &RingBuffer,
    text: &mut TraceText<'_>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut merge = Merge::new(image, buffer, MergeBy::Boot);
    let mut boot = 0;
    while let Some(record) = merge.next(image, buffer) {
        if record.boot > boot {
            boot = record.boot;
            writeln!(out, "{HEADING}  boot {boot}")?;
        }
        if record.lost {
            writeln!(out, "{HEADING}  CPU {}: lost records", record.cpu)?;
        }
        let leaf = text.leaf(image, buffer, &mut merge, &record);
        let all = text.line(&record, leaf.as_ref());
        let is_doubtful = [Some(&record), leaf.as_ref()].into_iter().flatten();
        let is_doubtful = is_doubtful
            .into_iter()
            .any(|record| record.trust == Trust::Unverified);
        text::trace_lines(&all, is_doubtful, style, out)?;
    }
    for cpu in merge.lost_at_end(buffer) {
        writeln!(out, "{HEADING}  CPU {cpu}: lost records")?;
    }
    Ok(())
}

/// Writes the body of Linux's file `trace`.
fn write_to(
    image: &Memory,
    buffer: &RingBuffer,
    text: &mut TraceText<'_>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut merge = Merge::new(image, buffer, MergeBy::Linux);
    text.write_all(image, buffer, &mut merge, out)
}

//! Linux's persistent ring buffers in an image, as text.

use std::io::{self, Write};

use nostall_pstore::Trust;

use super::input::Input;
use super::outcome::{Outcome, Status};
use super::output::Style;
use super::text::{self, HEADING};
use crate::count::counted;
use crate::ftrace_ring::{Merge, MergeBy, RingBuffer, TraceText};
use crate::memory::Memory;

/// Returns the name of a buffer's file.
pub fn name(buffer: &RingBuffer) -> String {
    format!("ftrace-ring-{}.trace", buffer.index)
}

/// Returns a one-line description of the buffer.
pub fn describe(buffer: &RingBuffer) -> String {
    let RingBuffer { address, cpus, .. } = buffer;
    format!(
        "a ring buffer of {} at {address:#x}: {} on {}",
        buffer.version.name(),
        counted(buffer.records(), "record"),
        counted(cpus.len(), "CPU")
    )
}

/// Returns the buffer's contribution to the exit status.
pub fn outcome(buffer: &RingBuffer, input: &Input) -> Outcome {
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
pub fn summary(
    buffer: &RingBuffer,
    style: Style,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    let heading = style.heading();
    let RingBuffer { index, address, .. } = buffer;
    writeln!(
        out,
        "{heading}{HEADING}ring buffer {index}{heading:#}: at {address:#x}, of {}, {}; {}",
        buffer.version.name(),
        counted(buffer.records(), "record"),
        text::trust(Trust::Unchecked)
    )?;
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
pub fn lines(
    image: &Memory,
    buffer: &RingBuffer,
    text: &mut TraceText<'_>,
    style: Style,
    out: &mut (impl Write + ?Sized),
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
pub fn write_to(
    image: &Memory,
    buffer: &RingBuffer,
    text: &mut TraceText<'_>,
    out: &mut (impl Write + ?Sized),
) -> io::Result<()> {
    let mut merge = Merge::new(image, buffer, MergeBy::Linux);
    text.write_all(image, buffer, &mut merge, out)
}

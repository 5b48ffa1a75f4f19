//! A part of an image other than a ramoops region: a record of one kind, and its output.

use std::io::{self, Write};
use std::ops::Range;

use nostall_pstore::Trust;
use nostall_tracefile::linux::Formats;

use super::input::Input;
use super::json::About;
use super::outcome::Outcome;
use super::output::Style;
use super::text::Escaped;
use crate::discovery::Discovery;
use crate::kernel::CrashedKernel;
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

/// A part of an image.
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

    /// Prepares for the functions below. Called once, with the symbols in the memory of the kernel
    /// whose log is shown.
    fn prepare(&mut self, _in_memory: Option<&Symbols>) {}

    /// Adds the facts and the panics of a log to the kernel that crashed.
    fn tell(&self, _kernel: &mut CrashedKernel) {}

    /// Returns the symbols in the memory of a log's kernel, at their linked addresses.
    fn symbols(&self) -> Option<Symbols> {
        None
    }

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

    /// Returns the trust level of its least trusted byte.
    fn trust(&self) -> Trust {
        Trust::Unchecked
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

/// Place of a kind's parts in the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Before ramoops regions.
    First,
    /// Behind them.
    Later,
    /// Behind them. If the image has parts of the first kind, text shows it only on demand.
    OnDemand,
}

/// The output of one kind of parts.
pub struct Output {
    /// Name of several parts.
    pub plural: &'static str,
    /// Maximum number of parts that are opened.
    pub most: usize,
    /// Whether its parts take memory, in which no other kind has parts. It is then opened before others.
    pub takes_memory: bool,
    /// Place of its parts in the output.
    pub turn: Turn,
    /// Whether a part is a record of the crash. Otherwise advice is given if no other kind has parts.
    pub is_record: bool,
    /// Opens the parts outside the memory that is taken.
    pub open: for<'a> fn(&Opening<'a>, &[Range<u64>]) -> Parts<'a>,
}

/// Escapes control characters, unless the output is a file or pipe.
pub fn safe(
    style: Style,
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    match style {
        Style::Plain => write(out),
        Style::Safe | Style::Colour => write(&mut Escaped(out)),
    }
}

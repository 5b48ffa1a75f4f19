//! Function graphs in Linux's form.
//!
//! A recovered buffer has no tracer. Therefore, Linux prints graphs without task-change lines, and
//! without names after closing braces.

use std::fmt;
use std::io::{self, Write};

use super::entry::Entry;
use super::kernel::Kernel;

/// Columns of an empty duration.
const NO_TIME: &str = "              |  ";

/// Deepest printed indentation.
const DEEPEST: i32 = 1000;

/// Marks for durations above these numbers of nanoseconds.
const MARKS: [(u64, char); 6] = [
    (1_000_000_000, '$'),
    (100_000_000, '@'),
    (10_000_000, '*'),
    (1_000_000, '#'),
    (100_000, '!'),
    (10_000, '+'),
];

/// Column of the CPU's number.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub cpu: usize,
    /// Digits of the greatest number.
    pub digits: usize,
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {:width$}) ", self.cpu, width = self.digits)
    }
}

/// Writes the entry of a function; with `leaf`, its exit as well.
pub(super) fn enter(
    kernel: &Kernel,
    column: Column,
    function: u64,
    depth: i32,
    leaf: Option<Entry<'_>>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    if kernel.is_interrupt(function) {
        writeln!(out, "{column}  ==========> |")?;
    }
    let indent = Indent(depth);
    let name = Name(kernel, function);
    let Some(Entry::Exit { duration, .. }) = leaf else {
        return writeln!(out, "{column}{NO_TIME}{indent}{name}() {{");
    };
    let duration = Duration(duration);
    writeln!(out, "{column}{duration}|  {indent}{name}();")?;
    interrupt_end(kernel, column, function, out)
}

/// Writes the exit of a function.
pub(super) fn exit(
    kernel: &Kernel,
    column: Column,
    function: u64,
    depth: i32,
    duration: u64,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    writeln!(out, "{column}{}|  {}}}", Duration(duration), Indent(depth))?;
    interrupt_end(kernel, column, function, out)
}

fn interrupt_end(
    kernel: &Kernel,
    column: Column,
    function: u64,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    if kernel.is_interrupt(function) {
        writeln!(out, "{column}  <========== |")?;
    }
    Ok(())
}

/// Two spaces for each level.
struct Indent(i32);

impl fmt::Display for Indent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.0.min(DEEPEST)).try_for_each(|_| f.write_str("  "))
    }
}

/// Nanoseconds as microseconds with a mark, in 7 digits if they fit.
struct Duration(u64);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = MARKS.iter().find(|(least, _)| self.0 > *least);
        let mut text = (self.0 / 1000).to_string();
        if text.len() < 7 {
            let digits = (7 - text.len()).min(3);
            text += &format!(".{:03}", self.0 % 1000)[..1 + digits];
        }
        write!(f, "{} {text} us ", mark.map_or(' ', |(_, mark)| *mark))?;
        (text.len()..8).try_for_each(|_| f.write_str(" "))
    }
}

/// A function's name with its module, or its address.
struct Name<'a>(&'a Kernel, u64);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(symbol) = self.0.function(self.1) else {
            return write!(f, "{:#x}", self.1);
        };
        f.write_str(symbol.name)?;
        symbol
            .module
            .map_or(Ok(()), |module| write!(f, " [{module}]"))
    }
}

//! Lines of JSON, and the style of text.

use std::borrow::Cow;
use std::io::{self, Write};

use nostall_tracefile::model::TimeUnit;
use nostall_tracefile::report::Look;
use serde::Serialize;
use terminal_size::{Width, terminal_size_of};

use crate::escape::{escape, escape_json};
use crate::output::Style;

/// Writes one line of JSON, without characters that control a terminal.
pub fn json_line(line: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let json = serde_json::to_string(line)?;
    writeln!(out, "{}", escape_json(&json))
}

/// Returns the style of text for standard output.
pub fn look_of(style: Style, unit: TimeUnit) -> Look {
    Look {
        width: (style != Style::Plain).then(columns).flatten(),
        has_colour: style == Style::Colour,
        escape: |text| -> Cow<'_, str> { escape(text.as_bytes()) },
        unit,
    }
}

/// Returns the number of columns if standard output is a terminal.
fn columns() -> Option<usize> {
    let (Width(columns), _) = terminal_size_of(io::stdout())?;
    Some(columns.into())
}

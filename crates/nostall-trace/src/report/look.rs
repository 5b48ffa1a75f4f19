//! Appearance of a report.

use std::borrow::Cow;

use crate::model::TimeUnit;

/// Appearance of a report that people read.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Columns of the terminal; `None` for a pipe or file, whose lines are not cut.
    pub width: Option<usize>,
    /// Whether the output takes ANSI colours.
    pub has_colour: bool,
    /// Replaces the characters that a terminal obeys.
    pub escape: fn(&str) -> Cow<'_, str>,
    /// Unit of all times and durations.
    pub unit: TimeUnit,
}

const BOLD: &str = "\x1b[1m";
const DOUBT: &str = "\x1b[33m";
const RESET: &str = "\x1b[0m";

impl Look {
    pub(super) fn heading(&self, text: &str) -> String {
        self.styled(BOLD, text)
    }

    pub(super) fn doubt(&self, text: &str) -> String {
        self.styled(DOUBT, text)
    }

    fn styled(&self, style: &str, text: &str) -> String {
        match self.has_colour {
            true => format!("{style}{text}{RESET}"),
            false => text.to_owned(),
        }
    }

    /// `text` without characters that a terminal obeys, in at most `most` columns on a terminal.
    pub(super) fn name(&self, text: &str, used: usize) -> String {
        let mut safe = (self.escape)(text).replace('\n', "\\x0a");
        if let Some(width) = self.width {
            // A wide character takes two columns, hence the bytes.
            let most = width.saturating_sub(used).max(8);
            if safe.len() > most {
                safe.truncate(safe.floor_char_boundary(most - 1));
                safe.push('~');
            }
        }
        safe
    }
}

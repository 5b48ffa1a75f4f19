//! Formatting of a report.

use std::borrow::Cow;

use crate::model::TimeUnit;

/// Formatting of a report as text.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Width of the terminal in columns; `None` for a pipe or file, whose lines are not truncated.
    pub width: Option<usize>,
    /// Whether the output supports ANSI colours.
    pub has_colour: bool,
    /// Replaces characters that control a terminal.
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

    /// Returns `text` without control characters. On a terminal, it is truncated to the columns
    /// that `used` leaves.
    pub(super) fn name(&self, text: &str, used: usize) -> String {
        let mut safe = (self.escape)(text).replace('\n', "\\x0a");
        if let Some(width) = self.width {
            // Bytes are counted, because a wide character takes two columns.
            let most = width.saturating_sub(used).max(8);
            if safe.len() > most {
                safe.truncate(safe.floor_char_boundary(most - 1));
                safe.push('~');
            }
        }
        safe
    }
}

//! Lines of a recorded log, for a replay.

use nostall_console::Level;
use nostall_io::Nanos;

/// Longest pause of a replay; a log's longer pauses are shortened to it.
pub const LONGEST_GAP: Nanos = Nanos::from_secs(10);

/// A line of a recorded log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLine<'a> {
    /// Time since the log's first line.
    pub at: Nanos,
    /// Level from a prefix such as `<6>`; informational without one.
    pub level: Level,
    /// Text without its timestamp.
    pub text: &'a [u8],
}

/// The lines of a log in the format of `dmesg`, also with `--raw`. Empty lines are skipped.
///
/// A line without a timestamp, or with an earlier one, has the time of the previous line. Pauses
/// are shortened to [`LONGEST_GAP`].
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    rest: &'a [u8],
    /// Last timestamp in the log; `at` is the replay's time for it.
    last: Option<Nanos>,
    at: Nanos,
}

impl<'a> Lines<'a> {
    /// Creates an iterator over `log`.
    pub const fn new(log: &'a [u8]) -> Self {
        Self {
            rest: log,
            last: None,
            at: Nanos::ZERO,
        }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = LogLine<'a>;

    fn next(&mut self) -> Option<LogLine<'a>> {
        while !self.rest.is_empty() {
            let end = self.rest.iter().position(|&byte| byte == b'\n');
            let (line, rest) = match end {
                Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
                None => (self.rest, &[][..]),
            };
            self.rest = rest;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let (level, line) = level(line);
            let (time, text) = time(line);
            if let Some(time) = time {
                let last = *self.last.get_or_insert(time);
                self.at = self.at + (time - last).min(LONGEST_GAP);
                self.last = Some(time.max(last));
            }
            if !text.is_empty() {
                return Some(LogLine {
                    at: self.at,
                    level,
                    text,
                });
            }
        }
        None
    }
}

/// Parses `<6>`, and returns the rest. Facilities are left out.
fn level(line: &[u8]) -> (Level, &[u8]) {
    let parsed = || {
        let (number, rest) = number(line.strip_prefix(b"<")?)?;
        let rest = rest.strip_prefix(b">")?;
        Some((Level::from_number(number as u8), rest))
    };
    parsed().unwrap_or((Level::Info, line))
}

/// Parses `[    1.234567] `, and returns the rest.
fn time(line: &[u8]) -> (Option<Nanos>, &[u8]) {
    let parsed = || {
        let inside = line.strip_prefix(b"[")?.trim_ascii_start();
        let (seconds, rest) = number(inside)?;
        let fraction = rest.strip_prefix(b".")?;
        let (value, rest) = number(fraction)?;
        let digits = (fraction.len() - rest.len()) as u32;
        let unit = 10_u64.checked_pow(9_u32.checked_sub(digits)?)?;
        let rest = rest.strip_prefix(b"]")?;
        let rest = rest.strip_prefix(b" ").unwrap_or(rest);
        Some((Nanos::from_secs(seconds) + Nanos(value * unit), rest))
    };
    match parsed() {
        Some((time, rest)) => (Some(time), rest),
        None => (None, line),
    }
}

/// Parses digits, at least one and at most 19, and returns the rest.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = text.split_at(digits);
    let number = str::from_utf8(number).ok()?.parse().ok()?;
    Some((number, rest))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    fn all(log: &str) -> Vec<(u64, &str)> {
        let lines = Lines::new(log.as_bytes());
        lines
            .map(|line| (line.at.0, str::from_utf8(line.text).unwrap()))
            .collect()
    }

    #[test]
    fn each_line_has_its_time_since_the_first() {
        let log = "[    2.689485] one\n[    2.689500] two\r\n\n[ 3.6895] [sda] three";
        let lines = [(0, "one"), (15_000, "two"), (1_000_015_000, "[sda] three")];
        assert_eq!(all(log), lines);
    }

    #[test]
    fn a_line_without_a_time_has_that_of_the_previous_line() {
        assert_eq!(
            all("a\n[0.1] b\n c\n[0.2] d"),
            [(0, "a"), (0, "b"), (0, " c"), (100_000_000, "d")]
        );
    }

    #[test]
    fn times_that_go_back_or_far_ahead_are_limited() {
        let gap = LONGEST_GAP.0;
        assert_eq!(
            all("[5.0] a\n[4.0] b\n[5.5] c\n[99999.5] d"),
            [
                (0, "a"),
                (0, "b"),
                (500_000_000, "c"),
                (500_000_000 + gap, "d")
            ]
        );
    }

    #[test]
    fn a_malformed_time_is_text() {
        for text in [
            "[",
            "[]",
            "[1]",
            "[1.]",
            "[.1] x",
            "[1.0000000001] x",
            "[x.1]",
            "<",
            "<x>",
            "[-1.0] x",
            "[99999999999999999999.0] x",
        ] {
            assert_eq!(all(text), [(0, text)]);
        }
    }

    #[test]
    fn a_raw_log_contains_levels() {
        let line = Lines::new(b"<3>[ 1.5] bad").next().unwrap();
        assert_eq!((line.level, line.text), (Level::Error, &b"bad"[..]));
        let line = Lines::new(b"<30>[ 1.5] daemon.info").next().unwrap();
        assert_eq!(line.level, Level::Info);
    }
}

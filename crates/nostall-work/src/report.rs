//! The lines that a guest sends to its machine: one JSON object each.

use core::fmt::{self, Write};

use serde::{Deserialize, Serialize};

/// A text of bounded length.
pub type ReportText = heapless::String<200>;

/// Marker that a guest has its firmware print last, where both share a serial line. All bytes
/// after it are the guest's. It does not end its line: OpenSBI makes two bytes of
/// an LF, others do not.
pub const FIRMWARE_DONE: &str = "nostall: from here on this line is the kernel's: ";

/// One report: an event of the guest itself, or a result of a job.
///
/// `T` is the result type of the job's experiment, such as [`spi::Told`](crate::spi::Told). A guest
/// without that type can still report an [`Event`]. The host reads `T` as any JSON value first, and
/// as the experiment's type once it knows the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Report<T> {
    /// The guest is up.
    Ready {
        /// CPUs that run, and whose timers tick.
        cpus: u16,
        /// The rate of the counter that the clock reads, in hertz.
        clock_hz: u64,
        /// The rate of the first CPU's timer, in hertz; 0 if none is used.
        timer_hz: u64,
    },
    /// Result of one job. A job may send several.
    Told {
        /// The job's place in the work list, counted from 0.
        item: u16,
        /// The result.
        told: T,
    },
    /// The guest panicked. It ends itself after this.
    Panic {
        /// The CPU, counted from 0.
        cpu: u16,
        /// The panic message, cut where it is too long.
        message: ReportText,
    },
    /// A CPU met an exception. The guest ends itself after this.
    Exception {
        /// The CPU, counted from 0.
        cpu: u16,
        /// The exception's number.
        vector: u8,
        /// Name and details of the exception.
        name: ReportText,
        /// The error code; 0 where the exception has none.
        error: u64,
        /// The instruction.
        pc: u64,
        /// The stack pointer.
        sp: u64,
        /// The address that could not be accessed, where it was one.
        address: u64,
    },
    /// The whole list is done. The guest ends itself after this.
    Done,
}

/// A report of the guest itself.
pub type Event = Report<()>;

/// Upper bound of a report's line, in bytes: six for each of a text's bytes (a control
/// character), and 300 for the rest.
pub const LONGEST_REPORT: usize = 6 * 200 + 300;

impl<T: Serialize> Report<T> {
    /// Returns the report as a line of JSON, LF included. Empty if `line` is shorter
    /// than [`LONGEST_REPORT`] and does not hold it.
    pub fn encode<'a>(&self, line: &'a mut [u8]) -> &'a [u8] {
        match serde_json_core::to_slice(self, line) {
            Ok(len) if len < line.len() => {
                line[len] = b'\n';
                &line[..=len]
            }
            _ => &[],
        }
    }
}

/// Formats `args` as a text, cut where it is too long.
pub fn text(args: fmt::Arguments<'_>) -> ReportText {
    let mut text = Cut(ReportText::new());
    let _ = text.write_fmt(args);
    text.0
}

/// A text that keeps the beginning of all that is written to it.
struct Cut(ReportText);

impl Write for Cut {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        for c in s.chars() {
            self.0.push(c).map_err(|_| fmt::Error)?;
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;

    /// Encodes and decodes a report, which has to stay as it is. The host's decoding is
    /// included: the result is any JSON value at first.
    fn survives<T: Serialize + DeserializeOwned + PartialEq + Debug>(report: &Report<T>) {
        let mut line = [0; LONGEST_REPORT];
        let line = report.encode(&mut line);
        assert_eq!(
            line.iter().filter(|&&b| b == b'\n').count(),
            1,
            "{report:?}"
        );
        assert_eq!(&serde_json::from_slice::<Report<T>>(line).unwrap(), report);
        let erased: Report<serde_json::Value> = serde_json::from_slice(line).unwrap();
        if let (Report::Told { told, .. }, Report::Told { told: value, .. }) = (report, erased) {
            assert_eq!(&serde_json::from_value::<T>(value).unwrap(), told);
        }
    }

    /// The same of a result.
    pub(crate) fn result_survives<T>(told: T)
    where
        T: Serialize + DeserializeOwned + PartialEq + Debug,
    {
        let item = u16::MAX;
        survives(&Report::Told { item, told });
    }

    /// Texts, of any characters or of those that take the most room.
    pub(crate) fn texts() -> impl Strategy<Value = std::string::String> {
        "\\PC{0,300}|[\"\\\\\\x00-\\x1f]{0,300}"
    }

    /// The text whose line is longest.
    pub(crate) fn longest_text() -> ReportText {
        text(format_args!("{:200}", "\u{1}"))
    }

    proptest! {
        #[test]
        fn every_report_survives_its_line(what in 0..4, number: u64, message in texts()) {
            let text = text(format_args!("{message}"));
            prop_assert!(message.starts_with(text.as_str()));
            let small = number as u16;
            survives(&match what {
                0 => Event::Ready { cpus: small, clock_hz: number, timer_hz: number },
                1 => Event::Panic { cpu: small, message: text },
                2 => Event::Exception {
                    cpu: small, vector: 14, name: text,
                    error: number, pc: number, sp: number, address: number,
                },
                _ => Event::Done,
            });
        }
    }

    #[test]
    fn a_line_that_is_too_short_stays_empty() {
        let done = br#""done""#;
        assert!(Event::Done.encode(&mut [0; 6]).is_empty());
        assert_eq!(Event::Done.encode(&mut [0; 7])[..6], done[..]);
    }
}

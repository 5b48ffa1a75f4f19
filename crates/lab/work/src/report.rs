//! The lines that a guest sends to its machine: one JSON object per line.

use core::fmt::{self, Write};

use serde::{Deserialize, Serialize};

/// Text of at most 200 bytes.
pub type ReportText = heapless::String<200>;

/// Marker that a guest prints through its firmware, where both share a serial line. All later bytes
/// are the guest's. It has no line end, because firmware converts an LF in different ways.
pub const FIRMWARE_DONE: &str = "nostall: from here on this line is the kernel's: ";

/// A report: an event of the guest, or a result of a job.
///
/// `T` is the result type of the job's experiment, such as [`spi::JobResult`](crate::spi::JobResult). A guest
/// without that type can still report an [`Event`]. The host first decodes `T` as any JSON value,
/// and as the experiment's type once it knows the job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Report<T> {
    /// The guest has started.
    Ready {
        /// Number of CPUs that run and whose timers tick.
        cpus: u16,
        /// Frequency of the clock's counter in hertz.
        clock_hz: u64,
        /// Frequency of the first CPU's timer in hertz; 0 without a timer.
        timer_hz: u64,
    },
    /// Result of a job. A job may send several.
    Result {
        /// Index of the job in the work list, from 0.
        item: u16,
        /// The result.
        result: T,
    },
    /// The guest panicked. It then ends itself.
    Panic {
        /// CPU number, from 0.
        cpu: u16,
        /// Panic message, truncated if it is too long.
        message: ReportText,
    },
    /// A CPU raised an exception. The guest then ends itself.
    Exception {
        /// CPU number, from 0.
        cpu: u16,
        /// Vector number of the exception.
        vector: u8,
        /// Name and details of the exception.
        name: ReportText,
        /// Error code; 0 if the exception has none.
        error: u64,
        /// Address of the instruction.
        pc: u64,
        /// Stack pointer.
        sp: u64,
        /// Address of the failed access, if the exception has one.
        address: u64,
    },
    /// The whole work list is done. The guest then ends itself.
    Done,
}

/// A report of the guest itself, without a job's result.
pub type Event = Report<()>;

/// Maximum length of a report's line in bytes. A text's byte takes at most six (a control
/// character); 300 are for the rest.
pub const LONGEST_REPORT: usize = 6 * 200 + 300;

impl<T: Serialize> Report<T> {
    /// Encodes the report as a line of JSON, including the LF. Returns an empty slice if `line` is
    /// too short; [`LONGEST_REPORT`] bytes are enough.
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

/// Formats `args` as a text, truncated if it is too long.
pub fn text(args: fmt::Arguments<'_>) -> ReportText {
    let mut text = Cut(ReportText::new());
    let _ = text.write_fmt(args);
    text.0
}

/// A writer that keeps only the start of its input.
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

    /// Checks that encoding and decoding preserve a report. The result is also decoded through
    /// any JSON value, as on the host.
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
        if let (Report::Result { result, .. }, Report::Result { result: value, .. }) =
            (report, erased)
        {
            assert_eq!(&serde_json::from_value::<T>(value).unwrap(), result);
        }
    }

    /// Checks that encoding and decoding preserve a result.
    pub(crate) fn result_survives<T>(result: T)
    where
        T: Serialize + DeserializeOwned + PartialEq + Debug,
    {
        let item = u16::MAX;
        survives(&Report::Result { item, result });
    }

    /// Generates texts of any characters, or of those with the longest encoding.
    pub(crate) fn texts() -> impl Strategy<Value = std::string::String> {
        "\\PC{0,300}|[\"\\\\\\x00-\\x1f]{0,300}"
    }

    /// Returns the text with the longest encoding.
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

//! Results of the pstore jobs: figures of a measurement, and contents of persistent RAM.

use serde::{Deserialize, Serialize};

use super::Moved;
use crate::ReportText;
use crate::checksum::Checksum;

/// One result of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "there is no allocator")]
pub enum JobResult {
    /// Result of moving the blocks.
    Moved(Moved),
    /// A finding in persistent RAM.
    Recovered(Recovered),
}

/// A finding in persistent RAM.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Recovered {
    /// The function trace of one CPU, or the merge of all.
    Trace {
        /// CPU number; `None` for the merge.
        cpu: Option<u16>,
        /// Summary of the trace.
        trace: TraceSummary,
    },
    /// A log text.
    Text {
        /// Kind of the text.
        kind: TextKind,
        /// Length of the text in bytes.
        bytes: u64,
        /// 64-bit FNV-1a checksum of the text.
        checksum: u64,
        /// An excerpt that fits into a report: the start of a dmesg record, or the end of a console
        /// log.
        text: ReportText,
    },
}

/// Kind of a text in persistent RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TextKind {
    /// The log that the crashing kernel stored.
    Dmesg,
    /// Text that the kernel had printed.
    Console,
}

/// Summary of a function trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceSummary {
    /// Number of records.
    pub records: u64,
    /// Stamp of the first record.
    pub first: u64,
    /// Stamp of the last record.
    pub last: u64,
    /// 64-bit FNV-1a checksum of all records in order.
    pub checksum: u64,
}

impl TraceSummary {
    /// Adds a record.
    pub fn add(&mut self, ip: u64, parent: u64, stamp: u64, cpu: u16) {
        if self.records == 0 {
            self.first = stamp;
            self.checksum = Checksum::default().0;
        }
        self.records += 1;
        self.last = stamp;
        let mut sum = Checksum(self.checksum);
        for word in [ip, parent, stamp, cpu.into()] {
            sum.add(&word.to_le_bytes());
        }
        self.checksum = sum.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{result_survives, texts};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_result_of_pstore_survives_its_line(n: u64, message in texts()) {
            let text = crate::text(format_args!("{message}"));
            result_survives(JobResult::Moved(Moved { bytes: n, records: n, ns: n }));
            result_survives(JobResult::Recovered(Recovered::Trace {
                cpu: (n % 2 == 0).then_some(n as u16),
                trace: TraceSummary { records: n, first: n, last: n, checksum: n },
            }));
            result_survives(JobResult::Recovered(Recovered::Text {
                kind: TextKind::Console, bytes: n, checksum: n, text,
            }));
        }
    }

    #[test]
    fn a_trace_summary_depends_on_the_order_of_records() {
        let (mut one, mut other) = (TraceSummary::default(), TraceSummary::default());
        one.add(1, 2, 3, 0);
        one.add(4, 5, 6, 1);
        other.add(4, 5, 6, 1);
        other.add(1, 2, 3, 0);
        assert_eq!((one.records, one.first, one.last), (2, 3, 6));
        assert_ne!(one.checksum, other.checksum);
    }
}

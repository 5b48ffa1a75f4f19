//! The results: figures of a measurement, and of persistent RAM's content.

use serde::{Deserialize, Serialize};

use super::Moved;
use crate::ReportText;
use crate::checksum::Checksum;

/// One result of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "there is no allocator")]
pub enum Told {
    /// The blocks have been moved.
    Moved(Moved),
    /// One finding in persistent RAM.
    Recovered(Recovered),
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Recovered {
    /// The function trace of one CPU, or all merged into one.
    Trace {
        /// The CPU; none for the merge.
        cpu: Option<u16>,
        /// The trace.
        trace: TraceSummary,
    },
    /// A text.
    Text {
        /// Kind of the text.
        kind: TextKind,
        /// Bytes of it.
        bytes: u64,
        /// FNV-1a, 64 bits, of them.
        checksum: u64,
        /// As much of it as a report holds: the beginning of a log, the end of a
        /// console.
        text: ReportText,
    },
}

/// The kind of a text in persistent RAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TextKind {
    /// The log that a crashing kernel wrote.
    Dmesg,
    /// Text that it had printed.
    Console,
}

/// A function trace, in short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceSummary {
    /// How many records.
    pub records: u64,
    /// The first one's stamp.
    pub first: u64,
    /// The last one's stamp.
    pub last: u64,
    /// FNV-1a, 64 bits, of all in order.
    pub checksum: u64,
}

impl TraceSummary {
    /// The next record.
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
            result_survives(Told::Moved(Moved { bytes: n, records: n, ns: n }));
            result_survives(Told::Recovered(Recovered::Trace {
                cpu: (n % 2 == 0).then_some(n as u16),
                trace: TraceSummary { records: n, first: n, last: n, checksum: n },
            }));
            result_survives(Told::Recovered(Recovered::Text {
                kind: TextKind::Console, bytes: n, checksum: n, text,
            }));
        }
    }

    #[test]
    fn a_trace_tells_two_orders_apart() {
        let (mut one, mut other) = (TraceSummary::default(), TraceSummary::default());
        one.add(1, 2, 3, 0);
        one.add(4, 5, 6, 1);
        other.add(4, 5, 6, 1);
        other.add(1, 2, 3, 0);
        assert_eq!((one.records, one.first, one.last), (2, 3, 6));
        assert_ne!(one.checksum, other.checksum);
    }
}

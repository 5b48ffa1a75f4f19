//! Reports of a guest at the end of a flood.

use serde::{Deserialize, Serialize};

/// Times in microseconds; one report's worth.
pub type Times = heapless::Vec<u32, 48>;

/// Durations in nanoseconds; one report's worth.
pub type Delays = heapless::Vec<u64, 24>;

/// Report about a flood. All times are the guest's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum JobResult {
    /// Summary of the flood; the first report.
    Flood {
        /// Scheduled time of the first line, in nanoseconds.
        start: u64,
        /// Time at which everything was on the line, in nanoseconds.
        end: u64,
        /// Records that were overwritten before they were sent.
        lost: u64,
        /// Number of bytes that were written to a full transmitter.
        overrun: u32,
        /// Time of the injected panic in nanoseconds, if any.
        panic: Option<u64>,
    },
    /// Summary of a CPU.
    Cpu {
        /// CPU number.
        cpu: u16,
        /// Time for which its task slept, without interrupts, in nanoseconds.
        given_away: u64,
        /// Number of timer ticks that were handled.
        ticks: u64,
        /// Number of timer ticks that were missed.
        missed: u64,
    },
    /// The console held a CPU.
    Held(Held),
    /// A detector reported.
    Fired {
        /// CPU that reported.
        cpu: u16,
        /// Time of the report in nanoseconds.
        at: u64,
        /// Duration of the stall so far, in nanoseconds.
        lasts: u64,
        /// Whether the finding is a CPU that did not schedule; otherwise it is a grace period that
        /// did not end.
        lockup: bool,
        /// Whether printing the report made the interrupt handler the console's owner.
        cascaded: bool,
    },
    /// Delays of the callers that logged lines, in no particular order.
    Delays(Delays),
    /// Arrival times of the next bytes at the end of the line, in microseconds.
    Arrived(Times),
}

/// A [`Hold`](super::Hold) with its CPU. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // `Hold` documents them.
pub struct Held {
    pub cpu: u16,
    /// Context: 0 for a task, 1 for an interrupt handler, 2 for a panic.
    pub context: u8,
    pub from: u64,
    pub owner_from: u64,
    pub until: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::result_survives;

    #[test]
    fn every_result_of_a_flood_fits_its_line() {
        let large = u64::MAX;
        for result in [
            JobResult::Flood {
                start: large,
                end: large,
                lost: large,
                overrun: u32::MAX,
                panic: Some(large),
            },
            JobResult::Cpu {
                cpu: u16::MAX,
                given_away: large,
                ticks: large,
                missed: large,
            },
            JobResult::Held(Held {
                cpu: u16::MAX,
                context: u8::MAX,
                from: large,
                owner_from: large,
                until: large,
            }),
            JobResult::Fired {
                cpu: u16::MAX,
                at: large,
                lasts: large,
                lockup: false,
                cascaded: false,
            },
            JobResult::Delays(core::iter::repeat_n(large, 24).collect()),
            JobResult::Arrived(core::iter::repeat_n(u32::MAX, 48).collect()),
        ] {
            result_survives(result);
        }
    }
}

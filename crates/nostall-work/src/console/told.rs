//! Reports of a guest about a flood, when it is over.

use serde::{Deserialize, Serialize};

/// Times, in microseconds; as many as one report holds.
pub type Times = heapless::Vec<u32, 48>;

/// Spans, in nanoseconds; likewise.
pub type Delays = heapless::Vec<u64, 24>;

/// Report about a flood. All times are the guest's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Told {
    /// Of all of it. Comes first.
    Flood {
        /// When the first line was to be logged, in nanoseconds.
        start: u64,
        /// When everything was on the line, in nanoseconds.
        end: u64,
        /// Records that were overwritten before they were sent.
        lost: u64,
        /// Bytes that were written to a transmitter that had no room.
        overrun: u32,
        /// When the injected panic was, in nanoseconds, if it was.
        panic: Option<u64>,
    },
    /// Of a CPU.
    Cpu {
        /// Its number.
        cpu: u16,
        /// For how long its task slept, interrupts not counted, in nanoseconds.
        given_away: u64,
        /// Timer ticks that came.
        ticks: u64,
        /// Timer ticks that did not.
        missed: u64,
    },
    /// A CPU was held by the console.
    Held(Held),
    /// A detector reported.
    Fired {
        /// The CPU that did.
        cpu: u16,
        /// When, in nanoseconds.
        at: u64,
        /// How long the reported stall had lasted, in nanoseconds.
        lasts: u64,
        /// It found a CPU that did not schedule; else a grace period that did not end.
        lockup: bool,
        /// Printing it made the interrupt handler the console's owner.
        cascaded: bool,
    },
    /// Times that logging a line added to its callers, in no order.
    Delays(Delays),
    /// When the next bytes arrived at the line's end, in microseconds.
    Arrived(Times),
}

/// A [`Hold`](super::Hold), with the CPU. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)] // Told there.
pub struct Held {
    pub cpu: u16,
    /// 0 a task, 1 an interrupt handler, 2 a panic.
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
        for told in [
            Told::Flood {
                start: large,
                end: large,
                lost: large,
                overrun: u32::MAX,
                panic: Some(large),
            },
            Told::Cpu {
                cpu: u16::MAX,
                given_away: large,
                ticks: large,
                missed: large,
            },
            Told::Held(Held {
                cpu: u16::MAX,
                context: u8::MAX,
                from: large,
                owner_from: large,
                until: large,
            }),
            Told::Fired {
                cpu: u16::MAX,
                at: large,
                lasts: large,
                lockup: false,
                cascaded: false,
            },
            Told::Delays(core::iter::repeat_n(large, 24).collect()),
            Told::Arrived(core::iter::repeat_n(u32::MAX, 48).collect()),
        ] {
            result_survives(told);
        }
    }
}

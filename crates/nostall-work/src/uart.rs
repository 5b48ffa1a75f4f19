//! Sending a text over a serial console.

use core::fmt;
use core::str::FromStr;

use nostall_io::{Clock, Counting, Nanos, Registers};
use nostall_uart::{Console, Strategy};
use serde::{Deserialize, Serialize};

/// How a text is cut into writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Writes {
    /// All of it in one write.
    Whole,
    /// One write a line, as a kernel logs.
    Lines,
}

impl Writes {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Whole, Self::Lines];

    /// The stable word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Lines => "lines",
        }
    }
}

impl FromStr for Writes {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|w| w.name() == name).ok_or(())
    }
}

/// One way to send the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// How bytes are brought to the transmitter.
    pub strategy: Strategy,
    /// How the text is cut into writes.
    pub writes: Writes,
}

impl Job {
    /// Every job: whole, then line by line, each by every strategy.
    pub fn all() -> impl Iterator<Item = Self> {
        Writes::ALL.into_iter().flat_map(|writes| {
            Strategy::ALL
                .into_iter()
                .map(move |strategy| Self { strategy, writes })
        })
    }
}

impl fmt::Display for Job {
    /// As a word of a work list: `fifo-burst:lines`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.strategy, self.writes.name())
    }
}

impl FromStr for Job {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        let (strategy, writes) = word.split_once(':').ok_or(())?;
        Ok(Self {
            strategy: strategy.parse()?,
            writes: writes.parse()?,
        })
    }
}

/// What sending the text came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Bytes given to the transmitter, inserted CRs included.
    pub written: u64,
    /// Bytes given up.
    pub dropped: u64,
    /// A wait reached its bound.
    pub timed_out: bool,
    /// Register instructions the CPU issued.
    pub register_instructions: u64,
    /// Accesses on the bus.
    pub bus_accesses: u64,
    /// Nanoseconds from the first write's start until the last bit has left.
    pub ns: u64,
    /// Nanoseconds of these that a second task on the same CPU did not get.
    pub stalled_ns: u64,
}

/// Sends `text` as `job` says. `granted` tells what a second task on the same CPU
/// has had of it so far.
pub fn send<R: Registers, C: Clock>(
    console: &mut Console<Counting<R>, C>,
    job: Job,
    text: &[u8],
    granted: impl Fn() -> Nanos,
) -> Sent {
    console.set_strategy(job.strategy);
    let before = console.registers().counts();
    let granted_before = granted();
    let start = console.clock().now();
    let mut sent = Sent::default();
    let mut write = |text| {
        let report = console.write(text);
        sent.written += report.written as u64;
        sent.dropped += report.dropped as u64;
        sent.timed_out |= report.timed_out;
    };
    match job.writes {
        Writes::Whole => write(text),
        Writes::Lines => text.split_inclusive(|&b| b == b'\n').for_each(write),
    }
    if sent.dropped == 0 {
        sent.timed_out |= console.flush().is_err();
    }
    let took = console.clock().now() - start;
    sent.ns = took.0;
    sent.stalled_ns = (took - (granted() - granted_before)).0;
    let counts = console.registers().counts() - before;
    sent.register_instructions = counts.register_instructions();
    sent.bus_accesses = counts.bus_accesses();
    sent
}

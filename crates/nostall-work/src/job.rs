//! Work of a list, and the kinds of it that belong to no experiment.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantArray};

/// Work of one kind, such as an experiment's.
///
/// In a list it is a word: the name, a colon, and the job as it is parsed and printed,
/// `pci:read:ecam:1000`. A job without words has no colon.
pub trait Job: FromStr<Err = BadJob> + fmt::Display {
    /// Stable name of the kind.
    const NAME: &'static str;
}

/// The error of a word that no job has. The list names the word.
pub type BadJob = ();

/// One kind of work, without its type.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) accepts: fn(&str) -> bool,
}

impl Kind {
    pub(crate) const fn of<J: Job>() -> Self {
        Self {
            name: J::NAME,
            accepts: |words| words.parse::<J>().is_ok(),
        }
    }
}

/// An example that comes with a driver: `example:console`, `example:system-console`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, VariantArray)]
#[strum(serialize_all = "kebab-case", parse_err_ty = BadJob, parse_err_fn = drop)]
pub enum Example {
    /// The serial port's, which prints a line.
    Console,
    /// The kernel's own console on the serial port, with its log so far. Panics after it are
    /// printed there.
    SystemConsole,
    /// The log console's, which measures its own cost: [`ConsoleCost`].
    ConsoleCost,
    /// Log calls, which measure the time that their caller loses: [`LogCost`].
    LogCost,
}

/// The times of log calls on one CPU, on a port without a speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCost {
    /// Number of messages of each kind, of 100 bytes.
    pub messages: u32,
    /// Calls whose message is printed.
    pub printed: CallTimes,
    /// Calls whose message the console's level hides.
    pub hidden: CallTimes,
}

/// The times of calls, in nanoseconds of the guest's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes {
    /// Sum of all calls.
    pub sum: u64,
    /// Longest call, or slice of the timer that prints the rest.
    pub longest: u64,
}

/// The greatest cost of a log console's work, in nanoseconds of the guest's clock. In a machine
/// that counts instructions, each takes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleCost {
    /// A slice that fills a FIFO, within one record.
    pub within: u64,
    /// A slice that fills a FIFO, in which a record begins.
    pub begins: u64,
    /// A line of 100 bytes, from the call to the last byte, on a port without a speed.
    pub line: u64,
}

impl Job for Example {
    const NAME: &'static str = "example";
}

/// Every instruction of the port window, there and back: `bus-check`. The guest panics if one
/// has a wrong result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BusCheck;

impl Job for BusCheck {
    const NAME: &'static str = "bus-check";
}

impl fmt::Display for BusCheck {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

impl FromStr for BusCheck {
    type Err = ();

    fn from_str(words: &str) -> Result<Self, ()> {
        words.is_empty().then_some(Self).ok_or(())
    }
}

/// A way for a guest to fail on purpose, so that machines can be tested: `fail:panic`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, VariantArray)]
#[strum(serialize_all = "kebab-case", parse_err_ty = BadJob, parse_err_fn = drop)]
pub enum Failure {
    /// It panics.
    Panic,
    /// It panics, and again while it brings that to a console.
    PanicInFlush,
    /// All of its CPUs panic at once.
    PanicEverywhere,
    /// It reads through a null pointer.
    NullRead,
    /// It writes to its own code.
    CodeWrite,
    /// It calls itself until its stack is full.
    StackOverflow,
    /// It stops doing anything.
    Hang,
    /// It writes to the serial port without end.
    Flood,
    /// It reports without end.
    ReportFlood,
}

impl Job for Failure {
    const NAME: &'static str = "fail";
}

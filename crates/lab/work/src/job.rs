//! Items of a work list, and the kinds that belong to no experiment.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, VariantArray};

/// A kind of work, such as an experiment's.
///
/// In a work list, a job is one word: its kind's name, a colon, and the job as it is parsed and
/// printed. An example is `pci:read:ecam:1000`. If the job prints nothing, the colon is omitted.
pub trait Job: FromStr<Err = BadJob> + fmt::Display {
    /// Stable name of the kind.
    const NAME: &'static str;
}

/// Error of a word that no job accepts. The work list reports the word.
pub type BadJob = ();

/// A kind of work without its type.
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

/// A driver's example program: `example:console`, `example:system-console`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, VariantArray)]
#[strum(serialize_all = "kebab-case", parse_err_ty = BadJob, parse_err_fn = drop)]
pub enum Example {
    /// Example of the serial port: prints a line.
    Console,
    /// Example of the kernel's own console: prints the log so far. Later panics are printed there
    /// too.
    SystemConsole,
    /// Example of the log console: measures its own cost as a [`ConsoleCost`].
    ConsoleCost,
    /// Log calls, which measure the time that their caller loses: [`LogCost`].
    LogCost,
}

/// The times of log calls on one CPU, on a port without a speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogCost {
    /// Number of messages of each kind, of 100 bytes.
    pub messages: u32,
    /// Calls whose message is printed: each sends the bytes that the port takes.
    pub printed: CallTimes,
    /// Calls whose message a printer task prints.
    pub by_task: CallTimes,
    /// Calls whose message the console's level hides.
    pub hidden: CallTimes,
}

/// The times of calls, in nanoseconds of the guest's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallTimes {
    /// Sum of all calls.
    pub sum: u64,
    /// Longest call.
    pub longest: u64,
    /// Longest slice of the timer that prints the rest, or longest offer of the task.
    pub slice: u64,
}

/// Greatest costs of a log console, in nanoseconds of the guest's clock. On a machine that counts
/// instructions, each instruction takes one nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleCost {
    /// A slice that fills a FIFO from within one record.
    pub within: u64,
    /// A slice that fills a FIFO and starts a record.
    pub begins: u64,
    /// Logging a line of 100 bytes on a port at full speed, from the call to the last byte.
    pub line: u64,
    /// The same for 16 bytes more: another FIFO.
    pub further_fifo: u64,
}

impl Job for Example {
    const NAME: &'static str = "example";
}

/// Check of every access size of the port's register window: `bus-check`. The guest panics on a wrong
/// result.
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

/// A deliberate failure of a guest, to test machines: `fail:panic`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, VariantArray)]
#[strum(serialize_all = "kebab-case", parse_err_ty = BadJob, parse_err_fn = drop)]
pub enum Failure {
    /// Panics.
    Panic,
    /// Panics, and panics again while it prints the first panic.
    PanicInFlush,
    /// Panics on all CPUs at once.
    PanicEverywhere,
    /// Reads through a null pointer.
    NullRead,
    /// Writes to its own code.
    CodeWrite,
    /// Recurses until its stack overflows.
    StackOverflow,
    /// Hangs.
    Hang,
    /// Writes to the serial port endlessly.
    Flood,
    /// Sends reports endlessly.
    ReportFlood,
}

impl Job for Failure {
    const NAME: &'static str = "fail";
}

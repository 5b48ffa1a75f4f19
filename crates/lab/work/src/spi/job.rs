//! The jobs of the SPI experiment.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

/// Default number of received CAN frames, as measured for Linux's patch (2019).
pub const FRAMES: u32 = 100_000;

/// Strategy for choosing the task that drives the bus, and the time at which the hardware sleeps.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", parse_err_ty = crate::BadJob, parse_err_fn = drop)]
pub enum BusStrategy {
    /// Linux before its patch of 2019: the worker is woken after every message.
    Pump,
    /// A task that finds the bus idle drives it. No message wakes the worker. Its timer
    /// puts the hardware to sleep.
    Caller,
}

impl BusStrategy {
    /// All strategies, the slowest first.
    pub const ALL: [Self; 2] = [Self::Pump, Self::Caller];

    /// Returns the stable name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Job of the SPI experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    /// Identifies the flash, and erases, writes and reads back a sector: `flash`.
    Flash,
    /// Receives CAN frames with the strategy and measures it: `can:caller:100000`.
    Can {
        /// Strategy of the bus.
        strategy: BusStrategy,
        /// Number of frames, at least 1.
        frames: u32,
    },
}

impl Job {
    /// Returns all jobs, with `frames` CAN frames each.
    pub fn all(frames: u32) -> impl Iterator<Item = Self> {
        let can = BusStrategy::ALL.map(|strategy| Self::Can { strategy, frames });
        [Self::Flash].into_iter().chain(can)
    }
}

impl crate::Job for Job {
    const NAME: &'static str = "spi";
}

impl fmt::Display for Job {
    /// Writes the job as a word of a work list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flash => f.write_str("flash"),
            Self::Can { strategy, frames } => write!(f, "can:{strategy}:{frames}"),
        }
    }
}

impl FromStr for Job {
    type Err = ();

    /// Parses a job. A missing count of frames means [`FRAMES`].
    fn from_str(word: &str) -> Result<Self, ()> {
        if word == "flash" {
            return Ok(Self::Flash);
        }
        let can = word.strip_prefix("can:").ok_or(())?;
        let (strategy, frames) = match can.split_once(':') {
            Some((strategy, frames)) => (strategy, frames.parse().map_err(drop)?),
            None => (can, FRAMES),
        };
        let strategy = strategy.parse()?;
        (frames > 0)
            .then_some(Self::Can { strategy, frames })
            .ok_or(())
    }
}

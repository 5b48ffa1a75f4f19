//! The jobs, and their words.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

/// CAN frames that are received, as in the seed.
pub const FRAMES: u32 = 100_000;

/// Which task drives the bus, and when the hardware is put to sleep.
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
pub enum Strategy {
    /// As it was before the seed: the worker is woken after every message.
    Pump,
    /// A task that sends or submits a message on an idle bus drives it. The worker is woken
    /// once, when the bus has been idle for long enough.
    Caller,
}

impl Strategy {
    /// Every one, the slowest first.
    pub const ALL: [Self; 2] = [Self::Pump, Self::Caller];

    /// The stable word for it.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// One piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    /// Identify the flash; erase, write and read back a sector: `flash`.
    Flash,
    /// Read every file in the root directory of an SD card's file system: `card`.
    Card,
    /// Receive so many CAN frames by this strategy, and measure it: `can:caller:100000`.
    Can {
        /// Which task drives the bus.
        strategy: Strategy,
        /// How many, at least 1.
        frames: u32,
    },
}

impl Job {
    /// Every one, with so many frames.
    pub fn all(frames: u32) -> impl Iterator<Item = Self> {
        let can = Strategy::ALL.map(|strategy| Self::Can { strategy, frames });
        [Self::Flash, Self::Card].into_iter().chain(can)
    }
}

impl crate::Job for Job {
    const NAME: &'static str = "spi";
}

impl fmt::Display for Job {
    /// As a word of a work list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flash => f.write_str("flash"),
            Self::Card => f.write_str("card"),
            Self::Can { strategy, frames } => write!(f, "can:{strategy}:{frames}"),
        }
    }
}

impl FromStr for Job {
    type Err = ();

    /// A count of frames that is not given is [`FRAMES`].
    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "flash" => return Ok(Self::Flash),
            "card" => return Ok(Self::Card),
            _ => {}
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

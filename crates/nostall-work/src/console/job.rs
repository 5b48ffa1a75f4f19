//! The job, and its words.

use core::fmt;
use core::str::FromStr;

use super::{Pace, Strategy};

/// A flood in a guest: `bounded:115200:26`, `bounded:115200:26:1700/0/0/baud:panic-at:191`.
///
/// The log is the guest's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// How messages get to the line.
    pub strategy: Strategy,
    /// Of the line, in baud.
    pub rate: u32,
    /// The detectors are so many times as impatient as Linux's; at least 1.
    pub haste: u32,
    /// How slow the port is to be. Where the words do not say: [`Pace::PC`].
    pub pace: Pace,
    /// When the last CPU panics, in milliseconds since the first line. It ends the guest.
    pub panic_at: Option<u32>,
}

impl crate::Job for Job {
    const NAME: &'static str = "console";
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            strategy,
            rate,
            haste,
            pace,
            panic_at,
        } = self;
        write!(f, "{strategy}:{rate}:{haste}:{pace}")?;
        panic_at.map_or(Ok(()), |at| write!(f, ":panic-at:{at}"))
    }
}

impl FromStr for Job {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        let (job, panic_at) = match word.split_once(":panic-at:") {
            Some((job, at)) => (job, Some(at.parse().map_err(drop)?)),
            None => (word, None),
        };
        let mut parts = job.split(':');
        let mut part = || parts.next().ok_or(());
        let job = Self {
            strategy: part()?.parse()?,
            rate: part()?.parse().map_err(drop)?,
            haste: part()?.parse().map_err(drop)?,
            pace: parts.next().map_or(Ok(Pace::PC), str::parse)?,
            panic_at,
        };
        let is_sound = job.rate > 0 && job.haste > 0 && parts.next().is_none();
        is_sound.then_some(job).ok_or(())
    }
}

//! The job of the console experiment.

use core::fmt;
use core::str::FromStr;

use nostall_devices::uart::Profile;

use super::PrintStrategy;

/// A flood in a guest, as a word of a work list: `bounded:115200:26`,
/// `bounded:115200:26:pc-16550a:panic-at:191`.
///
/// The log is the guest's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Job {
    /// Path of messages to the line.
    pub strategy: PrintStrategy,
    /// Rate of the line in baud.
    pub rate: u32,
    /// Divisor for the time limits of Linux's detectors; at least 1.
    pub speedup: u32,
    /// Port to imitate; the default is [`Profile::PC_16550A`].
    pub profile: Profile,
    /// Time at which the last CPU panics, in milliseconds since the first line. The panic ends the
    /// guest.
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
            speedup,
            profile,
            panic_at,
        } = self;
        write!(f, "{strategy}:{rate}:{speedup}:{}", profile.name)?;
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
            speedup: part()?.parse().map_err(drop)?,
            profile: parts.next().map_or(Ok(Profile::PC_16550A), str::parse)?,
            panic_at,
        };
        let is_sound = job.rate > 0 && job.speedup > 0 && parts.next().is_none();
        is_sound.then_some(job).ok_or(())
    }
}

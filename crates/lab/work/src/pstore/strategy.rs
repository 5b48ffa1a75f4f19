//! The jobs and strategies of the pstore experiment.

use core::fmt;
use core::str::FromStr;

use strum::{Display, EnumString, IntoStaticStr};

/// Strategy for recording function entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case", parse_err_ty = crate::BadJob, parse_err_fn = drop)]
pub enum ZoneStrategy {
    /// Entries are not recorded.
    Untraced,
    /// One zone for each CPU, with one lock for all zones.
    OneLockForAll,
    /// One zone for all CPUs under its lock, as in Linux before the patches of 2016. Linux had one
    /// lock for all zones, but only this zone contended for it.
    OneZoneLocked,
    /// One zone for each CPU without a lock. Each record has a timestamp.
    PerCpuClock,
    /// One zone for each CPU without a lock. Each record has the next value of a shared counter,
    /// which all CPUs increment non-atomically.
    PerCpuCounter,
    /// The same as `PerCpuCounter`, but with error correction. Each block of a zone has 16 bytes of
    /// it, as with Linux's parameter `ramoops.ecc=1`.
    PerCpuCounterEcc,
}

impl ZoneStrategy {
    /// All strategies: the untraced one, then from the slowest in theory to the fastest, and the one
    /// with error correction.
    pub const ALL: [Self; 6] = [
        Self::Untraced,
        Self::OneLockForAll,
        Self::OneZoneLocked,
        Self::PerCpuClock,
        Self::PerCpuCounter,
        Self::PerCpuCounterEcc,
    ];

    /// Returns the stable name.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Job of the pstore experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    /// Moves the blocks and records with the strategy: `per-cpu-clock`.
    Move(ZoneStrategy),
    /// Moves the blocks once more with [`ZoneStrategy::PerCpuClock`], reports the contents of
    /// persistent RAM, and panics: `crash`.
    Crash,
    /// Reports the records that an earlier kernel left in persistent RAM: `recover`.
    Recover,
}

impl Job {
    /// Returns all jobs.
    pub fn all() -> impl Iterator<Item = Self> {
        let moves = ZoneStrategy::ALL.into_iter().map(Self::Move);
        moves.chain([Self::Crash, Self::Recover])
    }

    fn name(self) -> &'static str {
        match self {
            Self::Move(strategy) => strategy.name(),
            Self::Crash => "crash",
            Self::Recover => "recover",
        }
    }
}

impl crate::Job for Job {
    const NAME: &'static str = "pstore";
}

impl fmt::Display for Job {
    /// Writes the job as a word of a work list.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Job {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        Self::all().find(|job| job.name() == word).ok_or(())
    }
}

//! What there is to do, in stable words.

use core::fmt;
use core::str::FromStr;

/// A way to record function entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// They are not recorded.
    Untraced,
    /// A zone for each CPU, but one lock for all of them.
    OneLockForAll,
    /// One zone for all CPUs, under its lock: Linux before the seed, whose one lock
    /// for all zones only this one contended for.
    OneZoneLocked,
    /// A zone for each CPU, no lock, each record with the time.
    PerCpuClock,
    /// A zone for each CPU, no lock, each record with the next number of a
    /// counter that all CPUs share and increment without atomicity.
    PerCpuCounter,
}

impl Strategy {
    /// Every one, the slowest in theory first, but for the untraced.
    pub const ALL: [Self; 5] = [
        Self::Untraced,
        Self::OneLockForAll,
        Self::OneZoneLocked,
        Self::PerCpuClock,
        Self::PerCpuCounter,
    ];

    /// The stable word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Untraced => "untraced",
            Self::OneLockForAll => "one-lock-for-all",
            Self::OneZoneLocked => "one-zone-locked",
            Self::PerCpuClock => "per-cpu-clock",
            Self::PerCpuCounter => "per-cpu-counter",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    /// Move the blocks and record by this strategy: `per-cpu-clock`.
    Move(Strategy),
    /// Move them once more, by [`Strategy::PerCpuClock`], report what is in
    /// persistent RAM then, and panic: `crash`.
    Crash,
    /// Report what a kernel before this one left in persistent RAM: `recover`.
    Recover,
}

impl Job {
    /// Every one.
    pub fn all() -> impl Iterator<Item = Self> {
        let moves = Strategy::ALL.into_iter().map(Self::Move);
        moves.chain([Self::Crash, Self::Recover])
    }

    const fn name(self) -> &'static str {
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
    /// As a word of a work list.
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

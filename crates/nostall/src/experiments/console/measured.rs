//! A flood of messages on a slow serial console, measured.

use super::outcome::Outcome;
use nostall_devices::uart::Profile;
use nostall_io::Nanos;
use nostall_work::console::Strategy;

use super::input::Log;

/// Rate of the line in baud, if not given.
pub const RATE: u32 = 115_200;

/// What came of it.
pub struct Measured {
    pub log: Log,
    pub cpus: usize,
    pub rate: u32,
    pub panic_at: Nanos,
    pub setup: Setup,
    /// Of each profile and strategy.
    pub runs: Vec<Run>,
}

/// What the CPUs are.
pub enum Setup {
    /// In virtual time: exact.
    Model,
    /// In real time, and so of a part of the log.
    Qemu {
        /// In words.
        name: String,
        /// One line in so many, and as many times as soon.
        part: u32,
        /// Whether a CPU that has masked interrupts can be interrupted.
        has_nmi: bool,
        /// The detectors' thresholds are divided by it.
        haste: u32,
    },
}

impl Setup {
    /// The stable word for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Qemu { .. } => "qemu",
        }
    }

    /// The detectors' thresholds are divided by it.
    pub const fn haste(&self) -> u32 {
        match self {
            Self::Model => 1,
            Self::Qemu { haste, .. } => *haste,
        }
    }
}

/// A flood by one strategy on one port.
pub struct Run {
    pub profile: Profile,
    pub strategy: Strategy,
    /// To its end.
    pub whole: Outcome,
    /// Cut short by a panic.
    pub panicked: Outcome,
}

impl Run {
    /// Records that were left when a panic was over.
    pub fn unsent(&self) -> u64 {
        let panicked = &self.panicked;
        panicked.checked.missing.saturating_sub(panicked.lost)
    }
}

impl Measured {
    /// The runs of each profile.
    pub fn profiles(&self) -> impl Iterator<Item = &[Run]> {
        self.runs
            .chunk_by(|one, next| one.profile.name == next.profile.name)
    }
}

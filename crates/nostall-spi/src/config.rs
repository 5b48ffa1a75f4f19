//! What can be chosen of a bus.

use nostall_io::Nanos;

/// When the hardware is put to sleep, and by whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Once, when the bus has been idle for [`Config::linger`].
    #[default]
    Caller,
    /// As Linux did before 2019, for comparison: the worker is woken after every
    /// message that left the bus idle, to put the hardware to sleep if it is idle
    /// still when he comes.
    Pump,
}

/// Who runs what was submitted to an idle bus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Submitted {
    /// The worker, which is woken. Without one, the next to come.
    #[default]
    ByWorker,
    /// Whoever submits it, before `submit` returns.
    ByCaller,
}

/// What can be chosen of a bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// When the hardware is put to sleep.
    pub strategy: Strategy,
    /// Who runs what was submitted to an idle bus.
    pub submitted: Submitted,
    /// How long the bus is idle before the hardware is put to sleep. The moment is
    /// found by looking once in that time whether anything has happened, so it is up
    /// to twice as long; looking at the clock after every message would cost more
    /// than a short message.
    pub linger: Nanos,
    /// Bytes of others that whoever has the bus moves before he lets go, at most.
    pub most_bytes: u32,
    /// Time that he spends on others' messages, at most: none is begun that would
    /// by its clock and its delays take longer.
    pub most_time: Nanos,
    /// How long a caller of `sync` waits for his turn, at most. Longer than a full
    /// queue ever takes, as it is for the one mistake of never letting a bus go.
    pub patience: Nanos,
}

impl Config {
    /// Linux's second to linger; 256 bytes and 100 us for others; 30 s of patience.
    pub const DEFAULT: Self = Self {
        strategy: Strategy::Caller,
        submitted: Submitted::ByWorker,
        linger: Nanos::from_secs(1),
        most_bytes: 256,
        most_time: Nanos::from_micros(100),
        patience: Nanos::from_secs(30),
    };
}

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}

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

/// What is left of what one who has the bus does for others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    bytes: u32,
    time: Nanos,
    /// One message is run whatever it takes: there is nobody else to do it.
    at_least_one: bool,
}

impl Budget {
    /// For a worker.
    pub(crate) const UNBOUNDED: Self = Self {
        bytes: u32::MAX,
        time: Nanos(u64::MAX),
        at_least_one: true,
    };

    pub(crate) fn of(config: &Config) -> Self {
        Self {
            bytes: config.most_bytes,
            time: config.most_time,
            at_least_one: false,
        }
    }

    /// One that gets somewhere whatever is queued.
    pub(crate) fn with_one(self) -> Self {
        Self {
            at_least_one: true,
            ..self
        }
    }

    /// Whether there is enough for such a message; then it is spent.
    pub(crate) fn spend(&mut self, bytes: u32, time: Nanos) -> bool {
        let enough = bytes <= self.bytes && time <= self.time || self.at_least_one;
        if enough && self.bytes != u32::MAX {
            self.bytes = self.bytes.saturating_sub(bytes);
            self.time = self.time - time;
            self.at_least_one = false;
        }
        enough
    }

    /// Takes off what it really took.
    pub(crate) fn took(&mut self, reckoned: Nanos, really: Nanos) {
        if self.bytes != u32::MAX {
            self.time = self.time - (really - reckoned);
        }
    }
}

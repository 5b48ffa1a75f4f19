//! A management controller behind the FIFO, in place of a line.

use nostall_io::Nanos;
use serde::{Deserialize, Serialize};

/// A management controller that plays the line's part: software that looks at the
/// FIFO now and then and moves what it finds into a buffer of its own.
///
/// The host cannot see the buffer: the port says that it is empty when its FIFO
/// is. A byte counts as sent when the controller has taken it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller {
    /// From the first byte in an empty FIFO until the controller begins.
    pub latency: Nanos,
    /// What it then takes to move each byte.
    pub per_byte: Nanos,
    /// Bytes in its buffer. While that is full, the FIFO empties only as it does.
    pub buffer: usize,
    /// How long the buffer takes to lose one byte.
    pub drain: Nanos,
}

/// What such a controller is at. The bytes themselves are gone; their number
/// matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Bytes in the buffer.
    level: usize,
    /// When the next of them leaves.
    leaves_at: Nanos,
    /// When the next byte can be taken from the FIFO, if the buffer has room.
    takes_at: Option<Nanos>,
}

impl Progress {
    /// Bytes are in the FIFO.
    pub(super) fn notice(&mut self, by: Controller, now: Nanos) {
        self.takes_at.get_or_insert(now + by.latency + by.per_byte);
    }

    /// The FIFO is empty.
    pub(super) fn rest(&mut self) {
        self.takes_at = None;
    }

    /// When the next byte leaves the FIFO.
    pub(super) fn next_take(&self, by: Controller) -> Option<Nanos> {
        let at = self.takes_at?;
        let then = self.settled(by, at);
        if then.level < by.buffer.max(1) {
            Some(at)
        } else {
            Some(then.leaves_at)
        }
    }

    /// A byte leaves the FIFO for the buffer.
    pub(super) fn take(&mut self, by: Controller, at: Nanos) {
        *self = self.settled(by, at);
        if self.level == 0 {
            self.leaves_at = at + by.drain;
        }
        self.level += 1;
        self.takes_at = Some(at + by.per_byte);
    }

    /// With everything gone from the buffer that has gone by `at`: computed, so
    /// that an hour costs no more than a moment.
    fn settled(mut self, by: Controller, at: Nanos) -> Self {
        if self.level > 0 && self.leaves_at <= at {
            let more = (at - self.leaves_at) / by.drain.0;
            let gone = more.0.saturating_add(1);
            self.level = self
                .level
                .saturating_sub(gone.try_into().unwrap_or(usize::MAX));
            self.leaves_at = self.leaves_at + by.drain * gone;
        }
        self
    }
}

/// The same, with its times counted from the moment of saving.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedProgress {
    level: usize,
    leaves_in_ns: u64,
    takes_in_ns: Option<u64>,
}

impl Progress {
    pub(super) fn save(&self, by: Controller, now: Nanos) -> SavedProgress {
        let settled = self.settled(by, now);
        SavedProgress {
            level: settled.level,
            leaves_in_ns: (settled.leaves_at - now).0,
            takes_in_ns: settled.takes_at.map(|at| (at - now).0),
        }
    }

    pub(super) fn restored(saved: &SavedProgress, by: Controller, now: Nanos) -> Self {
        Self {
            level: saved.level.min(by.buffer.max(1)),
            leaves_at: now + Nanos(saved.leaves_in_ns),
            takes_at: saved.takes_in_ns.map(|left| now + Nanos(left)),
        }
    }
}

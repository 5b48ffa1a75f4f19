//! A management controller that reads the transmit FIFO, in place of a serial line.

use nostall_io::Nanos;
#[cfg(feature = "std")]
use serde::{Deserialize, Serialize};

/// Timing of a management controller that replaces the serial line. Its software polls the FIFO
/// from time to time and moves the bytes into its own buffer.
///
/// The host cannot observe the buffer: the port reports "empty" when its FIFO is empty. A byte
/// counts as sent once the controller has taken it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    /// Time from the first byte in an empty FIFO until the controller starts.
    pub latency: Nanos,
    /// Time to move each byte.
    pub per_byte: Nanos,
    /// Capacity of the buffer in bytes. While it is full, the FIFO drains at the buffer's rate.
    pub buffer: usize,
    /// Time until one byte leaves the buffer.
    pub drain: Nanos,
}

/// Fill level of a controller's buffer, and the time at which the next byte leaves.
///
/// The contents are not stored: only their number matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Number of bytes in the buffer.
    pub level: usize,
    /// Time at which the next byte leaves.
    pub leaves_at: Nanos,
}

impl Buffer {
    /// Returns the time at which the buffer accepts a byte that is ready at `at`: immediately, or
    /// as soon as there is room.
    pub fn room_at(self, by: Controller, at: Nanos) -> Nanos {
        let then = self.settled(by, at);
        if then.level < by.buffer.max(1) {
            at
        } else {
            then.leaves_at
        }
    }

    /// Adds a byte at `at`.
    pub fn take(&mut self, by: Controller, at: Nanos) {
        *self = self.settled(by, at);
        if self.level == 0 {
            self.leaves_at = at + by.drain;
        }
        self.level += 1;
    }

    /// Removes the bytes that have left until `at`, in constant time for any time span.
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

/// State of a controller behind a model's FIFO.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    buffer: Buffer,
    /// When the next byte can be taken from the FIFO, if the buffer has room.
    takes_at: Option<Nanos>,
}

#[cfg(feature = "std")]
impl Progress {
    /// Starts the polling delay, if it is not running, because the FIFO holds bytes.
    pub(super) fn notice(&mut self, by: Controller, now: Nanos) {
        self.takes_at.get_or_insert(now + by.latency + by.per_byte);
    }

    /// Stops polling because the FIFO is empty.
    pub(super) fn rest(&mut self) {
        self.takes_at = None;
    }

    /// Returns the time at which the next byte leaves the FIFO.
    pub(super) fn next_take(&self, by: Controller) -> Option<Nanos> {
        self.takes_at.map(|at| self.buffer.room_at(by, at))
    }

    /// Moves a byte from the FIFO to the buffer.
    pub(super) fn take(&mut self, by: Controller, at: Nanos) {
        self.buffer.take(by, at);
        self.takes_at = Some(at + by.per_byte);
    }
}

/// Saved [`Progress`], with times relative to the moment of saving.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SavedProgress {
    level: usize,
    leaves_in_ns: u64,
    takes_in_ns: Option<u64>,
}

#[cfg(feature = "std")]
impl Progress {
    pub(super) fn save(&self, by: Controller, now: Nanos) -> SavedProgress {
        let settled = self.buffer.settled(by, now);
        SavedProgress {
            level: settled.level,
            leaves_in_ns: (settled.leaves_at - now).0,
            takes_in_ns: self.takes_at.map(|at| (at - now).0),
        }
    }

    pub(super) fn restored(saved: &SavedProgress, by: Controller, now: Nanos) -> Self {
        Self {
            buffer: Buffer {
                level: saved.level.min(by.buffer.max(1)),
                leaves_at: now + Nanos(saved.leaves_in_ns),
            },
            takes_at: saved.takes_in_ns.map(|left| now + Nanos(left)),
        }
    }
}

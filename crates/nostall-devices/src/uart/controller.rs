//! A management controller behind the FIFO, in place of a line.

use nostall_io::Nanos;
#[cfg(feature = "std")]
use serde::{Deserialize, Serialize};

/// A management controller that plays the line's part. Its software polls the FIFO now and then and
/// moves the bytes in it into its own buffer.
///
/// The host cannot see the buffer: the port says that it is empty when its FIFO
/// is. A byte counts as sent when the controller has taken it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Controller {
    /// From the first byte in an empty FIFO until the controller begins.
    pub latency: Nanos,
    /// Time to move each byte.
    pub per_byte: Nanos,
    /// Bytes in its buffer. While that is full, the FIFO empties only as it does.
    pub buffer: usize,
    /// How long the buffer takes to lose one byte.
    pub drain: Nanos,
}

/// Number of bytes in a controller's buffer, and when the next of them leaves.
///
/// The bytes themselves are gone; their number matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Buffer {
    /// Bytes in the buffer.
    pub level: usize,
    /// When the next of them leaves.
    pub leaves_at: Nanos,
}

impl Buffer {
    /// Returns when the buffer takes a byte that is ready at `at`: then, or as soon after it
    /// as there is room.
    pub fn room_at(self, by: Controller, at: Nanos) -> Nanos {
        let then = self.settled(by, at);
        if then.level < by.buffer.max(1) {
            at
        } else {
            then.leaves_at
        }
    }

    /// Takes a byte at `at`.
    pub fn take(&mut self, by: Controller, at: Nanos) {
        *self = self.settled(by, at);
        if self.level == 0 {
            self.leaves_at = at + by.drain;
        }
        self.level += 1;
    }

    /// Removes the bytes that have gone by `at`: computed, so that an hour costs no more than
    /// a moment.
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

/// The state of such a controller behind the FIFO of a model.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    buffer: Buffer,
    /// When the next byte can be taken from the FIFO, if the buffer has room.
    takes_at: Option<Nanos>,
}

#[cfg(feature = "std")]
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
        self.takes_at.map(|at| self.buffer.room_at(by, at))
    }

    /// A byte leaves the FIFO for the buffer.
    pub(super) fn take(&mut self, by: Controller, at: Nanos) {
        self.buffer.take(by, at);
        self.takes_at = Some(at + by.per_byte);
    }
}

/// The same, with its times counted from the moment of saving.
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

//! What a drain is told once.

use nostall_io::Nanos;

use crate::Level;

/// Per-sink options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Records of lesser importance are left out, unless they are urgent.
    pub level: Level,
    /// What is done when the sink is slower than what is logged.
    pub pressure: Pressure,
    /// A slice begins no offer after so many bytes, even if the sink is ready for more.
    pub slice: usize,
    /// A slice begins no offer after this time. Pre-emption is off meanwhile.
    pub hold: Nanos,
    /// How long a record may be in mid-write before it is given up as lost.
    pub pending: Nanos,
    /// Which of the four words in the ring's memory says where this sink is, for who
    /// reads the memory of a dead machine. Each sink has its own, or none.
    pub place: Option<u8>,
}

impl Options {
    /// All levels, oldest dropped, slices of 1 KiB and 50 us, 10 ms for a record in
    /// mid-write, no place.
    pub const DEFAULT: Self = Self {
        level: Level::Debug,
        pressure: Pressure::DropOldest,
        slice: 1024,
        hold: Nanos::from_micros(50),
        pending: Nanos::from_millis(10),
        place: None,
    };

    /// With this level.
    pub const fn level(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// With this pressure.
    pub const fn pressure(self, pressure: Pressure) -> Self {
        Self { pressure, ..self }
    }

    /// With this place, 0 to 3.
    pub const fn place(self, place: u8) -> Self {
        Self {
            place: Some(place),
            ..self
        }
    }

    /// Sets the bytes of a slice; at least one chunk of 256 is offered.
    pub const fn slice(self, slice: usize) -> Self {
        Self { slice, ..self }
    }

    /// Sets the time of a slice; at least one chunk of 256 bytes is offered.
    pub const fn hold(self, hold: Nanos) -> Self {
        Self { hold, ..self }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What is done when a sink is slower than what is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pressure {
    /// What is oldest is overwritten, and counted. Nobody waits.
    DropOldest,
    /// Who logs in normal context waits for room, so long at most:
    /// [`Drain::make_room`](crate::Drain::make_room).
    Wait(Nanos),
}

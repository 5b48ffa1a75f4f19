//! The direction of an RS-485 line.

use nostall_io::Nanos;

/// Which way an RS-485 line is turned. RTS is raised in every state but the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// RTS is low: the other stations have the line.
    Listening,
    /// RTS was raised at this time, and the time before the first bit runs.
    Opening(Nanos),
    /// Bytes may be on their way.
    Talking,
    /// The last bit had left at this time, and the time until RTS goes back runs.
    Closing(Nanos),
}

//! What a port holds, to be kept and put back.

use serde::{Deserialize, Serialize};

use super::controller::SavedProgress;
use super::modem::Modem;

/// What a [`Uart`](super::Uart) holds at one moment.
///
/// Its times count from that moment, so that it can be put back under another
/// clock. Chip, line and sink are not part of it: they are how the port is
/// built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub(super) latches: Latches,
    pub(super) transmit: Vec<u8>,
    /// The byte in the shift register, and how long it will be there.
    pub(super) shifting: Option<(u8, u64)>,
    pub(super) controller: Option<SavedProgress>,
    pub(super) receive: Vec<(u8, u8)>,
    pub(super) overrun: bool,
    pub(super) timeout_in_ns: Option<u64>,
    pub(super) transmit_interrupt: bool,
    pub(super) busy_detect: bool,
    pub(super) modem: Modem,
    pub(super) lost: u64,
}

/// The registers that hold what was written to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Latches {
    pub(super) divisor: u16,
    pub(super) ier: u8,
    pub(super) fcr: u8,
    pub(super) lcr: u8,
    pub(super) mcr: u8,
    pub(super) scr: u8,
    pub(super) efr: u8,
    /// The four characters of software flow control, which does nothing here.
    pub(super) xon_xoff: [u8; 4],
    /// The first eight of the 16950's indexed registers.
    pub(super) icr: [u8; 8],
}

//! Saving and restoring a port.

use std::io::Write;

use nostall_io::{Clock, Nanos};
use serde::{Deserialize, Serialize};

use super::controller::{Progress, SavedProgress};
use super::model::Latches;
use super::modem::Modem;
use super::quiet::Quiet;
use super::receiver::{ERRORS, Receiver};
use super::{Line, Uart};

/// Saved state of a [`Uart`].
///
/// Its times are relative to the moment of saving, so that it can be restored with another clock.
/// Chip, line and sink are not included: they are arguments of the port's constructor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub(super) latches: Latches,
    pub(super) transmit: Vec<u8>,
    /// Byte in the shift register, and its remaining time.
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

impl<C: Clock, W: Write> Uart<C, W> {
    /// Returns the port's current state.
    pub fn save(&mut self) -> State {
        self.drain();
        let now = self.time();
        State {
            latches: self.latches,
            transmit: self.transmit.iter().copied().collect(),
            shifting: self.shifting.map(|(byte, done)| (byte, (done - now).0)),
            controller: match self.line {
                Line::Controller(by) => Some(self.controller.save(by, now)),
                _ => None,
            },
            receive: self.receiver.bytes.iter().copied().collect(),
            overrun: self.receiver.overrun,
            timeout_in_ns: self.receiver.timeout_at.map(|at| (at - now).0),
            transmit_interrupt: self.transmit_interrupt,
            busy_detect: self.busy_detect,
            modem: self.modem,
            lost: self.lost,
        }
    }

    /// Restores the state of a port with the same chip and line. This port then continues like that
    /// one.
    ///
    /// The state may be untrusted: bytes beyond the FIFO size and bits that the registers do not
    /// have are ignored.
    pub fn restore(&mut self, state: &State) {
        self.quiet = Quiet::NOT;
        self.timed = false;
        let now = self.time();
        let from_now = |left: u64| now + Nanos(left);
        self.latches = self.possible(state.latches);
        let depth = self.chip.fifo_depth();
        self.transmit = state.transmit.iter().copied().take(depth).collect();
        self.shifting = None;
        self.controller = Progress::default();
        match self.line {
            Line::Controller(by) => {
                if let Some(saved) = &state.controller {
                    self.controller = Progress::restored(saved, by, now);
                }
                if self.transmit.is_empty() {
                    self.controller.rest();
                }
            }
            _ => self.shifting = state.shifting.map(|(byte, left)| (byte, from_now(left))),
        }
        self.receiver = Receiver {
            bytes: state
                .receive
                .iter()
                .take(depth)
                .map(|&(byte, errors)| (byte, errors & ERRORS))
                .collect(),
            overrun: state.overrun,
            timeout_at: state.timeout_in_ns.map(from_now),
        };
        self.transmit_interrupt = state.transmit_interrupt;
        self.busy_detect = state.busy_detect;
        self.modem = state.modem.restored();
        self.lost = state.lost;
    }

    fn possible(&self, latches: Latches) -> Latches {
        Latches {
            ier: latches.ier & 0x0f,
            fcr: latches.fcr & self.chip.fcr_bits(),
            mcr: latches.mcr & 0x1f,
            efr: if self.chip.has_efr() { latches.efr } else { 0 },
            ..latches
        }
    }
}

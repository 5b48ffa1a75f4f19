//! Saving and restoring a port.

use std::io::Write;

use nostall_io::{Clock, Nanos};
use serde::{Deserialize, Serialize};

use super::Pl011;
use super::model::{CR_BITS, Latches};
use super::receiver::Receiver;
use super::registers::{fr, int};

/// Saved state of a [`Pl011`].
///
/// Its times are relative to the moment of saving, so that it can be restored with another clock.
/// Chip, line and sink are not included: they are arguments of the port's constructor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    latches: Latches,
    transmit: Vec<u8>,
    /// Byte in the shift register, and its remaining time.
    shifting: Option<(u8, u64)>,
    receive: Vec<u16>,
    overrun: bool,
    status: u32,
    timeout_in_ns: Option<u64>,
    modem: u32,
    raw: u32,
    lost: u64,
}

impl<C: Clock, W: Write> Pl011<C, W> {
    /// Returns the port's current state.
    pub fn save(&mut self) -> State {
        self.settle();
        let now = self.time();
        State {
            latches: self.latches,
            transmit: self.transmit.iter().copied().collect(),
            shifting: self.shifting.map(|(byte, done)| (byte, (done - now).0)),
            receive: self.receiver.characters.iter().copied().collect(),
            overrun: self.receiver.overrun,
            status: self.receiver.status,
            timeout_in_ns: self.receiver.timeout_at.map(|at| (at - now).0),
            modem: self.modem,
            raw: self.raw,
            lost: self.lost,
        }
    }

    /// Restores the state of a port with the same chip and line. This port then continues like that
    /// one.
    ///
    /// The state may be untrusted: bytes beyond the FIFO size and bits that the registers do not
    /// have are ignored.
    pub fn restore(&mut self, state: &State) {
        self.timed = false;
        let now = self.time();
        let from_now = |left: u64| now + Nanos(left);
        self.latches = self.possible(state.latches);
        let depth = self.depth();
        self.transmit = state.transmit.iter().copied().take(depth).collect();
        self.shifting = state.shifting.map(|(byte, left)| (byte, from_now(left)));
        let characters = state.receive.iter().take(depth);
        self.receiver = Receiver {
            characters: characters.map(|character| character & 0xfff).collect(),
            overrun: state.overrun,
            status: state.status & 0xf,
            timeout_at: None,
        };
        if self.may_time_out() {
            self.receiver.timeout_at = state.timeout_in_ns.map(from_now);
        }
        self.modem = state.modem & (fr::CTS | fr::DSR | fr::DCD | fr::RI);
        self.raw = state.raw & int::ALL;
        self.lost = state.lost;
    }

    fn possible(&self, latches: Latches) -> Latches {
        let imsc = latches.imsc & int::ALL;
        if !self.chip.is_whole() {
            let fixed = Latches::of(self.chip);
            return Latches { imsc, ..fixed };
        }
        Latches {
            ilpr: latches.ilpr & 0xff,
            ibrd: latches.ibrd & 0xffff,
            fbrd: latches.fbrd & 0x3f,
            divisor: latches.divisor & 0x3f_ffff,
            lcr: latches.lcr & 0xff,
            cr: latches.cr & CR_BITS,
            ifls: latches.ifls & 0x3f,
            imsc,
            dmacr: latches.dmacr & 0b111,
        }
    }
}

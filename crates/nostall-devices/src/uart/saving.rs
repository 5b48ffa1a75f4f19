//! Keeping what a port holds, and putting it back.

use std::io::Write;

use nostall_io::{Clock, Nanos};

use super::controller::Progress;
use super::receiver::{ERRORS, Receiver};
use super::state::{Latches, State};
use super::{Line, Uart};

impl<C: Clock, W: Write> Uart<C, W> {
    /// What the port holds now.
    pub fn save(&mut self) -> State {
        self.drain();
        let now = self.now;
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

    /// Puts back what a port of the same chip and line held: it then does
    /// whatever that one would have done.
    ///
    /// The state may come from anywhere. What no such port can hold is left out:
    /// bytes that its FIFOs have no room for, bits that its registers do not
    /// have.
    pub fn restore(&mut self, state: &State) {
        let now = self.clock.now();
        self.now = now;
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

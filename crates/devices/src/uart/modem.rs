//! The four modem status lines, and their changes that the guest has not read yet.

use nostall_uart::registers::{mcr, msr};
use serde::{Deserialize, Serialize};

/// MSR bits of the lines.
const LINES: u8 = msr::CTS | msr::DSR | msr::RI | msr::DCD;

/// Each line's bit is this many bits above its delta bit.
const TO_DELTA: u32 = 4;

/// The modem status register (PC16550D, section 8.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Modem {
    /// Lines that the modem asserts.
    outside: u8,
    /// Lines that the port sees: the modem's, or in loopback its own outputs.
    seen: u8,
    deltas: u8,
}

impl Modem {
    /// Creates the state for a ready modem or a cable wired likewise: CTS, DSR and DCD asserted.
    pub(super) const fn ready() -> Self {
        let lines = msr::CTS | msr::DSR | msr::DCD;
        Self {
            outside: lines,
            seen: lines,
            deltas: 0,
        }
    }

    /// Sets the modem's lines.
    pub(super) fn set(&mut self, lines: u8, mcr: u8) {
        self.outside = lines & LINES;
        self.update(mcr);
    }

    /// Records changed lines. The ring indicator counts only when it is deasserted.
    pub(super) fn update(&mut self, mcr: u8) {
        let now = if mcr & mcr::LOOP == 0 {
            self.outside
        } else {
            looped(mcr)
        };
        let changed = (self.seen ^ now) & !(now & msr::RI);
        self.deltas |= changed >> TO_DELTA;
        self.seen = now;
    }

    /// Returns the register and clears its delta bits.
    pub(super) fn read(&mut self) -> u8 {
        self.seen | std::mem::take(&mut self.deltas)
    }

    pub(super) const fn changed(self) -> bool {
        self.deltas != 0
    }

    pub(super) const fn outside(self) -> u8 {
        self.outside
    }

    /// Returns the state after a reset: current lines, no changes.
    pub(super) const fn reset(self) -> Self {
        Self {
            outside: self.outside,
            seen: self.outside,
            deltas: 0,
        }
    }

    /// Returns the state without bits that the register does not have.
    pub(super) const fn restored(self) -> Self {
        Self {
            outside: self.outside & LINES,
            seen: self.seen & LINES,
            deltas: self.deltas & !LINES,
        }
    }
}

/// Returns the status lines in loopback: the four MCR outputs (section 8.8).
fn looped(mcr: u8) -> u8 {
    [
        (mcr::RTS, msr::CTS),
        (mcr::DTR, msr::DSR),
        (mcr::OUT1, msr::RI),
        (mcr::OUT2, msr::DCD),
    ]
    .into_iter()
    .filter(|&(output, _)| mcr & output != 0)
    .fold(0, |inputs, (_, input)| inputs | input)
}

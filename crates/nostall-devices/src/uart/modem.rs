//! The modem's four lines, and their changes that the guest has not yet read.

use nostall_uart::registers::{mcr, msr};
use serde::{Deserialize, Serialize};

/// The bits of the MSR that are lines.
const LINES: u8 = msr::CTS | msr::DSR | msr::RI | msr::DCD;

/// Each input's bit lies this far above its delta's.
const TO_DELTA: u32 = 4;

/// The modem status register (PC16550D, section 8.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Modem {
    /// Lines that the modem asserts.
    outside: u8,
    /// Lines that the port sees: the modem's, or its own outputs.
    seen: u8,
    deltas: u8,
}

impl Modem {
    /// A modem that is there and ready, or a cable wired so.
    pub(super) const fn ready() -> Self {
        let lines = msr::CTS | msr::DSR | msr::DCD;
        Self {
            outside: lines,
            seen: lines,
            deltas: 0,
        }
    }

    /// The modem changes its lines.
    pub(super) fn set(&mut self, lines: u8, mcr: u8) {
        self.outside = lines & LINES;
        self.update(mcr);
    }

    /// Notes the changed lines. A ring indicator counts when it goes away.
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

    /// The register, whose deltas go by being read.
    pub(super) fn read(&mut self) -> u8 {
        self.seen | std::mem::take(&mut self.deltas)
    }

    pub(super) const fn changed(self) -> bool {
        self.deltas != 0
    }

    pub(super) const fn outside(self) -> u8 {
        self.outside
    }

    /// After a reset: the lines as they are, nothing changed.
    pub(super) const fn reset(self) -> Self {
        Self {
            outside: self.outside,
            seen: self.outside,
            deltas: 0,
        }
    }

    /// Only bits that there are.
    pub(super) const fn restored(self) -> Self {
        Self {
            outside: self.outside & LINES,
            seen: self.seen & LINES,
            deltas: self.deltas & !LINES,
        }
    }
}

/// In loopback the four outputs of the MCR are the four inputs (section 8.8).
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

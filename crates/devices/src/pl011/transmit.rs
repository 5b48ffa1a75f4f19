//! The transmit path: from the data register to the other end of the line.

use std::io::Write;

use nostall_io::{Clock, Nanos};

use super::registers::{cr, fr, int, lcr_h};
use super::{Chip, Line, Pl011};

impl<C: Clock, W: Write> Pl011<C, W> {
    /// Stores a byte to send. A full FIFO loses it: the data sheet has no flag for that.
    pub(super) fn send(&mut self, byte: u8) {
        if self.transmit.len() >= self.depth() {
            self.lost = self.lost.saturating_add(1);
            return;
        }
        self.transmit.push_back(byte);
        if self.transmit.len() > self.transmit_level() {
            self.raw &= !int::TX;
        }
        self.advance();
    }

    /// Begins an access: applies all effects that are due by now.
    pub(super) fn settle(&mut self) {
        self.timed = false;
        if !self.idle() {
            self.advance();
        }
        if let Some(at) = self.receiver.timeout_at
            && at <= self.time()
        {
            self.receiver.timeout_at = None;
            self.raw |= int::RT;
        }
    }

    /// Returns the time of the current access; the first call in an access reads the clock.
    pub(super) fn time(&mut self) -> Nanos {
        if !self.timed {
            self.now = self.clock.now();
            self.timed = true;
        }
        self.now
    }

    /// Sends all bytes that are due by the time of the current access.
    pub(super) fn advance(&mut self) {
        let now = self.time();
        let mut line_free = now;
        loop {
            if let Some((byte, done)) = self.shifting {
                if done > now {
                    return;
                }
                self.shifting = None;
                self.arrive(byte, done);
                line_free = done;
            }
            let Some(frame_time) = self.frame_time().filter(|_| self.transmits()) else {
                return;
            };
            let Some(byte) = self.load() else {
                return;
            };
            self.shifting = Some((byte, line_free + frame_time));
        }
    }

    /// Returns whether the transmitter takes bytes from its FIFO (DDI 0183G, sections 2.6.2, 3.3.7
    /// and 3.3.8).
    fn transmits(&self) -> bool {
        let is_set = |bits| self.latches.cr & bits == bits;
        let enabled = is_set(cr::UARTEN | cr::TXE) || self.chip == Chip::Qemu;
        let clear = !is_set(cr::CTSEN) || self.modem_seen() & fr::CTS != 0;
        enabled && clear && self.latches.lcr & lcr_h::BRK == 0 && !self.halted
    }

    /// Takes the next byte from the transmit FIFO. The interrupt comes when its fill falls to the
    /// level, and not while it is below (sections 2.8.3 and 3.3.9).
    fn load(&mut self) -> Option<u8> {
        let byte = self.transmit.pop_front()?;
        if self.transmit.len() == self.transmit_level() || self.line == Line::AtOnce {
            self.raw |= int::TX;
        }
        Some(byte)
    }

    /// Delivers a sent byte. In loopback, the port also receives it (section 3.3.8, LBE). The data
    /// sheet does not say that the line is idle then.
    fn arrive(&mut self, byte: u8, at: Nanos) {
        let word = byte & self.word_mask();
        if self.is_looped() {
            self.take_in(word, 0, at);
        }
        if let Err(error) = self.sink.write_all(&[word]) {
            self.lost = self.lost.saturating_add(1);
            self.sink_error = Some(error);
        }
    }

    /// Returns the bits of a byte that a frame has. QEMU sends all of them.
    fn word_mask(&self) -> u8 {
        if self.chip == Chip::Qemu {
            return !0;
        }
        !0 >> (3 - ((self.latches.lcr & lcr_h::WLEN) >> 5))
    }

    /// Returns the duration of a frame on the line: start, data, parity, stop (section 3.3.7).
    /// `None` if the line does not advance.
    fn frame_time(&self) -> Option<Nanos> {
        if self.line == Line::AtOnce {
            return Some(Nanos::ZERO);
        }
        let lcr = self.latches.lcr;
        let bit = |bit| u64::from(lcr & bit != 0);
        let data = 5 + u64::from((lcr & lcr_h::WLEN) >> 5);
        self.time_of(1 + data + bit(lcr_h::PEN) + 1 + bit(lcr_h::STP2))
    }

    /// Returns the duration of `bits` bit periods. A bit takes 16 cycles of UARTCLK at divisor 1
    /// (section 3.3.6), and a line that needs no rate has 115,200 baud. `None` for a divisor that
    /// the data sheet calls invalid, or a rate of 0.
    pub(super) fn time_of(&self, bits: u64) -> Option<Nanos> {
        let (periods, rate) = match self.line {
            Line::AtOnce => (bits, 115_200),
            Line::Baud(baud) => (bits, baud.into()),
            Line::Clock(clock) => match self.latches.divisor {
                divisor @ 0x40..=0x3f_ffc0 => (bits * u64::from(divisor), 4 * u64::from(clock)),
                _ => return None,
            },
        };
        (rate != 0).then(|| Nanos::from_secs(periods) / rate)
    }

    /// Returns whether the port has sent everything.
    pub(super) fn idle(&self) -> bool {
        self.transmit.is_empty() && self.shifting.is_none()
    }

    pub(super) fn transmit_level(&self) -> usize {
        self.chip.transmit_level(self.latches.ifls, self.depth())
    }
}

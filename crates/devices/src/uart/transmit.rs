//! The transmit path: from the holding register to the other end of the line.

use std::io::Write;

use nostall_io::{Clock, Nanos};
use nostall_uart::registers::lcr;

use super::quiet::Quiet;
use super::{Line, Uart};

/// Input clock in hertz: a PC's 1.8432 MHz (PC16550D, Table III).
const INPUT_CLOCK: u64 = 1_843_200;

impl<C: Clock, W: Write> Uart<C, W> {
    pub(super) fn send(&mut self, byte: u8) {
        if self.sends_at_once() {
            return self.send_at_once(byte);
        }
        self.transmit_interrupt = false;
        if self.transmit.len() >= self.transmit_depth() {
            // The data sheet leaves this case undefined. The model discards the newest byte; real
            // hardware may overwrite an older one.
            self.lost = self.lost.saturating_add(1);
            return;
        }
        self.transmit.push_back(byte);
        self.advance();
    }

    pub(super) fn sends_at_once(&self) -> bool {
        self.line == Line::AtOnce && self.idle() && !self.is_looped()
    }

    #[inline]
    pub(super) fn send_at_once(&mut self, byte: u8) {
        self.transmit_interrupt = true;
        self.deliver(byte);
    }

    /// Begins an access: applies all effects that are due by now.
    #[inline]
    pub(super) fn drain(&mut self) {
        self.timed = false;
        if !self.is_quiet() {
            self.settle();
        }
    }

    /// Begins a change of the state.
    pub(super) fn disturb(&mut self) {
        self.drain();
        self.quiet = Quiet::NOT;
    }

    /// Applies all effects that are due by the time of the current access.
    ///
    /// Reads the clock only while a byte or the receive timeout is pending. Otherwise the state
    /// does not depend on the time.
    pub(super) fn settle(&mut self) {
        let timeout = self.receiver.timeout_at.is_some_and(|at| at > self.now);
        if !self.idle() || timeout {
            self.advance();
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
    fn advance(&mut self) {
        let now = self.time();
        let mut line_free = now;
        loop {
            match self.shifting {
                Some((_, done)) if done > now => return,
                Some((byte, done)) => {
                    self.shifting = None;
                    self.arrive(byte, done);
                    line_free = done;
                }
                None if matches!(self.line, Line::Controller(_)) => return self.be_emptied(now),
                None => {
                    let Some(frame_time) = self.frame_time() else {
                        return;
                    };
                    let Some(byte) = self.load() else {
                        return;
                    };
                    self.shifting = Some((byte, line_free + frame_time));
                }
            }
        }
    }

    /// Moves all bytes to the controller that it has had time to take by now.
    fn be_emptied(&mut self, now: Nanos) {
        let Line::Controller(by) = self.line else {
            return;
        };
        while !self.transmit.is_empty() {
            self.controller.notice(by, now);
            let Some(at) = self.controller.next_take(by).filter(|&at| at <= now) else {
                return;
            };
            self.controller.take(by, at);
            if let Some(byte) = self.load() {
                self.arrive(byte, at);
            }
        }
        self.controller.rest();
    }

    /// Takes the next byte from the transmit FIFO.
    fn load(&mut self) -> Option<u8> {
        let byte = self.transmit.pop_front()?;
        let left = self.transmit.len();
        // The interrupt occurs when the remaining bytes reach the ready level, and when the FIFO is
        // empty.
        self.transmit_interrupt |= left == 0 || left == self.left_when_ready();
        Some(byte)
    }

    /// Delivers a sent byte to the other end of the line, or in loopback to the port's own receiver
    /// (section 8.8).
    fn arrive(&mut self, byte: u8, at: Nanos) {
        if self.is_looped() {
            self.take_in(byte, 0, at);
        } else {
            self.deliver(byte);
        }
    }

    fn deliver(&mut self, byte: u8) {
        if let Err(error) = self.sink.write_all(&[byte]) {
            self.lost = self.lost.saturating_add(1);
            self.sink_error = Some(error);
        }
    }

    /// Returns the duration of a frame on the line; `None` if the line does not advance.
    fn frame_time(&self) -> Option<Nanos> {
        match (self.line, self.latches.divisor) {
            (Line::AtOnce | Line::Controller(_), _) => Some(Nanos::ZERO),
            (Line::Baud, 0) => None,
            (Line::Baud, divisor) => Some(self.frame_time_at(divisor)),
        }
    }

    pub(super) fn frame_time_at(&self, divisor: u16) -> Nanos {
        let cycles = self.half_bits() * 8 * u64::from(divisor);
        Nanos::from_secs(cycles) / INPUT_CLOCK
    }

    /// Returns the length of a frame in half bits: start, data, parity, stop (section 8.1).
    fn half_bits(&self) -> u64 {
        let lcr = self.latches.lcr;
        let data = 5 + u64::from(lcr & lcr::WORD_LENGTH);
        let parity = u64::from(lcr & lcr::PARITY != 0);
        let stop = match (lcr & lcr::STOP != 0, data) {
            (false, _) => 2,
            (true, 5) => 3,
            (true, _) => 4,
        };
        2 + 2 * data + 2 * parity + stop
    }

    pub(super) fn ready(&self) -> bool {
        self.transmit.len() <= self.left_when_ready()
    }

    fn left_when_ready(&self) -> usize {
        self.chip.left_when_ready(self.depth())
    }

    /// Returns whether the port has sent everything. With a controller, returns whether the FIFO is
    /// empty: the port cannot observe the controller.
    pub(super) fn idle(&self) -> bool {
        self.transmit.is_empty() && self.shifting.is_none()
    }

    fn transmit_depth(&self) -> usize {
        match self.depth() {
            depth if self.short_fifo => depth.div_ceil(2),
            depth => depth,
        }
    }
}

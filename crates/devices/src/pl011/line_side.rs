//! Actions from outside the port: reset, input, modem lines.

use std::io::{self, Write};

use nostall_io::{Clock, Nanos};

use super::model::Latches;
use super::receiver::{ERRORS, Receiver};
use super::registers::{cr, fr, int};
use super::{Chip, Pl011};

/// Modem inputs in FR, the control bit that is looped to each, and the interrupt of its change. The
/// data sheet names the pairs by their use (DDI 0183G, Tables 2-2 and 3-12).
const MODEM: [(u32, u32, u32); 4] = [
    (fr::CTS, cr::RTS, int::CTS),
    (fr::DSR, cr::DTR, int::DSR),
    (fr::DCD, cr::OUT1, int::DCD),
    (fr::RI, cr::OUT2, int::RI),
];

impl<C: Clock, W: Write> Pl011<C, W> {
    /// Receives a byte from the line. A full FIFO loses it, with an overrun. A disabled receiver
    /// ignores it, and in loopback the line is not connected.
    pub fn receive(&mut self, byte: u8) {
        self.receive_with(byte, 0);
    }

    /// Receives a byte with `errors`: the framing, parity and break bits of DR. A break is a byte
    /// of 0.
    pub fn receive_with(&mut self, byte: u8, errors: u32) {
        self.settle();
        if !self.is_looped() {
            let now = self.time();
            self.take_in(byte, errors, now);
        }
    }

    /// Returns how many bytes can be received without loss: none in loopback or while disabled. A
    /// VMM should hold back further input.
    pub fn receive_room(&self) -> usize {
        if self.is_looped() || !self.receives() {
            return 0;
        }
        self.depth().saturating_sub(self.receiver.characters.len())
    }

    pub(super) fn take_in(&mut self, byte: u8, errors: u32, at: Nanos) {
        if !self.receives() {
            return;
        }
        // It has occurred between two accesses, before this byte.
        if self.receiver.timeout_at.is_some_and(|due| due <= at) {
            self.raw |= int::RT;
        }
        if !self.receiver.put(byte, errors, self.depth()) {
            self.raw |= int::OE;
            return;
        }
        // FE, PE and BE follow each other in DR and in the interrupt registers (section 2.8.5).
        self.raw |= (errors & ERRORS) >> 1;
        // The interrupt comes when the fill rises to the level (section 3.3.9).
        if self.receiver.characters.len() == self.receive_level() {
            self.raw |= int::RX;
        }
        self.restart_timeout(at);
    }

    fn receives(&self) -> bool {
        let enabled = cr::UARTEN | cr::RXE;
        self.latches.cr & enabled == enabled || self.chip == Chip::Qemu
    }

    /// Restarts the receive timeout: 32 bit periods after the last byte, while its interrupt is let
    /// through (sections 2.8.4 and 3.3.11). QEMU has none.
    pub(super) fn restart_timeout(&mut self, from: Nanos) {
        let span = self.time_of(32).filter(|_| self.may_time_out());
        self.receiver.timeout_at = span.map(|span| from + span);
    }

    pub(super) fn may_time_out(&self) -> bool {
        let enabled = self.latches.imsc & int::RT != 0 && self.chip != Chip::Qemu;
        enabled && !self.receiver.characters.is_empty()
    }

    /// Sets the modem's inputs: the bits of FR, set for an asserted line.
    pub fn set_modem_lines(&mut self, lines: u32) {
        self.settle();
        let before = self.modem_seen();
        self.modem = lines & (fr::CTS | fr::DSR | fr::DCD | fr::RI);
        self.note_modem(before);
        self.advance();
    }

    /// Returns the modem's inputs as last set.
    pub fn modem_lines(&self) -> u32 {
        self.modem
    }

    /// Returns whether the port asserts RTS. With RTS flow control, it does so until the receive
    /// FIFO has filled to its level (section 2.6.1).
    pub fn requests_to_send(&self) -> bool {
        if self.latches.cr & cr::RTSEN == 0 {
            return self.latches.cr & cr::RTS != 0;
        }
        self.receiver.characters.len() < self.receive_level()
    }

    /// Returns the modem inputs that the guest sees: the lines, or in loopback the port's outputs.
    pub(super) fn modem_seen(&self) -> u32 {
        if !self.chip.is_whole() {
            return 0;
        }
        if !self.is_looped() {
            return self.modem;
        }
        let looped = |&&(_, output, _): &&_| self.latches.cr & output != 0;
        MODEM.iter().filter(looped).map(|&(input, ..)| input).sum()
    }

    /// Raises the interrupts of changed modem inputs (section 2.8.1).
    pub(super) fn note_modem(&mut self, before: u32) {
        let changed = before ^ self.modem_seen();
        for (input, _, interrupt) in MODEM {
            if changed & input != 0 {
                self.raw |= interrupt;
            }
        }
    }

    /// Returns the number of written bytes that were lost: written to a full transmitter, flushed,
    /// lost in a reset, or refused by the sink.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes the sink's last error. Its byte is lost.
    pub fn take_sink_error(&mut self) -> Option<io::Error> {
        self.sink_error.take()
    }

    /// Returns the sink, after writing all bytes sent until now.
    pub fn sink_mut(&mut self) -> &mut W {
        self.settle();
        &mut self.sink
    }

    /// Returns the sink, after writing all bytes sent until now.
    pub fn into_sink(mut self) -> W {
        self.settle();
        self.sink
    }

    /// Resets the port, as its reset pin or a power loss does. Registers have their values of Table
    /// 3-1, and bytes in the FIFOs are lost. The modem's lines do not change.
    pub fn reset(&mut self) {
        self.settle();
        let under_way = self.transmit.len() + usize::from(self.shifting.is_some());
        self.lost = self.lost.saturating_add(under_way as u64);
        self.transmit.clear();
        self.shifting = None;
        self.receiver = Receiver::default();
        self.latches = Latches::of(self.chip);
        self.raw = 0;
    }

    /// Stops the transmitter, as a fault. The byte in the shift register is still sent.
    pub(super) fn halt(&mut self) {
        self.settle();
        self.halted = true;
    }
}

//! Actions from outside the port: reset, input, modem lines.

use std::io::{self, Write};

use nostall_io::Clock;

use super::Uart;
use super::model::Latches;
use super::receiver::Receiver;

impl<C: Clock, W: Write> Uart<C, W> {
    /// Receives a byte from the line. If there is no room, one byte is lost and the LSR reports an
    /// overrun (section 8.4). In FIFO mode the new byte is lost, otherwise the previous one. In
    /// loopback the line is not connected.
    pub fn receive(&mut self, byte: u8) {
        self.receive_with(byte, 0);
    }

    /// Receives a byte with `errors`: the parity, framing and break bits of the LSR. A break is a
    /// byte of 0.
    pub fn receive_with(&mut self, byte: u8, errors: u8) {
        self.disturb();
        if !self.is_looped() {
            let now = self.time();
            self.take_in(byte, errors, now);
        }
    }

    /// Receives as many of `bytes` as there is room for, at one time, and returns their number.
    /// In loopback it is 0.
    pub(super) fn receive_all(&mut self, bytes: &[u8]) -> usize {
        self.disturb();
        let taken = bytes.len().min(self.receive_room());
        for &byte in &bytes[..taken] {
            let now = self.time();
            self.take_in(byte, 0, now);
        }
        taken
    }

    /// Returns how many bytes can be received without loss: none in loopback. A VMM should hold back
    /// further input.
    pub fn receive_room(&self) -> usize {
        if self.is_looped() {
            0
        } else {
            self.depth().saturating_sub(self.receiver.bytes.len())
        }
    }

    /// Sets the modem's lines. `lines` has the upper four bits of the MSR, set for an asserted
    /// line.
    pub fn set_modem_lines(&mut self, lines: u8) {
        self.disturb();
        self.modem.set(lines, self.latches.mcr);
    }

    /// Returns the modem's lines as last set.
    pub fn modem_lines(&self) -> u8 {
        self.modem.outside()
    }

    /// Returns the number of written bytes that were lost: written to a full transmitter, lost in a
    /// reset, or refused by the sink.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Takes the sink's last error. Its byte is lost.
    pub fn take_sink_error(&mut self) -> Option<io::Error> {
        self.sink_error.take()
    }

    /// Returns the number of reads from the empty receiver. A DesignWare built with PSLVERR_RESP_EN
    /// responds to them with a bus error (DW_apb_uart databook).
    pub fn empty_reads(&self) -> u64 {
        self.empty_reads
    }

    /// Returns the sink, after writing all bytes sent until now.
    pub fn sink_mut(&mut self) -> &mut W {
        self.drain();
        &mut self.sink
    }

    /// Returns the sink, after writing all bytes sent until now.
    pub fn into_sink(mut self) -> W {
        self.drain();
        self.sink
    }

    /// Resets the port, as its reset pin or a power loss does. Registers have their values of Table
    /// I, divisor and scratch register are 0, and bytes in the FIFOs are lost. The modem's lines do
    /// not change.
    pub fn reset(&mut self) {
        self.disturb();
        self.clear();
    }

    /// Resets the port at the time of the current access.
    pub(super) fn clear(&mut self) {
        let under_way = self.transmit.len() + usize::from(self.shifting.is_some());
        self.lost = self.lost.saturating_add(under_way as u64);
        self.transmit.clear();
        self.shifting = None;
        self.controller.rest();
        self.receiver = Receiver::default();
        self.modem = self.modem.reset();
        self.latches = Latches::default();
        self.transmit_interrupt = false;
        self.busy_detect = false;
    }

    /// Halves the number of bytes that the transmit FIFO accepts, as a fault.
    pub(crate) fn shorten_fifo(&mut self) {
        self.short_fifo = true;
    }
}

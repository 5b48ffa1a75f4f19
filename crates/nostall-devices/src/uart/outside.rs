//! Actions of the world around the port: reset, input, modem lines.

use std::io::Write;

use nostall_io::Clock;
use nostall_uart::registers::mcr;

use super::Uart;
use super::model::Latches;
use super::receiver::Receiver;

impl<C: Clock, W: Write> Uart<C, W> {
    /// A byte arrives from the line. With no room left a byte is lost and the
    /// overrun shown, as section 8.4 says: this one in FIFO mode, else the one
    /// before. In loopback the line is not connected.
    pub fn receive(&mut self, byte: u8) {
        self.receive_with(byte, 0);
    }

    /// A byte arrives with something wrong: `errors` are the parity, framing and
    /// break bits of the LSR. A break comes as a byte of 0.
    pub fn receive_with(&mut self, byte: u8, errors: u8) {
        self.drain();
        if self.latches.mcr & mcr::LOOP == 0 {
            self.take_in(byte, errors, self.now);
        }
    }

    /// Returns how many bytes can be received before one is lost. A VMM should hold back input
    /// beyond that.
    pub fn receive_room(&self) -> usize {
        self.depth().saturating_sub(self.receiver.bytes.len())
    }

    /// The modem, or the cable, changes its lines: `lines` are the upper four
    /// bits of the MSR, set where a line is asserted.
    pub fn set_modem_lines(&mut self, lines: u8) {
        self.drain();
        self.modem.set(lines, self.latches.mcr);
    }

    /// The modem's lines as they were last set.
    pub fn modem_lines(&self) -> u8 {
        self.modem.outside()
    }

    /// Bytes that the guest wrote and that will never arrive: written into a full
    /// transmitter, gone with the power, or refused by the sink.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Reads of the receiver while it was empty. A DesignWare that is built with
    /// PSLVERR_RESP_EN answers them with a bus error (DW_apb_uart databook).
    pub fn empty_reads(&self) -> u64 {
        self.empty_reads
    }

    /// Where the sent bytes go: all that has left by now is there.
    pub fn sink_mut(&mut self) -> &mut W {
        self.drain();
        &mut self.sink
    }

    /// Where the sent bytes went.
    pub fn into_sink(mut self) -> W {
        self.drain();
        self.sink
    }

    /// Resets the port, as the reset pin or returning power does. Every register is as in Table I,
    /// divisor and scratch are 0, and bytes in the FIFOs are lost. The modem's lines are unchanged.
    pub fn reset(&mut self) {
        self.drain();
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

    /// Lets the transmit FIFO accept only half of its advertised bytes from now on.
    pub(crate) fn shorten_fifo(&mut self) {
        self.short_fifo = true;
    }
}

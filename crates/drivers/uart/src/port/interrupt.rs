//! The interrupt handler.

use nostall_io::{Counter, Registers, count};

use super::{Events, Handshake, Port};
use crate::Model;
use crate::model::LARGEST_LOAD;
use crate::registers::{DW_USR, IER, IIR, LSR, MSR, RBR, THR, dw, ier, iir, lsr, msr};

/// Error: the port no longer answers.
#[derive(Debug)]
pub(super) struct Gone;

/// Error: the port had more work when the budget was spent.
struct Unfinished;

impl<R: Registers> Port<'_, R> {
    /// Handles the port's interrupts until none is pending.
    ///
    /// Bounded: a call moves at most five receive FIFOs or five transmit loads, whichever is
    /// larger, plus 16 bytes. An interrupt of another device on the same line costs one register
    /// read.
    pub fn on_interrupt(&mut self) -> Events {
        let mut events = Events::default();
        let free = self.transmit.free();
        self.gone = false;
        match self.serve(&mut events) {
            Ok(Ok(())) => {}
            Ok(Err(Unfinished)) => {
                events.unfinished = true;
                self.interrupt_anew();
            }
            Err(Gone) => self.gone = true,
        }
        self.hold_sender_off();
        events.gone = self.gone;
        events.room = self.transmit.free() > free;
        events.received = core::mem::take(&mut self.news);
        events.modem = core::mem::take(&mut self.modem_changed);
        #[cfg(feature = "embedded-io-async")]
        self.wakers.wake(events);
        events
    }

    /// Does the same without a connected interrupt. Call it at least once in the time that fills
    /// the receive FIFO.
    pub fn poll(&mut self) -> Events {
        self.on_interrupt()
    }

    fn serve(&mut self, events: &mut Events) -> Result<Result<(), Unfinished>, Gone> {
        // Counts reads of the cause and moved bytes. Four FIFOs are more than one interrupt should
        // find. But if the other end is a program, it can supply bytes without end.
        let mut budget = 4 * self.depth.max(self.load) + 16;
        while budget > 0 {
            let cause = self.registers.read8(IIR);
            if cause == !0 {
                return Err(Gone);
            }
            let spent = match cause & (iir::ID | iir::NONE) {
                iir::LINE_STATUS | iir::RECEIVED_DATA => self.empty_receiver(budget)?,
                iir::TIMEOUT => self.on_timeout(budget)?,
                iir::TRANSMITTER_EMPTY => self.on_transmitter_empty(events)?,
                iir::MODEM_STATUS => self.on_modem_status(),
                dw::IIR_BUSY if self.model == Model::DesignWare => {
                    let _ = self.registers.read32(DW_USR);
                    0
                }
                none if none & iir::NONE != 0 => return Ok(Ok(())),
                // Not a cause of the 16550: it repeats until the budget is spent.
                _ => 0,
            };
            budget = budget.saturating_sub(1 + spent);
        }
        Ok(Err(Unfinished))
    }

    /// Handles a character timeout. A DesignWare can report it without a byte, until a byte that is
    /// not there is read (as Linux found, `8250_dw.c`).
    fn on_timeout(&mut self, budget: usize) -> Result<usize, Gone> {
        let received = self.empty_receiver(budget)?;
        if received == 0 && self.model == Model::DesignWare {
            let _ = self.registers.read8(RBR);
        }
        Ok(received)
    }

    /// Handles an empty transmitter. Reading the IIR has cleared this interrupt (PC16550D, Table
    /// IV). If there are bytes, the transmitter is loaded, and interrupts again when it is empty.
    /// Otherwise the interrupt is disabled.
    fn on_transmitter_empty(&mut self, events: &mut Events) -> Result<usize, Gone> {
        // Checked, because a load into a FIFO that is not empty loses bytes. If it is not, the
        // interrupt comes again when it is.
        if self.line_status()? & lsr::THRE == 0 {
            return Ok(0);
        }
        events.drained |= self.transmit.is_empty();
        let loaded = self.load_transmitter();
        if loaded == 0 {
            self.disable(ier::TRANSMITTER_EMPTY);
        }
        Ok(loaded)
    }

    fn on_modem_status(&mut self) -> usize {
        self.look_at_modem();
        self.start_transmitter();
        0
    }

    /// Starts an idle transmitter if there are bytes to send and the other end allows it.
    pub(super) fn start_transmitter(&mut self) {
        let waiting = self.enabled & ier::TRANSMITTER_EMPTY != 0;
        if waiting || self.transmit.is_empty() {
            return;
        }
        match self.line_status() {
            Err(Gone) => self.gone = true,
            // Held off: the modem status interrupt starts it later.
            Ok(status) if status & lsr::THRE != 0 && self.load_transmitter() == 0 => {}
            Ok(_) => self.enable(ier::TRANSMITTER_EMPTY),
        }
    }

    /// Loads an empty transmitter. Returns the number of bytes.
    fn load_transmitter(&mut self) -> usize {
        let mut room = [0; LARGEST_LOAD];
        let load = match self.handshake {
            Handshake::None => self.load,
            Handshake::RtsCts if self.transmit.is_empty() => 0,
            Handshake::RtsCts => {
                self.look_at_modem();
                usize::from(self.clear_to_send)
            }
        };
        let load = self.transmit.drain(&mut room[..load]);
        match load {
            [] => {}
            &[byte] => self.registers.write8(THR, byte),
            _ => self.registers.write_burst(THR, load),
        }
        self.statistics.sent += load.len() as u64;
        count(Counter::UartBytes, load.len() as u64);
        load.len()
    }

    /// Reads the modem status. The read clears its deltas, so they are kept for the next
    /// [`Events`].
    pub(super) fn look_at_modem(&mut self) -> u8 {
        const DELTAS: u8 = msr::DELTA_CTS | msr::DELTA_DSR | msr::TRAILING_RI | msr::DELTA_DCD;
        let status = self.registers.read8(MSR);
        self.modem_changed |= status & DELTAS != 0;
        self.clear_to_send = status & msr::CTS != 0;
        status & !DELTAS
    }

    /// Reads the line status. The read clears its errors, so they are kept for the receiver.
    pub(super) fn line_status(&mut self) -> Result<u8, Gone> {
        let status = self.registers.read8(LSR);
        // All ones mean "ready" with every error: probably no port. The read has cleared the
        // errors, so a port does not report them again.
        if status == !0 && self.registers.read8(LSR) == !0 {
            return Err(Gone);
        }
        self.keep_errors(status);
        Ok(status)
    }

    /// Raises the interrupt again, for an edge-triggered controller, which does not see an
    /// interrupt that was never low.
    fn interrupt_anew(&self) {
        self.registers.write8(IER, 0);
        self.registers.write8(IER, self.enabled);
    }

    pub(super) fn enable(&mut self, interrupts: u8) {
        self.set_enabled(self.enabled | interrupts);
    }

    pub(super) fn disable(&mut self, interrupts: u8) {
        self.set_enabled(self.enabled & !interrupts);
    }

    fn set_enabled(&mut self, enabled: u8) {
        if enabled != self.enabled {
            self.enabled = enabled;
            self.registers.write8(IER, enabled);
        }
    }
}

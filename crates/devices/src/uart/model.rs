//! The register model, as seen by the guest.

use std::collections::VecDeque;
use std::io::{self, Write};

use nostall_io::{Clock, Nanos};
use nostall_uart::Model;
use nostall_uart::registers::{
    FCR, ICR, IER, IIR, LCR, LSR, MCR, MSR, RBR, SCR, THR, efr, fcr, icr, ier, iir, lcr, lsr, mcr,
};
use serde::{Deserialize, Serialize};

use super::controller::Progress;
use super::modem::Modem;
use super::quiet::Quiet;
use super::receiver::Receiver;
use super::{Chip, Line};

/// Registers that hold the value written to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Latches {
    pub(super) divisor: u16,
    pub(super) ier: u8,
    pub(super) fcr: u8,
    pub(super) lcr: u8,
    pub(super) mcr: u8,
    pub(super) scr: u8,
    pub(super) efr: u8,
    /// XON and XOFF characters. Software flow control has no effect in this model.
    pub(super) xon_xoff: [u8; 4],
    /// The first eight indexed registers of the 16950.
    pub(super) icr: [u8; 8],
}

/// A port of the 16550 family.
///
/// Each sent byte is written to `W` when it has left the shift register, or when the
/// [`Controller`](super::Controller) has taken it. The port stores at most two FIFOs of bytes, for
/// any guest accesses. The owner bounds `W`: [`Output`](super::Output) is a sink with a bound.
///
/// A VMM passes the host's clock and [`Line::AtOnce`] (or [`Line::Baud`] for exact times), and the
/// guest's accesses. It sets the interrupt line to [`interrupt`](Self::interrupt) after each access
/// and at the time that [`next_event`](Self::next_event) returns. A [`Serial`](super::Serial) can
/// do that instead. Input is limited to [`receive_room`](Self::receive_room).
///
/// The model reads the clock only where a byte to send or a receive timeout depends on it. An
/// access reads it at most once.
#[derive(Debug)]
pub struct Uart<C, W> {
    pub(super) clock: C,
    /// Time of the stored state: the last clock reading.
    pub(super) now: Nanos,
    /// Whether the current access has read the clock. Each access reads it at most once.
    pub(super) timed: bool,
    pub(super) line: Line,
    pub(super) chip: Chip,
    pub(super) sink: W,
    /// Transmit FIFO, or the one-byte holding register.
    pub(super) transmit: VecDeque<u8>,
    /// Byte in the shift register, and the time at which its last bit is sent.
    pub(super) shifting: Option<(u8, Nanos)>,
    pub(super) controller: Progress,
    pub(super) receiver: Receiver,
    pub(super) modem: Modem,
    pub(super) latches: Latches,
    pub(super) transmit_interrupt: bool,
    /// The DesignWare's busy-detect interrupt: a write to the LCR was ignored.
    pub(super) busy_detect: bool,
    /// Fault: the transmit FIFO accepts only half of its advertised bytes.
    pub(super) short_fifo: bool,
    pub(super) lost: u64,
    pub(super) sink_error: Option<io::Error>,
    pub(super) empty_reads: u64,
    pub(super) quiet: Quiet,
}

impl<C: Clock, W: Write> Uart<C, W> {
    /// Creates a 16550A after reset (PC16550D, Table I). Its modem asserts CTS, DSR and DCD.
    pub fn new(clock: C, line: Line, sink: W) -> Self {
        Self::of(Model::Uart16550A, clock, line, sink)
    }

    /// Creates a port of another model, in the same state as [`new`](Self::new).
    pub fn of(chip: impl Into<Chip>, clock: C, line: Line, sink: W) -> Self {
        Self {
            clock,
            now: Nanos::ZERO,
            timed: false,
            line,
            chip: chip.into(),
            sink,
            transmit: VecDeque::new(),
            shifting: None,
            controller: Progress::default(),
            receiver: Receiver::default(),
            modem: Modem::ready(),
            latches: Latches::default(),
            transmit_interrupt: false,
            busy_detect: false,
            short_fifo: false,
            lost: 0,
            sink_error: None,
            empty_reads: 0,
            quiet: Quiet::NOT,
        }
    }

    /// Returns the chip.
    pub fn chip(&self) -> Chip {
        self.chip
    }

    /// Handles a guest's read of the register at `offset`. Beyond the last register it returns all
    /// ones.
    #[inline]
    pub fn read(&mut self, offset: usize) -> u8 {
        match self.begin_read(offset) {
            Some(status) => status,
            None => self.read_any(offset),
        }
    }

    /// Begins a read. Returns the line status if it is known and wanted.
    #[inline]
    pub(super) fn begin_read(&mut self, offset: usize) -> Option<u8> {
        self.timed = false;
        (offset == LSR && self.is_quiet()).then_some(self.quiet.status)
    }

    pub(super) fn read_any(&mut self, offset: usize) -> u8 {
        let was_quiet = self.is_quiet();
        if !was_quiet {
            self.settle();
        }
        let value = self.read_register(offset);
        if !was_quiet || offset == RBR {
            self.quiet = self.quiet_now();
        }
        value
    }

    fn read_register(&mut self, offset: usize) -> u8 {
        if self.dlab()
            && let Some(value) = self.read_behind_dlab(offset)
        {
            return value;
        }
        match offset {
            ICR if self.indexed_registers() && self.latches.icr[0] & icr::ACR_READ != 0 => {
                self.read_icr()
            }
            RBR => self.read_rbr(),
            IER => self.latches.ier,
            IIR => self.read_iir(),
            LCR => self.latches.lcr,
            MCR => self.latches.mcr,
            LSR => self.read_lsr(),
            MSR => self.modem.read(),
            SCR if self.chip.model.has_scratch() => self.latches.scr,
            // The 8250 has no scratch register and does not drive the bus.
            SCR => !0,
            _ => self.read_component(offset).map_or(!0, |word| word as u8),
        }
    }

    /// Handles a guest's write to the register at `offset`. Writes beyond the last register are
    /// ignored.
    #[inline]
    pub fn write(&mut self, offset: usize, value: u8) {
        if offset == THR && self.quiet.at_once {
            return self.send_at_once(value);
        }
        self.write_any(offset, value);
    }

    pub(super) fn write_any(&mut self, offset: usize, value: u8) {
        self.disturb();
        self.write_register(offset, value);
        self.quiet = self.quiet_now();
    }

    fn write_register(&mut self, offset: usize, value: u8) {
        if self.dlab() && self.write_behind_dlab(offset, value) {
            return;
        }
        match offset {
            ICR if self.indexed_registers() => self.write_icr(value),
            THR => self.send(value),
            IER => self.write_ier(value),
            FCR => self.write_fcr(value),
            LCR => self.write_lcr(value),
            MCR => {
                self.latches.mcr = value & 0x1f;
                self.modem.update(self.latches.mcr);
            }
            SCR => self.latches.scr = value,
            _ => {}
        }
    }

    fn read_rbr(&mut self) -> u8 {
        self.empty_reads += u64::from(self.receiver.bytes.is_empty());
        let byte = self.receiver.take();
        self.receiver.timeout_at = None;
        if !self.receiver.bytes.is_empty() {
            let now = self.time();
            self.restart_timeout(now);
        }
        byte
    }

    fn read_iir(&mut self) -> u8 {
        let id = self.pending_interrupt();
        if id == Some(iir::TRANSMITTER_EMPTY) {
            self.transmit_interrupt = false;
        }
        id.unwrap_or(iir::NONE) | self.chip.iir_fifo_bits(self.latches.fcr)
    }

    /// Returns the pending interrupt of the highest priority (Table IV) as an IIR value; `None`
    /// while the interrupt line is low.
    ///
    /// On a PC the line also passes a gate, OUT2 of the MCR, which is outside the chip.
    pub fn interrupt(&mut self) -> Option<u8> {
        self.drain();
        self.pending_interrupt()
    }

    /// Returns the same as [`interrupt`](Self::interrupt) at the time of the current access.
    #[inline]
    pub(super) fn pending_interrupt(&self) -> Option<u8> {
        if self.latches.ier == 0 && !self.busy_detect {
            return None;
        }
        self.highest_interrupt()
    }

    fn highest_interrupt(&self) -> Option<u8> {
        let enabled = |bit| self.latches.ier & bit != 0;
        let receive = enabled(ier::RECEIVED_DATA);
        if enabled(ier::LINE_STATUS) && self.receiver.errors() != 0 {
            Some(iir::LINE_STATUS)
        } else if receive && self.is_triggered() {
            Some(iir::RECEIVED_DATA)
        } else if receive && self.timed_out() {
            Some(iir::TIMEOUT)
        } else if enabled(ier::TRANSMITTER_EMPTY) && self.transmit_interrupt {
            Some(iir::TRANSMITTER_EMPTY)
        } else if enabled(ier::MODEM_STATUS) && self.modem.changed() {
            Some(iir::MODEM_STATUS)
        } else if self.busy_detect {
            Some(nostall_uart::registers::dw::IIR_BUSY)
        } else {
            None
        }
    }

    /// Returns whether the received bytes have reached the trigger level.
    fn is_triggered(&self) -> bool {
        let received = self.receiver.bytes.len();
        received > 0 && received >= self.chip.receive_trigger(self.latches.fcr, self.depth())
    }

    fn timed_out(&self) -> bool {
        self.receiver.timeout_at.is_some_and(|at| at <= self.now)
    }

    /// Returns the time, on the port's clock, at which its visible state next changes without an
    /// access. That is when a frame has been sent or a receive timeout occurs. `None` if no change
    /// is due.
    ///
    /// The value belongs to the last call of [`interrupt`](Self::interrupt). Once this time has
    /// passed, call `interrupt` again.
    pub fn next_event(&self) -> Option<Nanos> {
        let sent = match self.line {
            Line::Controller(by) => self.controller.next_take(by),
            _ => self.shifting.map(|(_, done)| done),
        };
        let timeout = self.receiver.timeout_at.filter(|&at| at > self.now);
        sent.into_iter().chain(timeout).min()
    }

    /// Returns whether nothing has happened since the last access that changed the state. It reads
    /// the clock only if that depends on the time.
    #[inline]
    pub(super) fn is_quiet(&mut self) -> bool {
        let until = self.quiet.until;
        until == Quiet::FOREVER || until != Nanos::ZERO && self.time() < until
    }

    /// Returns the effects for the present state.
    fn quiet_now(&self) -> Quiet {
        let until = match self.next_event() {
            None => Quiet::FOREVER,
            // A saturated time.
            Some(Quiet::FOREVER) => return Quiet::NOT,
            Some(at) => at,
        };
        let errors = self.receiver.errors() != 0 || self.receiver.any_error();
        let elsewhere = self.dlab() || self.indexed_registers();
        if errors || elsewhere || self.pending_interrupt().is_some() {
            return Quiet::NOT;
        }
        let waited_for = self.latches.ier & ier::TRANSMITTER_EMPTY != 0;
        Quiet {
            until,
            status: self.quiet_lsr(),
            at_once: until == Quiet::FOREVER && self.sends_at_once() && !waited_for,
        }
    }

    fn read_lsr(&mut self) -> u8 {
        let in_fifo = self.receiver.any_error() && self.fifo();
        let fifo_error = if in_fifo { lsr::FIFO_ERROR } else { 0 };
        self.quiet_lsr() | self.receiver.take_errors() | fifo_error
    }

    fn write_ier(&mut self, value: u8) {
        let newly_enabled = value & !self.latches.ier & ier::TRANSMITTER_EMPTY != 0;
        self.latches.ier = value & 0x0f;
        self.transmit_interrupt |= newly_enabled && self.ready();
    }

    fn write_fcr(&mut self, value: u8) {
        let bits = self.chip.fcr_bits();
        // The other bits are stored only together with ENABLE, and the depth only while DLAB is set
        // (TL16C750, FCR).
        let mut new = if value & fcr::ENABLE != 0 {
            value & bits
        } else {
            0
        };
        if !self.dlab() && new != 0 {
            new = new & !fcr::FIFO_64 | self.latches.fcr & fcr::FIFO_64;
        }
        let toggled = (new ^ self.latches.fcr) & (fcr::ENABLE | fcr::FIFO_64) != 0;
        self.latches.fcr = new;
        let cleared = match (toggled, self.fifo()) {
            (true, _) => fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT,
            (false, true) => value,
            (false, false) => 0,
        };
        if cleared & fcr::CLEAR_RECEIVE != 0 {
            self.receiver.clear();
        }
        if cleared & fcr::CLEAR_TRANSMIT != 0 && !self.transmit.is_empty() {
            self.transmit.clear();
            self.controller.rest();
            self.transmit_interrupt = true;
        }
    }

    /// Writes the LCR. A busy DesignWare ignores the write and raises its busy-detect interrupt
    /// (DW_apb_uart databook, LCR and IIR).
    fn write_lcr(&mut self, value: u8) {
        if self.chip.model == Model::DesignWare && self.busy() {
            self.busy_detect = true;
        } else {
            self.latches.lcr = value;
        }
    }

    pub(super) fn take_in(&mut self, byte: u8, errors: u8, at: Nanos) {
        self.receiver.put(byte, errors, self.depth());
        // Only a read clears a timeout that has occurred.
        if self.receiver.timeout_at.is_none_or(|due| due > at) {
            self.restart_timeout(at);
        }
    }

    /// Restarts the character timeout: four frames after the last byte received or read, in FIFO
    /// mode (section 8.11). A line that needs no baud rate and has none uses 115,200 baud.
    fn restart_timeout(&mut self, from: Nanos) {
        let divisor = match (self.line, self.latches.divisor) {
            (Line::Baud, 0) => None,
            (_, divisor) => Some(divisor.max(1)),
        };
        self.receiver.timeout_at = divisor
            .filter(|_| self.fifo() && !self.receiver.bytes.is_empty())
            .map(|divisor| from + self.frame_time_at(divisor) * 4);
    }

    pub(super) fn fifo(&self) -> bool {
        self.chip.fifo_on(self.latches.fcr)
    }

    pub(super) fn depth(&self) -> usize {
        let enhanced = self.latches.efr & efr::ENHANCED != 0;
        self.chip.depth_now(self.latches.fcr, enhanced)
    }

    pub(super) fn is_looped(&self) -> bool {
        self.latches.mcr & mcr::LOOP != 0
    }

    pub(super) fn dlab(&self) -> bool {
        self.latches.lcr & lcr::DLAB != 0
    }
}

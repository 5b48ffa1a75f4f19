//! The registers, as the guest sees them.

use std::collections::VecDeque;
use std::io::Write;

use nostall_io::{Clock, Nanos};
use nostall_uart::Model;
use nostall_uart::registers::{
    DLL, DLM, EFR, FCR, ICR, IER, IIR, LCR, LSR, MCR, MSR, RBR, SCR, THR, efr, fcr, icr, ier, iir,
    lcr, lsr, mcr,
};
use serde::{Deserialize, Serialize};

use super::controller::Progress;
use super::modem::Modem;
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
    /// The four characters of software flow control, which does nothing here.
    pub(super) xon_xoff: [u8; 4],
    /// The first eight of the 16950's indexed registers.
    pub(super) icr: [u8; 8],
}

/// A port of the 16550's family.
///
/// Sent bytes go to `W`, one by one, at the time that each has left the shift register (or has been
/// taken by the [`Controller`](super::Controller)). For all accesses of the guest, it holds at most
/// two FIFOs of bytes. The owner bounds `W`: [`Output`](super::Output) is a sink with a bound.
///
/// For a VMM: give it the host's clock and [`Line::AtOnce`] (or [`Line::Baud`], for exact times).
/// Pass it the guest's accesses. After each, and at the time that [`next_event`](Self::next_event)
/// returns, set the interrupt line to [`interrupt`](Self::interrupt), or let a
/// [`Serial`](super::Serial) trigger it. Input goes in as far as
/// [`receive_room`](Self::receive_room) allows.
#[derive(Debug)]
pub struct Uart<C, W> {
    pub(super) clock: C,
    /// Time of the state here: the last reading of the clock. No answer mixes two times.
    pub(super) now: Nanos,
    pub(super) line: Line,
    pub(super) chip: Chip,
    pub(super) sink: W,
    /// The transmit FIFO, or the holding register: one byte then.
    pub(super) transmit: VecDeque<u8>,
    /// The byte in the shift register, and when its last bit is out.
    pub(super) shifting: Option<(u8, Nanos)>,
    pub(super) controller: Progress,
    pub(super) receiver: Receiver,
    pub(super) modem: Modem,
    pub(super) latches: Latches,
    pub(super) transmit_interrupt: bool,
    /// The DesignWare's own interrupt: the LCR was written in vain.
    pub(super) busy_detect: bool,
    /// Fault: the transmit FIFO accepts only half of its advertised bytes.
    pub(super) short_fifo: bool,
    pub(super) lost: u64,
    pub(super) empty_reads: u64,
}

impl<C: Clock, W: Write> Uart<C, W> {
    /// A 16550A after reset (PC16550D, Table I), its modem there and ready: CTS,
    /// DSR and DCD asserted.
    pub fn new(clock: C, line: Line, sink: W) -> Self {
        Self::of(Model::Uart16550A, clock, line, sink)
    }

    /// A port of another model, likewise.
    pub fn of(chip: impl Into<Chip>, clock: C, line: Line, sink: W) -> Self {
        Self {
            clock,
            now: Nanos::ZERO,
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
            empty_reads: 0,
        }
    }

    /// Which chip it is.
    pub fn chip(&self) -> Chip {
        self.chip
    }

    /// A guest's read of the register at `offset`; all ones beyond the last.
    pub fn read(&mut self, offset: usize) -> u8 {
        self.drain();
        match offset {
            DLL if self.dlab() => self.read_divisor()[0],
            DLM if self.dlab() => self.read_divisor()[1],
            EFR if self.enhanced_registers() => self.latches.efr,
            4..=7 if self.enhanced_registers() => self.latches.xon_xoff[offset - 4],
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
            // The 8250 has nothing there, and drives nothing.
            SCR => !0,
            _ => self.read_component(offset).map_or(!0, |word| word as u8),
        }
    }

    /// A guest's write of the register at `offset`; nothing beyond the last.
    pub fn write(&mut self, offset: usize, value: u8) {
        self.drain();
        let [low, high] = self.latches.divisor.to_le_bytes();
        match offset {
            DLL if self.dlab() => self.latches.divisor = u16::from_le_bytes([value, high]),
            DLM if self.dlab() => self.latches.divisor = u16::from_le_bytes([low, value]),
            EFR if self.enhanced_registers() => self.latches.efr = value,
            4..=7 if self.enhanced_registers() => self.latches.xon_xoff[offset - 4] = value,
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
        self.restart_timeout(self.now);
        byte
    }

    fn read_iir(&mut self) -> u8 {
        let id = self.interrupt();
        if id == Some(iir::TRANSMITTER_EMPTY) {
            self.transmit_interrupt = false;
        }
        id.unwrap_or(iir::NONE) | self.chip.iir_fifo_bits(self.latches.fcr)
    }

    /// The pending interrupt of the highest priority (Table IV), as the IIR
    /// names it; `None` while the interrupt line is low.
    ///
    /// On a PC the line also passes a gate, MCR's OUT2, which is not the chip's.
    pub fn interrupt(&mut self) -> Option<u8> {
        self.drain();
        let enabled = |bit| self.latches.ier & bit != 0;
        let receive = enabled(ier::RECEIVED_DATA);
        let trigger = self.chip.receive_trigger(self.latches.fcr, self.depth());
        if enabled(ier::LINE_STATUS) && self.receiver.errors() != 0 {
            Some(iir::LINE_STATUS)
        } else if receive && self.receiver.bytes.len() >= trigger {
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

    fn timed_out(&self) -> bool {
        self.receiver.timeout_at.is_some_and(|at| at <= self.now)
    }

    /// When time alone will next change something that the guest or the line's
    /// other end can see: a frame is out, or received bytes have waited for too
    /// long. By the port's own clock; `None` if nothing will.
    ///
    /// It goes with the last answer of [`interrupt`](Self::interrupt): if the
    /// time has passed since, that answer is out of date.
    pub fn next_event(&self) -> Option<Nanos> {
        let sent = match self.line {
            Line::Controller(by) => self.controller.next_take(by),
            _ => self.shifting.map(|(_, done)| done),
        };
        let timeout = self.receiver.timeout_at.filter(|&at| at > self.now);
        sent.into_iter().chain(timeout).min()
    }

    fn read_lsr(&mut self) -> u8 {
        let bit = |set, bit| if set { bit } else { 0 };
        let in_fifo = self.fifo() && self.receiver.any_error();
        bit(!self.receiver.bytes.is_empty(), lsr::DATA_READY)
            | self.receiver.take_errors()
            | bit(self.ready(), lsr::THRE)
            | bit(self.idle(), lsr::TEMT)
            | bit(in_fifo, lsr::FIFO_ERROR)
    }

    fn write_ier(&mut self, value: u8) {
        let newly_enabled = value & !self.latches.ier & ier::TRANSMITTER_EMPTY != 0;
        self.latches.ier = value & 0x0f;
        self.transmit_interrupt |= newly_enabled && self.ready();
    }

    fn write_fcr(&mut self, value: u8) {
        let bits = self.chip.fcr_bits();
        // The other bits are programmed only together with ENABLE, and the depth
        // only behind DLAB (TL16C750, FCR).
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

    /// A DesignWare that is busy keeps its LCR, and complains (DW_apb_uart
    /// databook, LCR and IIR).
    fn write_lcr(&mut self, value: u8) {
        if self.chip.model == Model::DesignWare && self.busy() {
            self.busy_detect = true;
        } else {
            self.latches.lcr = value;
        }
    }

    pub(super) fn take_in(&mut self, byte: u8, errors: u8, at: Nanos) {
        self.receiver.put(byte, errors, self.depth());
        // One that has come to pass goes by a read alone.
        if self.receiver.timeout_at.is_none_or(|due| due > at) {
            self.restart_timeout(at);
        }
    }

    /// The character timeout counts four frames from the last byte that came or
    /// was read, in FIFO mode (section 8.4.1). Where no rate is set and none is
    /// needed, as at 115,200 baud.
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

//! The register model, as seen by the guest.

use std::collections::VecDeque;
use std::io::{self, Write};

use nostall_io::{Clock, Nanos};
use serde::{Deserialize, Serialize};

use super::receiver::Receiver;
use super::registers::{
    CR, DMACR, DR, FBRD, FR, IBRD, ICR, IFLS, ILPR, IMSC, LCR_H, MIS, RIS, RSR, SIZE, cr, fr, int,
    lcr_h,
};
use super::{Chip, Line};

/// Bits of CR that exist (DDI 0183G, Table 3-12).
pub(super) const CR_BITS: u32 = 0xff80 | cr::UARTEN | cr::SIREN | cr::SIRLP;

/// Registers that hold the value written to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Latches {
    pub(super) ilpr: u32,
    pub(super) ibrd: u32,
    pub(super) fbrd: u32,
    /// Divisor in use, in units of 1/64: that of the last write of LCR_H.
    pub(super) divisor: u32,
    pub(super) lcr: u32,
    pub(super) cr: u32,
    pub(super) ifls: u32,
    pub(super) imsc: u32,
    pub(super) dmacr: u32,
}

impl Latches {
    /// Returns the registers after reset (DDI 0183G, Table 3-1).
    pub(super) const fn of(chip: Chip) -> Self {
        let (lcr, cr, ifls) = chip.reset_values();
        Self {
            ilpr: 0,
            ibrd: 0,
            fbrd: 0,
            divisor: 0,
            lcr,
            cr,
            ifls,
            imsc: 0,
            dmacr: 0,
        }
    }
}

/// A PL011, or an SBSA generic UART.
///
/// Each sent byte is written to `W` when its frame has left the shift register. The port stores at
/// most two FIFOs of bytes, for any guest accesses. The owner bounds `W`:
/// [`Output`](crate::uart::Output) is a sink with a bound.
///
/// A VMM passes the host's clock and the guest's accesses. It sets the interrupt line to
/// [`interrupt`](Self::interrupt) after each access and at the time that
/// [`next_event`](Self::next_event) returns. Every access is an exit: data and flags share a page.
#[derive(Debug)]
pub struct Pl011<C, W> {
    pub(super) clock: C,
    /// Time of the stored state: the last clock reading.
    pub(super) now: Nanos,
    /// Whether the current access has read the clock. Each access reads it at most once.
    pub(super) timed: bool,
    pub(super) chip: Chip,
    pub(super) line: Line,
    pub(super) sink: W,
    /// Transmit FIFO, or the one-byte holding register.
    pub(super) transmit: VecDeque<u8>,
    /// Byte in the shift register, and the time at which its last bit is sent.
    pub(super) shifting: Option<(u8, Nanos)>,
    pub(super) receiver: Receiver,
    /// Modem inputs from outside, as bits of FR.
    pub(super) modem: u32,
    pub(super) latches: Latches,
    /// Raw interrupt status.
    pub(super) raw: u32,
    /// Fault: the transmitter takes no byte from its FIFO.
    pub(super) halted: bool,
    pub(super) lost: u64,
    pub(super) sink_error: Option<io::Error>,
}

impl<C: Clock, W: Write> Pl011<C, W> {
    /// Creates a port after reset. Its modem asserts CTS, DSR and DCD.
    pub fn new(chip: Chip, clock: C, line: Line, sink: W) -> Self {
        Self {
            clock,
            now: Nanos::ZERO,
            timed: false,
            chip,
            line,
            sink,
            transmit: VecDeque::new(),
            shifting: None,
            receiver: Receiver::default(),
            modem: fr::CTS | fr::DSR | fr::DCD,
            latches: Latches::of(chip),
            raw: 0,
            halted: false,
            lost: 0,
            sink_error: None,
        }
    }

    /// Returns the chip.
    pub fn chip(&self) -> Chip {
        self.chip
    }

    /// Handles a guest's read at `offset`, of any width: the bits of the register from there on.
    /// Every read of a register has its side effects. Unused addresses read 0, and all ones outside
    /// the 4 KiB of the port.
    pub fn read(&mut self, offset: usize) -> u32 {
        self.settle();
        self.read_register(offset & !3) >> (offset % 4 * 8)
    }

    fn read_register(&mut self, offset: usize) -> u32 {
        match offset {
            DR => self.read_dr(),
            RSR => self.receiver.status,
            FR => self.flags(),
            IMSC => self.latches.imsc,
            RIS => self.raw,
            MIS => self.raw & self.latches.imsc,
            SIZE.. => !0,
            _ if !self.chip.is_whole() => 0,
            ILPR => self.latches.ilpr,
            IBRD => self.latches.ibrd,
            FBRD => self.latches.fbrd,
            LCR_H => self.latches.lcr,
            CR => self.latches.cr,
            IFLS => self.latches.ifls,
            DMACR => self.latches.dmacr,
            _ => self.chip.id(offset).map_or(0, u32::from),
        }
    }

    /// Handles a guest's write at `offset`, of any width: the register's upper bits are 0. Writes
    /// beside a register's first byte are ignored.
    pub fn write(&mut self, offset: usize, value: u32) {
        self.settle();
        match offset {
            DR => self.send(value as u8),
            RSR => self.receiver.status = 0,
            IMSC => self.write_imsc(value & int::ALL),
            ICR => self.write_icr(value),
            _ if !self.chip.is_whole() => {}
            ILPR => self.latches.ilpr = value & 0xff,
            IBRD => self.latches.ibrd = value & 0xffff,
            FBRD => self.latches.fbrd = value & 0x3f,
            LCR_H => self.write_lcr(value & 0xff),
            CR => self.write_cr(value),
            IFLS => self.latches.ifls = value & 0x3f,
            DMACR => self.latches.dmacr = value & 0b111,
            _ => {}
        }
    }

    fn read_dr(&mut self) -> u32 {
        let character = self.receiver.take();
        let left = self.receiver.characters.len();
        if left < self.receive_level() {
            self.raw &= !int::RX;
        }
        if left == 0 {
            self.receiver.timeout_at = None;
            self.raw &= !int::RT;
        }
        character
    }

    /// Returns the flag register (section 3.3.3).
    fn flags(&self) -> u32 {
        let bit = |set, bit| if set { bit } else { 0 };
        let (sending, received) = (self.transmit.len(), self.receiver.characters.len());
        bit(sending == 0, fr::TXFE)
            | bit(sending >= self.depth(), fr::TXFF)
            | bit(received == 0, fr::RXFE)
            | bit(received >= self.depth(), fr::RXFF)
            | bit(!self.idle(), fr::BUSY)
            | self.modem_seen()
    }

    /// Writes the mask. The timeout's raw interrupt exists only while it is let through: its mask
    /// enables the timer (section 3.3.11, footnote).
    fn write_imsc(&mut self, value: u32) {
        let changed = value ^ self.latches.imsc;
        self.latches.imsc = value;
        if changed & int::RT != 0 {
            self.raw &= !int::RT;
            let now = self.time();
            self.restart_timeout(now);
        }
    }

    /// Clears interrupts. A timeout comes again while bytes wait. The data sheet does not say so; the
    /// driver embassy-rp reports it of the RP2040's PL011.
    fn write_icr(&mut self, value: u32) {
        if self.raw & value & int::RT != 0 {
            let now = self.time();
            self.restart_timeout(now);
        }
        self.raw &= !value;
    }

    /// Writes the line control register, and with it the divisor (section 3.3.7). Without FEN both
    /// FIFOs are empty: it flushes the transmit FIFO (section 3.3.8, note), the other is assumed.
    fn write_lcr(&mut self, value: u32) {
        let disabled = self.latches.lcr & !value & lcr_h::FEN != 0;
        self.latches.lcr = value;
        self.latches.divisor = self.latches.ibrd * 64 + self.latches.fbrd;
        if disabled {
            self.lost = self.lost.saturating_add(self.transmit.len() as u64);
            self.transmit.clear();
            self.receiver.characters.clear();
            self.receiver.timeout_at = None;
            self.raw &= !(int::RX | int::RT);
        }
        self.advance();
    }

    fn write_cr(&mut self, value: u32) {
        let before = self.modem_seen();
        self.latches.cr = value & CR_BITS;
        self.note_modem(before);
        self.advance();
    }

    /// Returns the masked interrupt status; `None` while the interrupt line is low (section 2.8.6).
    pub fn interrupt(&mut self) -> Option<u32> {
        self.settle();
        Some(self.raw & self.latches.imsc).filter(|&pending| pending != 0)
    }

    /// Returns the time, on the port's clock, at which its visible state next changes without an
    /// access. That is when a frame has been sent or a receive timeout occurs. `None` if no change
    /// is due.
    ///
    /// The value belongs to the last access or call of [`interrupt`](Self::interrupt).
    pub fn next_event(&self) -> Option<Nanos> {
        let sent = self.shifting.map(|(_, done)| done);
        sent.into_iter().chain(self.receiver.timeout_at).min()
    }

    pub(super) fn depth(&self) -> usize {
        if self.latches.lcr & lcr_h::FEN == 0 {
            1
        } else {
            self.chip.fifo_depth()
        }
    }

    pub(super) fn receive_level(&self) -> usize {
        self.chip.receive_level(self.latches.ifls, self.depth())
    }

    pub(super) fn is_looped(&self) -> bool {
        self.latches.cr & cr::LBE != 0
    }
}

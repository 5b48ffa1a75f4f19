//! The state machine.

use std::collections::VecDeque;
use std::io::Write;

use nostall_io::{Clock, Nanos};
use nostall_uart::registers::{
    DLL, DLM, FCR, IER, IIR, LCR, LSR, MCR, MSR, RBR, SCR, THR, fcr, ier, iir, lcr, lsr, mcr, msr,
};

use super::Line;

/// Bytes in either FIFO (PC16550D, section 8.5).
const FIFO_DEPTH: usize = 16;

/// The input clock, in hertz: a PC's 1.8432 MHz (PC16550D, Table III).
const INPUT_CLOCK: u64 = 1_843_200;

/// A 16550A.
///
/// What it sends goes to `W`, byte by byte, at the time it has left the shift
/// register. Whatever the guest does, it holds at most two FIFOs of bytes.
#[derive(Debug)]
pub struct Uart<C, W> {
    clock: C,
    line: Line,
    sink: W,
    /// The transmit FIFO, or the holding register: one byte then.
    transmit: VecDeque<u8>,
    /// The byte in the shift register, and when its last bit is out.
    shifting: Option<(u8, Nanos)>,
    /// The receive FIFO, or the buffer register.
    receive: VecDeque<u8>,
    overrun: bool,
    transmit_interrupt: bool,
    lost: u64,
    divisor: u16,
    ier: u8,
    fcr: u8,
    lcr: u8,
    mcr: u8,
    scr: u8,
}

impl<C: Clock, W: Write> Uart<C, W> {
    /// A port after reset (PC16550D, Table I), its modem's lines all asserted.
    pub fn new(clock: C, line: Line, sink: W) -> Self {
        Self {
            clock,
            line,
            sink,
            transmit: VecDeque::with_capacity(FIFO_DEPTH),
            shifting: None,
            receive: VecDeque::with_capacity(FIFO_DEPTH),
            overrun: false,
            transmit_interrupt: false,
            lost: 0,
            divisor: 0,
            ier: 0,
            fcr: 0,
            lcr: 0,
            mcr: 0,
            scr: 0,
        }
    }

    /// A guest's read of the register at `offset`; all ones beyond the last.
    pub fn read(&mut self, offset: usize) -> u8 {
        self.drain();
        match offset {
            DLL if self.dlab() => self.divisor as u8,
            DLM if self.dlab() => (self.divisor >> 8) as u8,
            RBR => self.receive.pop_front().unwrap_or(0),
            IER => self.ier,
            IIR => self.read_iir(),
            LCR => self.lcr,
            MCR => self.mcr,
            LSR => self.read_lsr(),
            MSR => self.msr(),
            SCR => self.scr,
            _ => !0,
        }
    }

    /// A guest's write of the register at `offset`; nothing beyond the last.
    pub fn write(&mut self, offset: usize, value: u8) {
        self.drain();
        match offset {
            DLL if self.dlab() => self.divisor = self.divisor & 0xff00 | u16::from(value),
            DLM if self.dlab() => self.divisor = self.divisor & 0xff | u16::from(value) << 8,
            THR => self.send(value),
            IER => {
                let newly_enabled = value & !self.ier & ier::TRANSMITTER_EMPTY != 0;
                self.ier = value & 0x0f;
                self.transmit_interrupt |= newly_enabled && self.transmit.is_empty();
            }
            FCR => self.write_fcr(value),
            LCR => self.lcr = value,
            MCR => self.mcr = value & 0x1f,
            SCR => self.scr = value,
            _ => {}
        }
    }

    fn send(&mut self, byte: u8) {
        self.transmit_interrupt = false;
        if self.transmit.len() == self.depth() {
            // The data sheet promises nothing; the newest byte is what is lost
            // here, as a register overwritten would lose the one before.
            self.lost += 1;
            return;
        }
        self.transmit.push_back(byte);
        self.drain();
    }

    /// Lets everything leave that has left by now.
    fn drain(&mut self) {
        let now = self.clock.now();
        let mut line_free = now;
        loop {
            match self.shifting {
                Some((_, done)) if done > now => return,
                Some((byte, done)) => {
                    self.shifting = None;
                    self.arrive(byte);
                    line_free = done;
                }
                None => {
                    let Some(frame_time) = self.frame_time() else {
                        return;
                    };
                    let Some(byte) = self.transmit.pop_front() else {
                        return;
                    };
                    self.transmit_interrupt |= self.transmit.is_empty();
                    self.shifting = Some((byte, line_free + frame_time));
                }
            }
        }
    }

    /// A byte at the end of its way: the line's other end, or in loopback our
    /// own receiver (section 8.8).
    fn arrive(&mut self, byte: u8) {
        if self.mcr & mcr::LOOP != 0 {
            self.receive(byte);
        } else if self.sink.write_all(&[byte]).is_err() {
            self.lost += 1;
        }
    }

    /// How long a frame takes; `None` if the line does not move at all.
    fn frame_time(&self) -> Option<Nanos> {
        match (self.line, self.divisor) {
            (Line::AtOnce, _) => Some(Nanos::ZERO),
            (Line::Baud, 0) => None,
            (Line::Baud, divisor) => {
                let cycles = self.half_bits() * 8 * u64::from(divisor);
                Some(Nanos::from_secs(cycles) / INPUT_CLOCK)
            }
        }
    }

    /// Half bits in a frame: start, data, parity, stop (section 8.1).
    fn half_bits(&self) -> u64 {
        let data = 5 + u64::from(self.lcr & lcr::WORD_LENGTH);
        let parity = u64::from(self.lcr & lcr::PARITY != 0);
        let stop = match (self.lcr & lcr::STOP != 0, data) {
            (false, _) => 2,
            (true, 5) => 3,
            (true, _) => 4,
        };
        2 + 2 * data + 2 * parity + stop
    }

    fn write_fcr(&mut self, value: u8) {
        let toggled = (value ^ self.fcr) & fcr::ENABLE != 0;
        if toggled || value & fcr::CLEAR_RECEIVE != 0 {
            self.receive.clear();
        }
        if toggled || value & fcr::CLEAR_TRANSMIT != 0 {
            self.transmit.clear();
        }
        // The other bits are programmed only together with ENABLE.
        let kept = fcr::ENABLE | fcr::DMA_MODE | fcr::TRIGGER;
        self.fcr = if value & fcr::ENABLE != 0 {
            value & kept
        } else {
            0
        };
    }

    fn read_iir(&mut self) -> u8 {
        let id = self.interrupt();
        if id == Some(iir::TRANSMITTER_EMPTY) {
            self.transmit_interrupt = false;
        }
        let fifos = if self.fifo() { iir::FIFOS } else { 0 };
        id.unwrap_or(iir::NONE) | fifos
    }

    /// The pending interrupt of the highest priority (Table IV), as the IIR
    /// names it; `None` while the interrupt line is low.
    pub fn interrupt(&self) -> Option<u8> {
        let level = match self.fcr & fcr::TRIGGER {
            0x00 => 1,
            0x40 => 4,
            0x80 => 8,
            _ => 14,
        };
        if self.ier & ier::LINE_STATUS != 0 && self.overrun {
            Some(iir::LINE_STATUS)
        } else if self.ier & ier::RECEIVED_DATA != 0 && self.receive.len() >= level {
            Some(iir::RECEIVED_DATA)
        } else if self.ier & ier::TRANSMITTER_EMPTY != 0 && self.transmit_interrupt {
            Some(iir::TRANSMITTER_EMPTY)
        } else {
            None
        }
    }

    fn read_lsr(&mut self) -> u8 {
        let overrun = std::mem::take(&mut self.overrun);
        let bit = |set, bit| if set { bit } else { 0 };
        bit(!self.receive.is_empty(), lsr::DATA_READY)
            | bit(overrun, lsr::OVERRUN)
            | bit(self.transmit.is_empty(), lsr::THRE)
            | bit(
                self.transmit.is_empty() && self.shifting.is_none(),
                lsr::TEMT,
            )
    }

    /// In loopback the four outputs of the MCR are the four inputs (section 8.8).
    fn msr(&self) -> u8 {
        if self.mcr & mcr::LOOP == 0 {
            return msr::CTS | msr::DSR | msr::DCD;
        }
        [
            (mcr::RTS, msr::CTS),
            (mcr::DTR, msr::DSR),
            (mcr::OUT1, msr::RI),
            (mcr::OUT2, msr::DCD),
        ]
        .into_iter()
        .filter(|&(output, _)| self.mcr & output != 0)
        .fold(0, |inputs, (_, input)| inputs | input)
    }

    /// A byte arrives from the line. With no room left it is lost and the
    /// overrun shown, as section 8.4 says.
    pub fn receive(&mut self, byte: u8) {
        if self.receive.len() == self.depth() {
            self.overrun = true;
            return;
        }
        self.receive.push_back(byte);
    }

    /// Bytes that the guest wrote into a full transmitter, or that the sink
    /// refused.
    pub fn lost(&self) -> u64 {
        self.lost
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

    fn fifo(&self) -> bool {
        self.fcr & fcr::ENABLE != 0
    }

    fn depth(&self) -> usize {
        if self.fifo() { FIFO_DEPTH } else { 1 }
    }

    fn dlab(&self) -> bool {
        self.lcr & lcr::DLAB != 0
    }
}

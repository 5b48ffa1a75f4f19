//! The polled console writer.

use core::fmt;

use nostall_io::{Clock, Nanos, Registers};

use crate::crlf::Crlf;
use crate::registers::{DLL, DLM, FCR, IER, IIR, LCR, LSR, MCR, SCR, THR, fcr, iir, lcr, lsr, mcr};
use crate::{LineError, LineSettings, Strategy};

/// The transmit FIFO of a 16550A, in bytes (PC16550D, section 8.5).
const FIFO_DEPTH: usize = 16;

/// Linux's limit for one wait: 10,000 looks a microsecond apart.
const LONGEST_WAIT: Nanos = Nanos::from_millis(10);

/// A polled console on a 16550A.
///
/// `R` reaches the port's eight registers, `C` tells the time. The console owns
/// the port: set one up, and let nobody else reprogram it.
#[derive(Debug)]
pub struct Console<R, C> {
    registers: R,
    clock: C,
    strategy: Strategy,
    frame_time: Nanos,
    /// What the transmitter takes at once when it says that it is empty: the
    /// FIFO, or 1 without one. Known from what *we* wrote to the FIFO control
    /// register: that register cannot be read, and reading the IIR in its place
    /// would clear somebody's transmit interrupt.
    load: usize,
    /// The last wait ended at its bound or found nobody.
    stalled: bool,
}

/// What became of one write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteReport {
    /// Bytes given to the transmitter, inserted CRs included.
    pub written: usize,
    /// Bytes given up, inserted CRs included: the port was stuck
    /// ([`timed_out`](Self::timed_out)) or gone.
    pub dropped: usize,
    /// A wait reached its bound. With nothing dropped it was the last one: the
    /// bytes are in the port, but the port never said that they had left.
    pub timed_out: bool,
}

impl WriteReport {
    /// Every byte went out.
    pub const fn is_complete(&self) -> bool {
        self.dropped == 0 && !self.timed_out
    }
}

/// Why a write could not go on.
enum Stall {
    /// The transmitter did not become ready in time.
    Stuck,
    /// Nothing answers any more.
    Gone,
}

impl<R: Registers, C: Clock> Console<R, C> {
    /// Writes `text`, each LF as CR LF, and returns when the last bit is on the
    /// line.
    ///
    /// The port's interrupts are masked meanwhile. A port that stops taking
    /// bytes costs at most one bound (see [`longest_wait`](Self::longest_wait));
    /// what it did not take is dropped, and the next write gives it one look
    /// instead of another bound, until it is ready again.
    pub fn write(&mut self, text: &[u8]) -> WriteReport {
        if text.is_empty() {
            return WriteReport::default();
        }
        let enabled = self.registers.read8(IER);
        self.registers.write8(IER, 0);
        let mut report = self.send(text);
        if report.is_complete() {
            let left = self.wait_for(lsr::THRE | lsr::TEMT);
            report.timed_out = left.is_err();
        }
        self.registers.write8(IER, enabled);
        report
    }

    fn send(&mut self, text: &[u8]) -> WriteReport {
        let mut text = Crlf::new(text);
        let mut room = [0; FIFO_DEPTH];
        let room = match self.strategy {
            Strategy::BytePolled => &mut room[..1],
            Strategy::FifoPolled | Strategy::FifoBurst => &mut room[..self.load],
        };
        let mut report = WriteReport::default();
        loop {
            let load = text.fill(room);
            if load.is_empty() {
                return report;
            }
            if let Err(stall) = self.wait_for(lsr::THRE) {
                report.dropped = load.len() + text.remaining();
                report.timed_out = matches!(stall, Stall::Stuck);
                return report;
            }
            match (self.strategy, load) {
                (_, &[byte]) => self.registers.write8(THR, byte),
                (Strategy::FifoBurst, _) => self.registers.write_burst(THR, load),
                _ => load.iter().for_each(|&b| self.registers.write8(THR, b)),
            }
            report.written += load.len();
        }
    }

    /// Waits until the line status shows all of `bits`.
    ///
    /// A port that is ready costs one read and no look at the clock.
    fn wait_for(&mut self, bits: u8) -> Result<(), Stall> {
        let ready = self.poll(bits)?;
        let ready = ready || (!self.stalled && self.keep_polling(bits)?);
        self.stalled = !ready;
        if ready { Ok(()) } else { Err(Stall::Stuck) }
    }

    #[cold]
    fn keep_polling(&mut self, bits: u8) -> Result<bool, Stall> {
        let deadline = self.clock.now() + self.longest_wait();
        loop {
            let next = self.clock.now() + Nanos::from_micros(1);
            self.clock.wait_until(next);
            if self.poll(bits)? {
                return Ok(true);
            }
            if next >= deadline {
                return Ok(false);
            }
        }
    }

    fn poll(&mut self, bits: u8) -> Result<bool, Stall> {
        let mut status = self.registers.read8(LSR);
        if status == !0 {
            // "Ready", with every receive error there is: hardly a port. The
            // read has cleared those errors, so a port will not say it again.
            status = self.registers.read8(LSR);
            if status == !0 {
                self.stalled = true;
                return Err(Stall::Gone);
            }
        }
        Ok(status & bits == bits)
    }

    /// The longest that any wait for the line status lasts.
    ///
    /// Eight times what the line needs for all that the port can hold (so that a
    /// port whose line is slower than it claims is waited for), but no longer
    /// than Linux's 10 ms, unless the line is so slow that twice that time is
    /// more.
    pub fn longest_wait(&self) -> Nanos {
        // The FIFO or holding register, and the shift register.
        let full = self.frame_time * (self.load as u64 + 1);
        (full * 8).min(LONGEST_WAIT.max(full * 2))
    }
}

/// Why a console could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// No port answers: its scratch register does not keep what is written.
    Absent,
    /// The line cannot be set up as asked.
    Line(LineError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str(
                "no 16550A answers there: check the port's address and that it is enabled",
            ),
            Self::Line(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for OpenError {}

impl From<LineError> for OpenError {
    fn from(error: LineError) -> Self {
        Self::Line(error)
    }
}

impl<R: Registers, C: Clock> Console<R, C> {
    /// Takes over the port: waits for what its last user was still sending (20
    /// ms at most), sets rate and frame, empties and enables the FIFOs, raises
    /// DTR and RTS, disables all its interrupts.
    ///
    /// Starts with [`Strategy::FifoBurst`].
    ///
    /// # Errors
    ///
    /// [`OpenError`]: nobody answers, or the line cannot be set up so. The port
    /// is then as it was, but for its scratch register.
    pub fn open(registers: R, clock: C, line: LineSettings) -> Result<Self, OpenError> {
        let divisor = line.divisor()?;
        for pattern in [0x55, 0xaa] {
            registers.write8(SCR, pattern);
            if registers.read8(SCR) != pattern {
                return Err(OpenError::Absent);
            }
        }
        let mut console = Self {
            registers,
            clock,
            strategy: Strategy::FifoBurst,
            // Until the line is ours: its last user's may be slow. This makes the
            // wait below 20 ms, enough for a full FIFO at 9,600 baud.
            frame_time: LONGEST_WAIT / 2,
            load: 1,
            stalled: false,
        };
        // A divisor changed in mid-frame garbles the frame.
        let _ = console.wait_for(lsr::THRE | lsr::TEMT);
        console.frame_time = line.frame_time();
        console.configure(divisor, line.lcr());
        Ok(console)
    }

    fn configure(&mut self, divisor: u16, frame: u8) {
        let [low, high] = divisor.to_le_bytes();
        let port = &self.registers;
        port.write8(LCR, lcr::DLAB | frame);
        port.write8(DLL, low);
        port.write8(DLM, high);
        port.write8(LCR, frame);
        port.write8(IER, 0);
        port.write8(MCR, mcr::DTR | mcr::RTS);
        port.write8(FCR, fcr::ENABLE | fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT);
        // The one read of the IIR: our interrupts are off, there is none to lose.
        if port.read8(IIR) & iir::FIFOS == iir::FIFOS {
            self.load = FIFO_DEPTH;
        } else {
            // A 16450, or a 16550 whose FIFO loses bytes (PC16550D, section 8.6).
            port.write8(FCR, 0);
        }
        self.stalled = false;
    }

    /// Chooses how bytes are brought to the transmitter from now on.
    pub const fn set_strategy(&mut self, strategy: Strategy) {
        self.strategy = strategy;
    }

    /// How many bytes the transmitter takes at once: the FIFO's depth, or 1
    /// where there is none that works.
    pub const fn transmit_load(&self) -> usize {
        self.load
    }

    /// The window of registers.
    pub const fn registers(&self) -> &R {
        &self.registers
    }

    /// The clock.
    pub const fn clock(&self) -> &C {
        &self.clock
    }
}

impl<R: Registers, C: Clock> fmt::Write for Console<R, C> {
    /// # Errors
    ///
    /// If not every byte went out.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.write(text.as_bytes()).is_complete() {
            Ok(())
        } else {
            Err(fmt::Error)
        }
    }
}

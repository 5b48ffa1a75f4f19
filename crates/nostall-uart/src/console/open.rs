//! Taking a port over.

use core::fmt;

use nostall_io::{Clock, Nanos, Registers};

use super::{CANARY, Console, LARGEST_LOAD, Port, Seen};
use crate::pace::Pace;
use crate::probe::{Absent, probe};
use crate::registers::{
    DLL, DLM, DW_USR, EFR, FCR, IER, IIR, LCR, MCR, SCR, efr, fcr, iir, lcr, lsr, mcr,
};
use crate::{LineError, Model, PowerLoss, Settings, Strategy};

/// Why a console could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// No port answers.
    Absent,
    /// The line cannot be set up as asked.
    Line(LineError),
    /// The transmit load is not in 1 to 128.
    TransmitLoad(usize),
    /// The port does not take its settings: it is busy without end.
    Busy,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => Absent.fmt(f),
            Self::Line(error) => error.fmt(f),
            Self::TransmitLoad(load) => {
                write!(f, "a transmit load of {load} bytes: must be 1 to 128")
            }
            Self::Busy => {
                f.write_str("the port is busy without end and does not take its settings: reset it")
            }
        }
    }
}

impl core::error::Error for OpenError {}

impl From<LineError> for OpenError {
    fn from(error: LineError) -> Self {
        Self::Line(error)
    }
}

impl From<Absent> for OpenError {
    fn from(Absent: Absent) -> Self {
        Self::Absent
    }
}

impl<R: Registers, C: Clock> Console<R, C> {
    /// Takes over the port: waits for what its last user was still sending (20
    /// ms at most), finds out what it is unless `settings` say so, sets rate and
    /// frame, empties and enables the FIFOs, raises DTR and RTS, disables all its
    /// interrupts.
    ///
    /// Starts with [`Strategy::FifoBurst`].
    ///
    /// # Errors
    ///
    /// [`OpenError`]: nobody answers, or the port cannot be set up so.
    pub fn open(registers: R, clock: C, settings: impl Into<Settings>) -> Result<Self, OpenError> {
        let settings = settings.into();
        let divisor = settings.line.divisor()?;
        if let Some(load) = settings.transmit_load
            && !(1..=LARGEST_LOAD).contains(&load)
        {
            return Err(OpenError::TransmitLoad(load));
        }
        let port = Port {
            model: settings.model.unwrap_or(Model::Uart16550A),
            divisor,
            // Until the line is ours: its last user's may be slow. This makes the
            // wait below 20 ms, enough for a full FIFO at 9,600 baud.
            frame_time: Nanos::from_millis(5),
            load: 1,
        };
        let mut console = Self {
            registers,
            clock,
            settings,
            strategy: Strategy::FifoBurst,
            port,
            pace: Pace::new(1, port.frame_time),
            stalled: false,
            held_off: false,
            drained: true,
            cr_sent: false,
            seen: Seen::default(),
        };
        // A divisor changed in mid-frame garbles the frame.
        let _ = console.wait_for(lsr::THRE | lsr::TEMT);
        let mut load = port.model.transmit_load();
        if settings.model.is_none() {
            let probed = probe(&console.registers)?;
            console.port.model = probed.model;
            load = probed.transmit_load;
        }
        console.port.frame_time = settings.line.frame_time();
        console.port.load = settings.transmit_load.unwrap_or(load);
        console.configure()?;
        console.pace = Pace::new(console.port.load, console.port.frame_time);
        Ok(console)
    }

    /// Makes the port what `port` and the settings say.
    pub(super) fn configure(&mut self) -> Result<(), OpenError> {
        let [low, high] = self.port.divisor.to_le_bytes();
        let frame = self.settings.line.lcr();
        let registers = &self.registers;
        self.write_lcr(lcr::DLAB | frame)?;
        registers.write8(DLL, low);
        registers.write8(DLM, high);
        let fifo = self.enable_fifos();
        self.write_lcr(frame)?;
        registers.write8(IER, 0);
        // On a shared line RTS is our turn to speak.
        let ours = if self.settings.rs485.is_some() {
            0
        } else {
            mcr::RTS
        };
        registers.write8(MCR, mcr::DTR | ours);
        if self.settings.power_loss == PowerLoss::Recover {
            registers.write8(SCR, CANARY);
        }
        if !fifo {
            self.port.load = 1;
        }
        self.stalled = false;
        self.held_off = false;
        Ok(())
    }

    /// Enables and empties the FIFOs; whether there are any that work. To be
    /// called with DLAB set, for the 16750.
    fn enable_fifos(&self) -> bool {
        let clear = fcr::ENABLE | fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT;
        let registers = &self.registers;
        match self.port.model {
            Model::Uart8250 | Model::Uart16450 | Model::Uart16550 => {
                registers.write8(FCR, 0);
                return false;
            }
            Model::Uart16750 => registers.write8(FCR, clear | fcr::FIFO_64),
            Model::Uart16950 => {
                // Its FIFOs are 128 deep in enhanced mode only (OX16C950 data
                // sheet, "Mode selection").
                let lcr = registers.read8(LCR);
                registers.write8(LCR, lcr::ENHANCED);
                registers.write8(EFR, efr::ENHANCED);
                registers.write8(LCR, lcr);
                registers.write8(FCR, clear);
            }
            _ => registers.write8(FCR, clear),
        }
        // The one read of the IIR: our interrupts are off, there is none to lose.
        let there = registers.read8(IIR) & iir::FIFOS == iir::FIFOS;
        if !there {
            registers.write8(FCR, 0);
        }
        there
    }

    /// A DesignWare that is busy ignores a write to its LCR (DW_apb_uart
    /// databook, LCR): empty it, ask its status, which ends its complaint, and try
    /// again.
    fn write_lcr(&self, value: u8) -> Result<(), OpenError> {
        let registers = &self.registers;
        registers.write8(LCR, value);
        if self.port.model != Model::DesignWare {
            return Ok(());
        }
        let deadline = self.clock.now() + self.longest_wait();
        while registers.read8(LCR) != value {
            let now = self.clock.now();
            if now >= deadline {
                return Err(OpenError::Busy);
            }
            registers.write8(FCR, fcr::ENABLE | fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT);
            let _ = registers.read32(DW_USR);
            self.clock.wait_until(now + Nanos::from_micros(1));
            registers.write8(LCR, value);
        }
        Ok(())
    }
}

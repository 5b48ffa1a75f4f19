//! Taking a port over.

use nostall_io::{Clock, Nanos, Registers};

use super::{CANARY, Console, LARGEST_LOAD, Port, Seen};
use crate::probe::probe;
use crate::registers::{IER, MCR, SCR, lsr, mcr};
use crate::setup::{answers, program};
use crate::{Model, OpenError, PowerLoss, Settings, Strategy};

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
        // Before anything is touched.
        settings.line.divisor()?;
        if let Some(load) = settings.transmit_load
            && !(1..=LARGEST_LOAD).contains(&load)
        {
            return Err(OpenError::TransmitLoad(load));
        }
        let port = Port {
            model: settings.model.unwrap_or(Model::Uart16550A),
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
            pace: port.pace(),
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
        } else if !answers(&console.registers) {
            return Err(OpenError::Absent);
        }
        console.port.frame_time = settings.line.frame_time();
        console.port.load = settings.transmit_load.unwrap_or(load);
        console.configure()?;
        console.pace = console.port.pace();
        Ok(console)
    }

    /// Makes the port what the settings say.
    pub(super) fn configure(&mut self) -> Result<(), OpenError> {
        let registers = &self.registers;
        let fifos = program(
            registers,
            &self.clock,
            self.port.model,
            &self.settings.line,
            0,
        )?;
        registers.write8(IER, 0);
        // On a shared line RTS is our turn to speak.
        let ours = match self.settings.rs485 {
            Some(_) => 0,
            None => mcr::RTS,
        };
        registers.write8(MCR, mcr::DTR | ours);
        if self.settings.power_loss == PowerLoss::Recover {
            registers.write8(SCR, CANARY);
        }
        if !fifos {
            self.port.load = 1;
        }
        self.stalled = false;
        self.held_off = false;
        Ok(())
    }
}

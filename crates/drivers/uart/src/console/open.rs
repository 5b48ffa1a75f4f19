//! Opening of a port.

use nostall_io::{Clock, Registers};

use super::lost::Lost;
use super::state::{CANARY, Console, LatchedStatus, Port, Turn};
use crate::model::LARGEST_LOAD;
use crate::probe::{designware_load, probe};
use crate::registers::{IER, LCR, MCR, SCR, lcr, mcr};
use crate::setup::{Patience, answers, program, wait_for_last_user};
use crate::{ConsoleSettings, Model, OpenError, PowerLoss, Strategy};

impl<R: Registers, C: Clock> Console<R, C> {
    /// Takes over the port. Probes the model unless `settings` name it, sets rate and frame, clears
    /// and enables the FIFOs, raises DTR and RTS, and disables the port's interrupts.
    ///
    /// Waits before that for bytes of the port's last user: until 129 frames have passed, and for at
    /// least 20 ms. That is 20 ms at 115,200 baud, 135 ms at 9,600, and 4.3 s at 300. Bytes that
    /// have not left by then are counted as [lost](Self::lost), up to one load. A port that
    /// ignores its settings costs at most 40 ms more.
    ///
    /// Starts with [`Strategy::FifoBurst`].
    ///
    /// # Errors
    ///
    /// [`OpenError`] if no port answers, or if the settings are not possible.
    pub fn open(
        registers: R,
        clock: C,
        settings: impl Into<ConsoleSettings>,
    ) -> Result<Self, OpenError> {
        let mut console = Self::unopened(registers, clock, settings)?;
        let (registers, settings) = (&console.registers, &console.settings);
        let is_idle = wait_for_last_user(registers, &console.clock, &settings.line);
        let (mut model, mut load) = (console.port.model, console.port.full_load);
        if settings.model.is_none() {
            let probed = probe(registers)?;
            model = probed.model;
            load = settings.transmit_load.unwrap_or(probed.transmit_load);
        } else if !answers(registers) {
            return Err(OpenError::NotFound);
        } else if model == Model::DesignWare && settings.transmit_load.is_none() {
            load = designware_load(registers);
        }
        if settings.power_loss == PowerLoss::Recover && !model.has_scratch() {
            return Err(OpenError::NoScratch);
        }
        console.port = Port {
            model,
            load,
            full_load: load,
            ..console.port
        };
        console.configure(Patience::Wait)?;
        if !is_idle {
            // The set-up has cleared the FIFOs.
            console.lost.lose_content(load);
        }
        // The FIFOs do not work now, so later set-ups do not expect them.
        console.port.full_load = console.port.load;
        console.fifo_missing = false;
        console.pace = console.port.pace();
        Ok(console)
    }

    /// Creates a console without an access to the port. Its first use sets the port up. For a panic
    /// that comes while another context [opens](Self::open) the port.
    ///
    /// There is no probe: unless `settings` name the model, it is taken for a 16550A. Its FIFOs are
    /// used if they work as those of a 16550A, so an ST16C650 or a mini UART must be named.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the settings are not possible.
    pub fn unopened(
        registers: R,
        clock: C,
        settings: impl Into<ConsoleSettings>,
    ) -> Result<Self, OpenError> {
        let settings = settings.into();
        settings.line.divisor()?;
        if let Some(load) = settings.transmit_load
            && !(1..=LARGEST_LOAD).contains(&load)
        {
            return Err(OpenError::TransmitLoad(load));
        }
        let model = settings.model.unwrap_or(Model::Uart16550A);
        let port = Port {
            model,
            frame_time: settings.line.frame_time(),
            load: 1,
            full_load: settings.transmit_load.unwrap_or(model.transmit_load()),
        };
        Ok(Self {
            registers,
            clock,
            settings,
            strategy: Strategy::FifoBurst,
            port,
            pace: port.pace(),
            outage: None,
            held_off: None,
            never_idle: false,
            set_up_failed: false,
            fifo_missing: true,
            in_port: 0,
            at_risk: 0,
            cr_sent: false,
            lost: Lost::default(),
            turn: Turn::Listening,
            seen: LatchedStatus::default(),
            receives: false,
            is_paused: false,
            front_errors: 0,
        })
    }

    /// Takes over the port for a panic: disables its interrupts. If another driver was stopped
    /// during a set-up or a test of the port, sets the port up again. Never waits.
    pub fn take_over(&mut self) {
        let line = lcr::DLAB
            | match self.port.model {
                // The word length bits differ from the data sheet (BCM2835 errata, AUX_MU_LCR_REG).
                Model::Bcm2835Mini => 0,
                _ => lcr::WORD_LENGTH,
            };
        let differs = self.registers.read8(LCR) ^ self.settings.line.lcr();
        if differs & line != 0 || self.registers.read8(MCR) & mcr::LOOP != 0 {
            // A port that stays busy keeps its registers.
            let _ = self.configure(Patience::OneLook);
            self.pace = self.port.pace();
        }
        self.disable_receive();
        self.lost.line_is_unknown();
    }

    /// Programs the port with the settings.
    pub(super) fn configure(&mut self, patience: Patience) -> Result<(), OpenError> {
        let registers = &self.registers;
        if self.settings.power_loss == PowerLoss::Recover {
            // Written first, so that a loss of power during the set-up is detected too.
            registers.write8(SCR, CANARY);
        }
        let programmed = program(
            registers,
            &self.clock,
            self.port.model,
            &self.settings.line,
            0,
            patience,
        );
        if programmed.is_err() && self.settings.power_loss == PowerLoss::Recover {
            registers.write8(SCR, !CANARY);
        }
        let fifos = programmed?;
        registers.write8(IER, 0);
        // On a shared line, RTS enables the transmitter.
        let ours = match self.settings.rs485 {
            Some(_) => 0,
            None => mcr::RTS,
        };
        registers.write8(MCR, mcr::DTR | ours);
        self.front_errors = 0;
        self.port.load = if fifos { self.port.full_load } else { 1 };
        self.fifo_missing = self.port.load < self.port.full_load;
        self.outage = None;
        self.held_off = None;
        self.never_idle = false;
        self.set_up_failed = false;
        self.turn = Turn::Listening;
        if self.receives {
            self.set_receive();
        }
        Ok(())
    }
}

//! Opening of a port.

use nostall_io::{Clock, Nanos};

use super::lost::Lost;
use super::state::{Console, LatchedStatus, Port, Turn};
use crate::hardware::UartHardware;
use crate::model::LARGEST_LOAD;
use crate::setup::{LONGEST_WAIT, wait_until};
use crate::{ConsoleSettings, OpenError, PowerLoss, Strategy};

/// Limit of the waits while opening a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// Wait for at most 20 ms.
    Wait,
    /// Make one attempt.
    OneLook,
}

impl Patience {
    const fn limit(self) -> Nanos {
        match self {
            Self::Wait => LONGEST_WAIT,
            Self::OneLook => Nanos::ZERO,
        }
    }
}

impl<U: UartHardware, C: Clock> Console<U, C> {
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
        uart: U,
        clock: C,
        settings: impl Into<ConsoleSettings>,
    ) -> Result<Self, OpenError> {
        let mut console = Self::unopened(uart, clock, settings)?;
        console.uart.begin_open();
        let is_idle = console.wait_for_last_user();
        let found = console.uart.identify(&console.settings)?;
        let load = console
            .settings
            .transmit_load
            .unwrap_or(found.transmit_load);
        let recovers = console.settings.power_loss == PowerLoss::Recover;
        if recovers && !console.uart.detects_power_loss(found.model) {
            return Err(OpenError::NoScratch);
        }
        console.port = Port {
            model: found.model,
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
        uart: U,
        clock: C,
        settings: impl Into<ConsoleSettings>,
    ) -> Result<Self, OpenError> {
        let settings = settings.into();
        let assumed = uart.assume(&settings)?;
        if let Some(load) = settings.transmit_load
            && !(1..=LARGEST_LOAD).contains(&load)
        {
            return Err(OpenError::TransmitLoad(load));
        }
        let port = Port {
            model: assumed.model,
            frame_time: settings.line.frame_time(),
            load: 1,
            full_load: settings.transmit_load.unwrap_or(assumed.transmit_load),
        };
        Ok(Self {
            uart,
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
        let is_configured = self
            .uart
            .is_configured(self.port.model, &self.settings.line);
        if !is_configured {
            // A 16550 that stays busy keeps its registers.
            let _ = self.configure(Patience::OneLook);
            self.pace = self.port.pace();
        }
        self.disable_receive();
        self.lost.line_is_unknown();
    }

    /// Waits until the bytes of the port's last user have left, because a set-up garbles a frame and
    /// clears the FIFOs. Waits for as long as the largest FIFO needs, and for at least 20 ms. Returns
    /// whether they have left.
    fn wait_for_last_user(&self) -> bool {
        let idle = self.idle_bits();
        let limit = (self.port.frame_time * (LARGEST_LOAD as u64 + 1)).max(LONGEST_WAIT);
        wait_until(&self.clock, limit, || {
            self.uart.line_status() & idle == idle
        })
    }

    /// Programs the port with the settings.
    pub(super) fn configure(&mut self, patience: Patience) -> Result<(), OpenError> {
        let recovers = self.settings.power_loss == PowerLoss::Recover;
        if recovers {
            // Marked first, so that a loss of power during the set-up is detected too.
            self.uart.mark_power(true);
        }
        // On a shared line, RTS enables the transmitter.
        let rts = self.settings.rs485.is_none();
        let (model, line, limit) = (self.port.model, &self.settings.line, patience.limit());
        let configured = self.uart.configure(&self.clock, model, line, rts, limit);
        if configured.is_err() && recovers {
            self.uart.mark_power(false);
        }
        let fifos = configured?;
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

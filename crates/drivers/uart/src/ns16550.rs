//! The 16550 family behind the seam: every register window is one.

use nostall_io::{Clock, Nanos, Registers};

use crate::hardware::{Identity, UartHardware};
use crate::probe::{designware_load, probe};
use crate::registers::{
    DW_USR, FCR, IER, IIR, LCR, LSR, MCR, MSR, RBR, SCR, THR, dw, fcr, ier, iir, lcr, mcr,
};
use crate::setup::{answers, program};
use crate::{ConsoleSettings, LineSettings, Model, OpenError, TriggerLevel};

/// Value of the scratch register that shows that the port has kept its power.
const CANARY: u8 = 0x5a;

impl<R: Registers> UartHardware for R {
    fn assume(&self, settings: &ConsoleSettings) -> Result<Identity, OpenError> {
        settings.line.divisor()?;
        let model = settings.model.unwrap_or(Model::Uart16550A);
        Ok(Identity {
            model,
            transmit_load: model.transmit_load(),
        })
    }

    fn identify(&self, settings: &ConsoleSettings) -> Result<Identity, OpenError> {
        let Some(model) = settings.model else {
            let probed = probe(self)?;
            return Ok(Identity {
                model: probed.model,
                transmit_load: probed.transmit_load,
            });
        };
        if !answers(self, model) {
            return Err(OpenError::NotFound);
        }
        let transmit_load = match (model, settings.transmit_load) {
            (Model::DesignWare, None) => designware_load(self),
            _ => model.transmit_load(),
        };
        Ok(Identity {
            model,
            transmit_load,
        })
    }

    fn answers(&self, model: Model) -> bool {
        answers(self, model)
    }

    fn configure(
        &self,
        clock: &impl Clock,
        model: Model,
        line: &LineSettings,
        rts: bool,
        limit: Nanos,
    ) -> Result<bool, OpenError> {
        let fifos = program(self, clock, model, line, 0, limit)?;
        self.write8(IER, 0);
        self.write8(MCR, mcr::DTR | if rts { mcr::RTS } else { 0 });
        Ok(fifos)
    }

    fn is_configured(&self, model: Model, line: &LineSettings) -> bool {
        let compared = lcr::DLAB
            | match model {
                // The word length bits differ from the data sheet (BCM2835 errata, AUX_MU_LCR_REG).
                Model::Bcm2835Mini => 0,
                _ => lcr::WORD_LENGTH,
            };
        let differs = self.read8(LCR) ^ line.lcr();
        differs & compared == 0 && self.read8(MCR) & mcr::LOOP == 0
    }

    #[inline(always)]
    fn line_status(&self) -> u8 {
        self.read8(LSR)
    }

    fn modem_status(&self) -> u8 {
        self.read8(MSR)
    }

    #[inline(always)]
    fn send(&self, byte: u8) {
        self.write8(THR, byte);
    }

    #[inline(always)]
    fn send_burst(&self, load: &[u8]) {
        self.write_burst(THR, load);
    }

    fn receive(&self) -> (u8, u8) {
        (self.read8(RBR), 0)
    }

    fn set_receive(&self, model: Model, trigger: Option<TriggerLevel>, receives: bool) {
        // Without the clear bits, the FIFOs keep their contents.
        if let Some(trigger) = trigger {
            let depth = match model {
                Model::Uart16750 => fcr::FIFO_64,
                _ => 0,
            };
            self.write8(FCR, fcr::ENABLE | depth | trigger as u8);
        }
        let lines = self.read8(MCR) & (mcr::DTR | mcr::RTS);
        self.write8(MCR, lines | out2(receives));
    }

    fn enable_receive_interrupt(&self, model: Model, is_enabled: bool) {
        let enables = match (is_enabled, model) {
            (false, _) => 0,
            // It receives without interrupts unless bits 2 and 3 are both set, in contrast to its
            // description (BCM2835 errata, AUX_MU_IER_REG).
            (true, Model::Bcm2835Mini) => ier::RECEIVED_DATA | ier::LINE_STATUS | ier::MODEM_STATUS,
            (true, _) => ier::RECEIVED_DATA | ier::LINE_STATUS,
        };
        self.write8(IER, enables);
    }

    /// Ends an interrupt without a byte. A DesignWare can report a timeout without a byte, until a
    /// byte that is not there is read (as Linux found, `8250_dw.c`). It also has a busy interrupt
    /// of its own.
    fn end_empty_interrupt(&self, model: Model) -> bool {
        if model != Model::DesignWare {
            return false;
        }
        match self.read8(IIR) & (iir::ID | iir::NONE) {
            iir::TIMEOUT => {
                let _ = self.read8(RBR);
            }
            dw::IIR_BUSY => {
                let _ = self.read32(DW_USR);
            }
            _ => {}
        }
        false
    }

    fn set_rts(&self, is_raised: bool, receives: bool) {
        let rts = if is_raised { mcr::RTS } else { 0 };
        self.write8(MCR, mcr::DTR | rts | out2(receives));
    }

    fn detects_power_loss(&self, model: Model) -> bool {
        model.has_scratch()
    }

    fn has_kept_power(&self) -> bool {
        self.read8(SCR) == CANARY
    }

    fn mark_power(&self, is_set: bool) {
        self.write8(SCR, if is_set { CANARY } else { !CANARY });
    }
}

/// Returns the bit of the modem control register that gates the interrupt on a PC.
const fn out2(receives: bool) -> u8 {
    if receives { mcr::OUT2 } else { 0 }
}

//! Opening and closing of a port.

use nostall_io::{Clock, Registers};

use super::{Handshake, Port, PortSettings, PortStatistics, Received, Ring};
use crate::model::LARGEST_LOAD;
use crate::registers::{LSR, MCR, MSR, RBR, ier, lsr, mcr, msr};
use crate::setup::{Patience, answers, program, wait_for_last_user};
use crate::{Model, OpenError};

impl<'a, R: Registers> Port<'a, R> {
    /// Takes over the port. Waits for bytes of its last user, until 129 frames have passed and for
    /// at least 20 ms. Sets rate and frame, clears and enables the FIFOs, and raises DTR, RTS and OUT2, which gates the interrupt
    /// on a PC. Then it enables the port's interrupts.
    ///
    /// From then on the handler may be called. `transmit` and `receive` are the memory of the
    /// rings; an empty one disables its direction. The clock is used only for the wait.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if no port answers, or if the settings are not possible.
    pub fn open(
        registers: R,
        clock: &impl Clock,
        settings: impl Into<PortSettings>,
        transmit: &'a mut [u8],
        receive: &'a mut [Received],
    ) -> Result<Self, OpenError> {
        let settings = settings.into();
        // Checked before the port is accessed.
        settings.line.divisor()?;
        if !answers(&registers) {
            return Err(OpenError::NotFound);
        }
        wait_for_last_user(&registers, clock, &settings.line);
        let trigger = settings.trigger as u8;
        let fifos = program(
            &registers,
            clock,
            settings.model,
            &settings.line,
            trigger,
            Patience::Wait,
        )?;
        registers.write8(MCR, mcr::DTR | mcr::RTS | mcr::OUT2);
        let load = settings.transmit_load;
        let load = load.unwrap_or(settings.model.transmit_load());
        let mut port = Self {
            depth: if fifos {
                settings.model.fifo_depth()
            } else {
                1
            },
            load: if fifos {
                load.clamp(1, LARGEST_LOAD)
            } else {
                1
            },
            frame_time: settings.line.frame_time(),
            handshake: settings.handshake,
            model: settings.model,
            modem_control: mcr::DTR | mcr::RTS | mcr::OUT2,
            clear_to_send: registers.read8(MSR) & msr::CTS != 0,
            modem_changed: false,
            registers,
            enabled: 0,
            transmit: Ring::new(transmit),
            receive: Ring::new(receive),
            held: 0,
            lost: 0,
            dropping: false,
            news: false,
            gone: false,
            statistics: PortStatistics::default(),
            #[cfg(feature = "embedded-io-async")]
            wakers: Default::default(),
        };
        // Discards a byte and errors from before. Without a byte the receiver is not read: a
        // DesignWare can be built to answer with a bus error (DW_apb_uart databook,
        // PSLVERR_RESP_EN).
        if port.registers.read8(LSR) & lsr::DATA_READY != 0 {
            let _ = port.registers.read8(RBR);
        }
        port.enable(ier::RECEIVED_DATA | ier::LINE_STATUS);
        // The mini UART receives without interrupts unless bits 2 and 3 are both set, in contrast
        // to its description (BCM2835 errata, AUX_MU_IER_REG).
        if settings.handshake == Handshake::RtsCts || settings.model == Model::Bcm2835Mini {
            port.enable(ier::MODEM_STATUS);
        }
        Ok(port)
    }

    /// Disables the port's interrupts and returns its window. Bytes in the transmit ring are not
    /// sent; bytes in the FIFO are.
    pub fn close(mut self) -> R {
        self.disable(!0);
        self.modem_control &= !mcr::OUT2;
        self.registers.write8(MCR, self.modem_control);
        self.registers
    }
}

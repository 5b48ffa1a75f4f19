//! Taking a port over, and giving it back.

use core::fmt;

use nostall_io::{Clock, Nanos, Registers};

use super::{Handshake, LARGEST_LOAD, Port, PortSettings, Received, Ring, Statistics};
use crate::registers::{
    DLL, DLM, DW_USR, EFR, FCR, IER, IIR, LCR, LSR, MCR, MSR, RBR, efr, fcr, ier, iir, lcr, lsr,
    mcr, msr,
};
use crate::{LineError, Model};

/// Why a port could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortOpenError {
    /// No port answers.
    Absent,
    /// The line cannot be set up as asked.
    Line(LineError),
    /// The port does not take its settings: it is busy without end.
    Busy,
}

impl fmt::Display for PortOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => f.write_str(
                "no 16550 answers there: check the port's address and that it is enabled",
            ),
            Self::Line(error) => error.fmt(f),
            Self::Busy => {
                f.write_str("the port is busy without end and does not take its settings: reset it")
            }
        }
    }
}

impl core::error::Error for PortOpenError {}

impl From<LineError> for PortOpenError {
    fn from(error: LineError) -> Self {
        Self::Line(error)
    }
}

/// The longest wait for a port that is to take our settings: a full FIFO at 9,600
/// baud, with room.
const LONGEST_WAIT: Nanos = Nanos::from_millis(20);

impl<'a, R: Registers> Port<'a, R> {
    /// Takes over the port: waits for what its last user was still sending (20 ms
    /// at most), sets rate and frame, empties and enables the FIFOs, raises DTR
    /// and RTS, and OUT2, which lets the interrupt through on a PC; then enables
    /// the port's interrupts.
    ///
    /// From then on the handler may be called. `transmit` and `receive` are the
    /// memory of the rings; without any, that way stays shut. The clock serves
    /// only for the wait.
    ///
    /// # Errors
    ///
    /// [`PortOpenError`]: nobody answers, or the port cannot be set up so.
    pub fn open(
        registers: R,
        clock: &impl Clock,
        settings: impl Into<PortSettings>,
        transmit: &'a mut [u8],
        receive: &'a mut [Received],
    ) -> Result<Self, PortOpenError> {
        let settings = settings.into();
        let divisor = settings.line.divisor()?;
        if !answers(&registers) {
            return Err(PortOpenError::Absent);
        }
        // A divisor changed in mid-frame garbles the frame.
        wait_until(clock, || registers.read8(LSR) & lsr::TEMT != 0);
        let fifos = program(&registers, clock, &settings, divisor)?;
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
            statistics: Statistics::default(),
            #[cfg(feature = "embedded-io-async")]
            wakers: Default::default(),
        };
        // A byte, and errors, of before our time.
        let _ = (port.registers.read8(LSR), port.registers.read8(RBR));
        port.enable(ier::RECEIVED_DATA | ier::LINE_STATUS);
        // The mini UART receives without interrupts unless bits 2 and 3 are both
        // set, whatever its description says (BCM2835 errata, AUX_MU_IER_REG).
        if settings.handshake == Handshake::RtsCts || settings.model == Model::Bcm2835Mini {
            port.enable(ier::MODEM_STATUS);
        }
        Ok(port)
    }

    /// Disables the port's interrupts and gives its window back. What is in the
    /// transmit ring is not sent; what is in the FIFO is.
    pub fn close(mut self) -> R {
        self.disable(!0);
        self.modem_control &= !mcr::OUT2;
        self.registers.write8(MCR, self.modem_control);
        self.registers
    }
}

/// The interrupt enables keep what is written to them, on every model. They are
/// left 0.
fn answers(port: &impl Registers) -> bool {
    // The divisor latch may be in their place.
    port.write8(LCR, 0);
    [0b0101, 0b1010, 0b0000].into_iter().all(|pattern| {
        port.write8(IER, pattern);
        port.read8(IER) & 0x0f == pattern
    })
}

/// Makes the port what `settings` say; whether it has FIFOs that work.
fn program(
    port: &impl Registers,
    clock: &impl Clock,
    settings: &PortSettings,
    divisor: u16,
) -> Result<bool, PortOpenError> {
    let [low, high] = divisor.to_le_bytes();
    let frame = settings.line.lcr();
    let write_lcr = |value| write_lcr(port, clock, settings.model, value);
    write_lcr(lcr::DLAB | frame)?;
    port.write8(DLL, low);
    port.write8(DLM, high);
    let fifos = enable_fifos(port, settings, frame);
    write_lcr(frame)?;
    port.write8(MCR, mcr::DTR | mcr::RTS | mcr::OUT2);
    Ok(fifos)
}

/// Enables and empties the FIFOs. To be called with DLAB set, for the 16750.
fn enable_fifos(port: &impl Registers, settings: &PortSettings, frame: u8) -> bool {
    let clear = fcr::ENABLE | fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT;
    let fifos = clear | settings.trigger as u8;
    match settings.model {
        Model::Uart8250 | Model::Uart16450 | Model::Uart16550 => {
            port.write8(FCR, 0);
            return false;
        }
        Model::Uart16750 => port.write8(FCR, fifos | fcr::FIFO_64),
        Model::Uart16950 => {
            // Its FIFOs are 128 deep in enhanced mode only (OX16C950 data sheet,
            // "Mode selection").
            port.write8(LCR, lcr::ENHANCED);
            port.write8(EFR, efr::ENHANCED);
            port.write8(LCR, lcr::DLAB | frame);
            port.write8(FCR, fifos);
        }
        _ => port.write8(FCR, fifos),
    }
    // Our interrupts are off: there is none to lose.
    let there = port.read8(IIR) & iir::FIFOS == iir::FIFOS;
    if !there {
        // A 16450, or a 16550 whose FIFO loses bytes (PC16550D, section 8.6).
        port.write8(FCR, 0);
    }
    there
}

/// A DesignWare that is busy ignores a write to its LCR (DW_apb_uart databook,
/// LCR): empty it, ask its status, which ends its complaint, and try again.
fn write_lcr(
    port: &impl Registers,
    clock: &impl Clock,
    model: Model,
    value: u8,
) -> Result<(), PortOpenError> {
    let taken = wait_until(clock, || {
        port.write8(LCR, value);
        if model != Model::DesignWare || port.read8(LCR) == value {
            return true;
        }
        port.write8(FCR, fcr::ENABLE | fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT);
        let _ = port.read32(DW_USR);
        false
    });
    taken.then_some(()).ok_or(PortOpenError::Busy)
}

/// Asks once a microsecond until `done`; whether that came in time.
fn wait_until(clock: &impl Clock, mut done: impl FnMut() -> bool) -> bool {
    let deadline = clock.now() + LONGEST_WAIT;
    while !done() {
        let now = clock.now();
        if now >= deadline {
            return false;
        }
        clock.wait_until(now + Nanos::from_micros(1));
    }
    true
}

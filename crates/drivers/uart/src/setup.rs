//! Set-up of a port.

use core::fmt;

use nostall_io::{Clock, Held, Nanos, Registers, StallCondition, Timeout};

use crate::registers::{DLL, DLM, DW_USR, EFR, FCR, IER, IIR, LCR, MCR, efr, fcr, iir, lcr, mcr};
use crate::{LineError, LineSettings, Model};

/// Longest wait for a busy port during its set-up: the time of a full FIFO of 16 bytes at 9,600
/// baud, with a margin.
pub(crate) const LONGEST_WAIT: Nanos = Nanos::from_millis(20);

/// Error: no serial port answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFound;

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no serial port answers there: check the port's address and that it is enabled")
    }
}

impl core::error::Error for NotFound {}

/// Reason for which a port could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// No port answers.
    NotFound,
    /// The line settings are not possible.
    Line(LineError),
    /// The transmit load is not in 1 to 128.
    TransmitLoad(usize),
    /// The port ignores its settings because it stays busy, or another context uses it.
    Busy,
    /// The model does not show a loss of power: an 8250, an SBSA UART, or a PL011 without a clock.
    NoScratch,
    /// The model has no RTS and CTS.
    NoModemLines,
    /// The model sends frames of 8 data bits without parity alone.
    Frame,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => NotFound.fmt(f),
            Self::Line(error) => error.fmt(f),
            Self::TransmitLoad(load) => {
                write!(f, "a transmit load of {load} bytes: must be 1 to 128")
            }
            Self::NoScratch => {
                f.write_str("a loss of power of this model goes unnoticed: use PowerLoss::Ignore")
            }
            Self::NoModemLines => {
                f.write_str("this model has no RTS and CTS: use no flow control and no RS-485 line")
            }
            Self::Frame => f.write_str("this model has frames of 8 data bits without parity"),
            Self::Busy => f.write_str("the port stays busy and ignores its settings: reset it"),
        }
    }
}

impl core::error::Error for OpenError {}

impl From<LineError> for OpenError {
    fn from(error: LineError) -> Self {
        Self::Line(error)
    }
}

impl From<NotFound> for OpenError {
    fn from(NotFound: NotFound) -> Self {
        Self::NotFound
    }
}

/// Returns whether a port answers: on every model, the interrupt enable register keeps a written
/// pattern. It is 0 afterwards. The BCM2835's mini UART has two of its bits (BCM2835 ARM Peripherals,
/// AUX_MU_IER_REG).
///
/// On a PC, OUT2 gates interrupts. It is cleared first, because the patterns enable interrupts for
/// a moment. If no port answers, the modem control register is restored.
pub(crate) fn answers(port: &impl Registers, model: Model) -> bool {
    let modem_control = port.read8(MCR);
    port.write8(MCR, modem_control & (mcr::DTR | mcr::RTS));
    // DLAB would replace the IER with the divisor latch.
    port.write8(LCR, 0);
    let bits = match model {
        Model::Bcm2835Mini => 0b0011,
        _ => 0b1111,
    };
    let there = [0b0101, 0b1010, 0b0000].into_iter().all(|pattern| {
        port.write8(IER, pattern);
        port.read8(IER) & bits == pattern & bits
    });
    if !there {
        port.write8(MCR, modem_control);
    }
    there
}

/// Sets rate and frame, enables and clears the FIFOs, with `trigger` in the FIFO control register.
/// Returns whether the port has working FIFOs. Call it with the port's interrupts disabled.
pub(crate) fn program(
    port: &impl Registers,
    clock: &impl Clock,
    model: Model,
    line: &LineSettings,
    trigger: u8,
    limit: Nanos,
) -> Result<bool, OpenError> {
    let [low, high] = line.divisor()?.to_le_bytes();
    let divisor_latch = lcr::DLAB | line.lcr();
    let write_lcr = |value| write_lcr(port, clock, model, value, limit);
    write_lcr(divisor_latch)?;
    port.write8(DLL, low);
    port.write8(DLM, high);
    deepen_fifos(port, model, divisor_latch);
    write_lcr(line.lcr())?;
    Ok(enable_fifos(port, model, trigger))
}

/// Selects the deep FIFOs of the models that have a choice. Call it with DLAB set; `lcr` is the
/// value of the LCR.
fn deepen_fifos(port: &impl Registers, model: Model, lcr: u8) {
    match model {
        Model::Uart16750 => port.write8(FCR, fcr::ENABLE | fcr::FIFO_64),
        Model::Uart16950 => {
            // Its FIFOs are 128 bytes deep only in enhanced mode (OX16C950 data sheet, "Mode
            // selection").
            port.write8(LCR, lcr::ENHANCED);
            port.write8(EFR, efr::ENHANCED);
            port.write8(LCR, lcr);
        }
        _ => {}
    }
}

/// Enables the FIFOs. DLAB must be clear, because with it set some models have another register at
/// the FCR's offset.
fn enable_fifos(port: &impl Registers, model: Model, trigger: u8) -> bool {
    let fifos = fcr::ENABLE | fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT | trigger;
    match model {
        Model::Uart8250 | Model::Uart16450 | Model::Uart16550 | Model::Uart16650 => {
            port.write8(FCR, 0);
            return false;
        }
        // DLAB protects the bit from changes, but a model may accept it without DLAB.
        Model::Uart16750 => port.write8(FCR, fifos | fcr::FIFO_64),
        _ => port.write8(FCR, fifos),
    }
    // Only this read of the IIR is needed: interrupts are disabled, so it clears none.
    let there = port.read8(IIR) & iir::FIFOS == iir::FIFOS;
    if !there {
        // This is a 16450, or a 16550 whose FIFO loses bytes (PC16550D, section 8.6).
        port.write8(FCR, 0);
    }
    there
}

/// Writes the LCR. A busy DesignWare ignores the write (DW_apb_uart databook, LCR), and the divisor
/// would go to the transmitter. So clear its FIFOs and try again. Every model is checked, because a
/// DesignWare that is not named is reported as a 16550A. The status of a named one is also read,
/// which ends its busy interrupt.
fn write_lcr(
    port: &impl Registers,
    clock: &impl Clock,
    model: Model,
    value: u8,
    limit: Nanos,
) -> Result<(), OpenError> {
    // Some models have no parity, so its bits are not compared.
    // A mini UART is never busy, and QEMU's has no line control register.
    let is_kept = || model == Model::Bcm2835Mini || (port.read8(LCR) ^ value) & lcr::DLAB == 0;
    let taken = wait_until(clock, limit, || {
        port.write8(LCR, value);
        if is_kept() {
            return true;
        }
        port.write8(FCR, fcr::ENABLE | fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT);
        if model == Model::DesignWare {
            let _ = port.read32(DW_USR);
        }
        port.write8(LCR, value);
        is_kept()
    });
    taken.then_some(()).ok_or(OpenError::Busy)
}

/// Polls once a microsecond until `done`, for at most `limit`. Returns whether `done` returned true
/// in time.
pub(crate) fn wait_until(clock: &impl Clock, limit: Nanos, mut done: impl FnMut() -> bool) -> bool {
    if done() {
        return true;
    }
    if limit == Nanos::ZERO {
        return false;
    }
    let _held = Held::begin(StallCondition::PortSetup);
    let pause = Nanos::from_micros(1);
    let mut timeout = Timeout::new(clock.now(), limit);
    while !timeout.is_over() {
        clock.wait_until(clock.now() + pause);
        if done() {
            return true;
        }
        timeout.charge(clock.now(), pause);
    }
    false
}

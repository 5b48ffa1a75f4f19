//! Setting a port up, for the console and for the interrupt-driven port alike.

use core::fmt;

use nostall_io::{Clock, Nanos, Registers};

use crate::probe::Absent;
use crate::registers::{DLL, DLM, DW_USR, EFR, FCR, IER, IIR, LCR, efr, fcr, iir, lcr};
use crate::{LineError, LineSettings, Model};

/// The longest wait for a port that is to take our settings: a full FIFO at 9,600
/// baud, with room.
const LONGEST_WAIT: Nanos = Nanos::from_millis(20);

/// Why a port could not be taken over.
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

/// Whether somebody is there: the interrupt enables keep what is written to them,
/// on every model. They are left 0.
pub(crate) fn answers(port: &impl Registers) -> bool {
    // The divisor latch may be in their place.
    port.write8(LCR, 0);
    [0b0101, 0b1010, 0b0000].into_iter().all(|pattern| {
        port.write8(IER, pattern);
        port.read8(IER) & 0x0f == pattern
    })
}

/// Sets rate and frame, and enables and empties the FIFOs, with `trigger` in the
/// FIFO control register. Whether there are FIFOs that work. To be called with the
/// port's interrupts off.
pub(crate) fn program(
    port: &impl Registers,
    clock: &impl Clock,
    model: Model,
    line: &LineSettings,
    trigger: u8,
) -> Result<bool, OpenError> {
    let [low, high] = line.divisor()?.to_le_bytes();
    let divisor_latch = lcr::DLAB | line.lcr();
    write_lcr(port, clock, model, divisor_latch)?;
    port.write8(DLL, low);
    port.write8(DLM, high);
    let fifos = enable_fifos(port, model, trigger, divisor_latch);
    write_lcr(port, clock, model, line.lcr())?;
    Ok(fifos)
}

/// To be called with DLAB set, for the 16750; `lcr` is what the LCR holds.
fn enable_fifos(port: &impl Registers, model: Model, trigger: u8, lcr: u8) -> bool {
    let fifos = fcr::ENABLE | fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT | trigger;
    match model {
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
            port.write8(LCR, lcr);
            port.write8(FCR, fifos);
        }
        _ => port.write8(FCR, fifos),
    }
    // The one read of the IIR: our interrupts are off, there is none to lose.
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
) -> Result<(), OpenError> {
    let taken = wait_until(clock, || {
        port.write8(LCR, value);
        if model != Model::DesignWare || port.read8(LCR) == value {
            return true;
        }
        port.write8(FCR, fcr::ENABLE | fcr::CLEAR_RECEIVE | fcr::CLEAR_TRANSMIT);
        let _ = port.read32(DW_USR);
        false
    });
    taken.then_some(()).ok_or(OpenError::Busy)
}

/// Asks once a microsecond until `done`, 20 ms at most; whether that came in time.
pub(crate) fn wait_until(clock: &impl Clock, mut done: impl FnMut() -> bool) -> bool {
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

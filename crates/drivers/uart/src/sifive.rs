//! SiFive's UART.

use nostall_io::{Clock, Nanos, Registers};

use crate::hardware::{Identity, UartHardware};
use crate::registers::{lsr, msr};
use crate::{
    ConsoleSettings, DataBits, FlowControl, LineError, LineSettings, Model, OpenError, Parity,
    StopBits, TriggerLevel,
};

// Registers: SiFive FU540-C000 manual, chapter 13, table 42. Offsets in bytes, each a word.
const TXDATA: usize = 0x00;
const RXDATA: usize = 0x04;
const TXCTRL: usize = 0x08;
const RXCTRL: usize = 0x0c;
const IE: usize = 0x10;
const IP: usize = 0x14;
const DIV: usize = 0x18;

/// Enables a transmitter or a receiver (TXCTRL, RXCTRL).
const ENABLE: u32 = 1 << 0;
/// Two stop bits (TXCTRL).
const TWO_STOP_BITS: u32 = 1 << 1;
/// The watermark, and its position (TXCTRL, RXCTRL).
const WATERMARK: u32 = 0b111 << WATERMARK_SHIFT;
const WATERMARK_SHIFT: u32 = 16;
/// The transmit FIFO holds fewer bytes than its watermark (IE, IP).
const TRANSMIT: u32 = 1 << 0;
/// The receive FIFO holds more bytes than its watermark (IE, IP).
const RECEIVE: u32 = 1 << 1;

/// Window of a SiFive UART (SiFive FU540-C000 manual, chapter 13): frames of 8 bits without parity,
/// FIFOs of 8 bytes, no modem lines.
///
/// `R` is a window of 32-bit registers, at the byte offsets of the manual, as for a
/// [`Pl011`](crate::Pl011). No register shows that the last bit is on the line, so a flush waits for
/// two frames after the FIFO is empty.
#[derive(Clone, Copy, Debug)]
pub struct SifiveUart<R> {
    registers: R,
    clock: Option<u32>,
}

impl<R> SifiveUart<R> {
    /// Creates a UART whose input clock has `clock` hertz. Without `clock`, the line keeps the rate
    /// that the firmware has set. [`LineSettings::input_clock`] is not used.
    pub const fn new(registers: R, clock: Option<u32>) -> Self {
        Self { registers, clock }
    }

    /// Returns the register window.
    pub const fn registers(&self) -> &R {
        &self.registers
    }
}

impl<R: Registers> UartHardware for SifiveUart<R> {
    const ERRORS_IN_STATUS: bool = false;

    fn assume(&self, settings: &ConsoleSettings) -> Result<Identity, OpenError> {
        let line = &settings.line;
        match self.clock {
            Some(clock) => _ = divisor(line, clock)?,
            None if line.baud == 0 => return Err(LineError::Zero.into()),
            None => {}
        }
        if (line.data_bits, line.parity) != (DataBits::Eight, Parity::None) {
            return Err(OpenError::Frame);
        }
        if settings.rs485.is_some() || settings.flow_control != FlowControl::None {
            return Err(OpenError::NoModemLines);
        }
        let model = Model::Sifive;
        let transmit_load = model.transmit_load();
        Ok(Identity {
            model,
            transmit_load,
        })
    }

    fn identify(&self, settings: &ConsoleSettings) -> Result<Identity, OpenError> {
        let found = self.assume(settings)?;
        if !self.answers(found.model) {
            return Err(OpenError::NotFound);
        }
        Ok(found)
    }

    /// After a reset, the watermark is 0, and the FIFO is never below it.
    fn begin_open(&self) {
        let control = self.registers.read32(TXCTRL) & !WATERMARK;
        self.registers
            .write32(TXCTRL, control | 1 << WATERMARK_SHIFT);
    }

    /// Only the watermarks' bits are set in IP.
    fn answers(&self, _model: Model) -> bool {
        self.registers.read32(IP) & !(TRANSMIT | RECEIVE) == 0
    }

    fn configure(
        &self,
        _clock: &impl Clock,
        _model: Model,
        line: &LineSettings,
        _rts: bool,
        _limit: Nanos,
    ) -> Result<bool, OpenError> {
        let port = &self.registers;
        port.write32(IE, 0);
        if let Some(clock) = self.clock {
            port.write32(DIV, divisor(line, clock)? - 1);
        }
        let control = transmit_control(line);
        port.write32(TXCTRL, control);
        port.write32(RXCTRL, ENABLE);
        match port.read32(TXCTRL) == control {
            true => Ok(true),
            false => Err(OpenError::NotFound),
        }
    }

    fn is_configured(&self, _model: Model, line: &LineSettings) -> bool {
        self.registers.read32(TXCTRL) == transmit_control(line)
    }

    #[inline(always)]
    fn line_status(&self) -> u8 {
        let pending = self.registers.read32(IP);
        if pending == !0 {
            return !0;
        }
        let ready = if pending & TRANSMIT != 0 {
            lsr::THRE
        } else {
            0
        };
        let received = if pending & RECEIVE != 0 {
            lsr::DATA_READY
        } else {
            0
        };
        ready | received
    }

    fn reports_idle(&self) -> bool {
        false
    }

    fn modem_status(&self) -> u8 {
        msr::CTS
    }

    #[inline(always)]
    fn send(&self, byte: u8) {
        self.registers.write32(TXDATA, byte.into());
    }

    fn receive(&self) -> (u8, u8) {
        (self.registers.read32(RXDATA) as u8, 0)
    }

    /// The receive FIFO interrupts at each byte, because it has no timeout.
    fn set_receive(&self, _model: Model, _trigger: Option<TriggerLevel>, _receives: bool) {}

    fn enable_receive_interrupt(&self, _model: Model, is_enabled: bool) {
        self.registers
            .write32(IE, if is_enabled { RECEIVE } else { 0 });
    }

    fn set_rts(&self, _is_raised: bool, _receives: bool) {}

    /// A loss of power clears the transmitter's enable.
    fn detects_power_loss(&self, _model: Model) -> bool {
        true
    }

    fn has_kept_power(&self) -> bool {
        self.registers.read32(TXCTRL) & ENABLE != 0
    }
}

/// Returns the control register of a transmitter that reports an empty FIFO: fewer than one byte.
const fn transmit_control(line: &LineSettings) -> u32 {
    let stop = match line.stop_bits {
        StopBits::One => 0,
        StopBits::Two => TWO_STOP_BITS,
    };
    1 << WATERMARK_SHIFT | stop | ENABLE
}

/// Returns the number of input clock cycles of a bit, from 16 to 65,536 (chapter 13.9).
fn divisor(line: &LineSettings, clock: u32) -> Result<u32, LineError> {
    line.divide(clock.into(), 1, 16..=1 << 16)
}

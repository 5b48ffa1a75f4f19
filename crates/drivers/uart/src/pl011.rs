//! Arm's PL011, and the SBSA generic UART, which is its subset.

use nostall_io::{Clock, Nanos, Registers};

use crate::hardware::{Identity, UartHardware};
use crate::registers::pl011::{
    CR, DMACR, DR, FBRD, FR, IBRD, ICR, IFLS, IMSC, LCR_H, MIS, PCELL_ID, PCELL_IDS, PERIPH_ID, cr,
    dr, fr, int, lcr_h, periph_ids,
};
use crate::registers::{lsr, msr};
use crate::setup::wait_until;
use crate::{
    ConsoleSettings, DataBits, FlowControl, LineError, LineSettings, Model, OpenError, Parity,
    StopBits, TriggerLevel,
};

/// Window of a PL011 (Arm DDI 0183G), or of an SBSA generic UART.
///
/// `R` is a window of 32-bit registers, at the byte offsets of the data sheet. With
/// [`Mmio`](nostall_io::Mmio), that is a stride of 1 and any width of accesses. Pass the PL011 to
/// [`Console::open`](crate::Console::open) in place of a 16550's window:
///
/// ```no_run
/// use nostall_io::{Mmio, MmioLayout};
/// use nostall_uart::{Console, LineSettings, Pl011};
///
/// # fn start(clock: impl nostall_io::Clock) -> Result<(), nostall_uart::OpenError> {
/// /// Serial port of QEMU's Arm machine `virt`.
/// // SAFETY: the kernel maps it, and this driver uses no DMA.
/// static PORT: Mmio = unsafe { Mmio::at(0x0900_0000, 0x1000, MmioLayout::BYTES) };
///
/// let uart = Pl011::new(&PORT, Some(24_000_000));
/// let mut console = Console::open(uart, clock, LineSettings::baud(115_200))?;
/// console.write(b"nothing stalls\n");
/// # Ok(())
/// # }
/// ```
///
/// The identification registers must be those of Arm, and their revision tells the depth of the FIFOs.
/// Where they are missing, or a device tree's `arm,primecell-periphid` corrects them, name
/// [`Model::Pl011`] in the [settings](ConsoleSettings::model). The FIFOs then have 16 bytes, unless
/// [`transmit_load`](ConsoleSettings::transmit_load) says otherwise.
///
/// No register tells how many bytes the transmit FIFO holds. So the driver gives it a load when it is
/// empty, and computes when that will be. Transmit interrupts are not used.
#[derive(Clone, Copy, Debug)]
pub struct Pl011<R> {
    registers: R,
    line: Line,
}

/// Way in which the line gets its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// From an input clock of this rate, in hertz.
    Clock(u32),
    /// From the firmware, because the input clock is unknown.
    Firmware,
    /// From the firmware: the UART has no registers for it.
    Sbsa,
}

impl<R> Pl011<R> {
    /// Creates a PL011 whose input clock (UARTCLK) has `clock` hertz. A device tree's first `clocks`
    /// entry names it. [`LineSettings::input_clock`] is not used.
    ///
    /// Without `clock`, the line keeps the rate and the frame that the firmware has set. The rate in
    /// the settings should be that rate: pacing starts from it, and then learns the line's own.
    pub const fn new(registers: R, clock: Option<u32>) -> Self {
        let line = match clock {
            Some(hz) => Line::Clock(hz),
            None => Line::Firmware,
        };
        Self { registers, line }
    }

    /// Creates an SBSA generic UART (Arm DEN0029, "Generic UART"): a PL011 with FIFOs of 32 bytes, and
    /// without registers for line, modem and FIFOs. The firmware has enabled it.
    pub const fn sbsa(registers: R) -> Self {
        let line = Line::Sbsa;
        Self { registers, line }
    }

    /// Returns the register window.
    pub const fn registers(&self) -> &R {
        &self.registers
    }
}

impl<R: Registers> Pl011<R> {
    fn flags(&self) -> u32 {
        self.registers.read32(FR)
    }

    /// Returns four identification registers, from `first` on.
    fn ids(&self, first: usize) -> [u8; 4] {
        [0, 4, 8, 12].map(|offset| self.registers.read32(first + offset) as u8)
    }

    /// Takes the bytes of the last user, because the receive interrupt comes when the fill *rises* to
    /// its level. The limit is two FIFOs.
    fn empty_receiver(&self) {
        for _ in 0..2 * Model::SbsaUart.fifo_depth() {
            if self.flags() & fr::RXFE != 0 {
                break;
            }
            self.registers.read32(DR);
        }
    }

    /// Returns the control register's value while the UART sends and receives.
    const fn control(rts: bool) -> u32 {
        let rts = if rts { cr::RTS } else { 0 };
        cr::UARTEN | cr::TXE | cr::RXE | cr::DTR | rts
    }
}

impl<R: Registers> UartHardware for Pl011<R> {
    const ERRORS_IN_STATUS: bool = false;

    fn assume(&self, settings: &ConsoleSettings) -> Result<Identity, OpenError> {
        if let Line::Clock(clock) = self.line {
            divisor(&settings.line, clock)?;
        } else if settings.line.baud == 0 {
            return Err(LineError::Zero.into());
        }
        let has_modem = self.line != Line::Sbsa;
        if !has_modem && (settings.rs485.is_some() || settings.flow_control != FlowControl::None) {
            return Err(OpenError::NoModemLines);
        }
        let model = match self.line {
            Line::Sbsa => Model::SbsaUart,
            _ => Model::Pl011,
        };
        Ok(Identity {
            model,
            transmit_load: model.transmit_load(),
        })
    }

    fn identify(&self, settings: &ConsoleSettings) -> Result<Identity, OpenError> {
        let mut found = self.assume(settings)?;
        if !self.answers(found.model) {
            return Err(OpenError::NotFound);
        }
        if self.line == Line::Sbsa || settings.model == Some(Model::Pl011) {
            return Ok(found);
        }
        let ids = self.ids(PERIPH_ID);
        let revision = ids[2] >> 4;
        if ids != periph_ids(revision) || self.ids(PCELL_ID) != PCELL_IDS {
            return Err(OpenError::NotFound);
        }
        // Revision r1p5 has number 3, and FIFOs of 32 bytes (Table 3-21, section 2.4.3).
        if revision >= 3 {
            found.transmit_load = 32;
        }
        Ok(found)
    }

    fn answers(&self, _model: Model) -> bool {
        self.line_status() != !0
    }

    fn configure(
        &self,
        clock: &impl Clock,
        _model: Model,
        line: &LineSettings,
        rts: bool,
        limit: Nanos,
    ) -> Result<bool, OpenError> {
        let port = &self.registers;
        let divisor = match self.line {
            Line::Clock(clock) => Some(divisor(line, clock)?),
            Line::Firmware | Line::Sbsa => None,
        };
        port.write32(IMSC, 0);
        if self.line == Line::Sbsa {
            port.write32(ICR, int::ALL);
            self.empty_receiver();
            return Ok(true);
        }
        // The order is that of DDI 0183G, 3.3.8 ("Control register"): disable, let the character end,
        // flush the FIFO, change.
        let kept = port.read32(LCR_H);
        port.write32(CR, 0);
        port.write32(LCR_H, kept & !lcr_h::FEN);
        // A UART whose BUSY is stuck may still send.
        let _ = wait_until(clock, limit, || self.flags() & fr::BUSY == 0);
        let frame = match divisor {
            Some(divisor) => {
                port.write32(IBRD, divisor >> 6);
                port.write32(FBRD, divisor & 0x3f);
                frame(line)
            }
            None => kept | lcr_h::FEN,
        };
        // This write takes the divisor over (DDI 0183G, 3.3.6).
        port.write32(LCR_H, frame);
        port.write32(DMACR, 0);
        port.write32(ICR, int::ALL);
        port.write32(CR, Self::control(rts));
        self.empty_receiver();
        // After a loss of power in here, the set-up is repeated.
        let is_kept = divisor.is_none_or(|set| port.read32(IBRD) << 6 | port.read32(FBRD) == set);
        Ok(is_kept && port.read32(LCR_H) & lcr_h::FEN != 0)
    }

    fn is_configured(&self, _model: Model, line: &LineSettings) -> bool {
        let enabled = cr::UARTEN | cr::TXE;
        match self.line {
            Line::Sbsa => true,
            Line::Firmware => self.registers.read32(CR) & (enabled | cr::LBE) == enabled,
            Line::Clock(_) => {
                self.registers.read32(CR) & (enabled | cr::LBE) == enabled
                    && self.registers.read32(LCR_H) & 0xff == frame(line)
            }
        }
    }

    /// An empty FIFO takes a load. BUSY is set as soon as the FIFO is not empty (DDI 0183G, 3.3.3). So
    /// a UART that is neither empty nor busy has disappeared, and reads zeros.
    #[inline(always)]
    fn line_status(&self) -> u8 {
        let flags = self.flags();
        if flags == !0 || flags & (fr::TXFE | fr::BUSY | fr::RXFE) == 0 {
            return !0;
        }
        let ready = match flags & (fr::TXFE | fr::BUSY) {
            fr::TXFE => lsr::THRE | lsr::TEMT,
            both if both & fr::TXFE != 0 => lsr::THRE,
            _ => 0,
        };
        let received = flags & fr::RXFE == 0;
        ready | if received { lsr::DATA_READY } else { 0 }
    }

    fn modem_status(&self) -> u8 {
        let clear = self.flags() & fr::CTS != 0;
        if clear { msr::CTS } else { 0 }
    }

    #[inline(always)]
    fn send(&self, byte: u8) {
        self.registers.write32(DR, byte.into());
    }

    fn receive(&self) -> (u8, u8) {
        let character = self.registers.read32(DR);
        let errors = [
            (dr::OVERRUN, lsr::OVERRUN),
            (dr::BREAK, lsr::BREAK),
            (dr::PARITY, lsr::PARITY),
            (dr::FRAMING, lsr::FRAMING),
        ];
        let seen = |(here, there)| if character & here != 0 { there } else { 0 };
        let errors = errors.into_iter().map(seen).fold(0, |all, one| all | one);
        (character as u8, errors)
    }

    fn set_receive(&self, _model: Model, trigger: Option<TriggerLevel>, _receives: bool) {
        let Some(trigger) = trigger.filter(|_| self.line != Line::Sbsa) else {
            return;
        };
        let level: u32 = match trigger {
            TriggerLevel::Byte => 0,
            TriggerLevel::Quarter => 1,
            TriggerLevel::Half => 2,
            TriggerLevel::NearlyFull => 4,
        };
        // The level of transmit interrupts, which are not used, becomes an eighth.
        self.registers.write32(IFLS, level << 3);
    }

    fn enable_receive_interrupt(&self, _model: Model, is_enabled: bool) {
        let enables = if is_enabled { int::RX | int::RT } else { 0 };
        self.registers.write32(IMSC, enables);
    }

    /// Whether the timeout comes again for a byte that came before this clear is not specified.
    fn end_empty_interrupt(&self, _model: Model) -> bool {
        let is_raised = self.registers.read32(MIS) & int::RT != 0;
        if is_raised {
            self.registers.write32(ICR, int::RT);
        }
        is_raised
    }

    fn set_rts(&self, is_raised: bool, _receives: bool) {
        self.registers.write32(CR, Self::control(is_raised));
    }

    /// A loss of power disables the UART. Without a clock, its rate could not be set again.
    fn detects_power_loss(&self, _model: Model) -> bool {
        matches!(self.line, Line::Clock(_))
    }

    fn has_kept_power(&self) -> bool {
        self.registers.read32(CR) & cr::UARTEN != 0
    }
}

/// Returns the divisor in units of 1/64: the nearest to `clock / (16 * baud)` (DDI 0183G, 3.3.6).
fn divisor(line: &LineSettings, clock: u32) -> Result<u32, LineError> {
    // From 1 to 65,535, without a fraction at the largest.
    line.divide(u64::from(clock) * 4, 1, 1 << 6..=0xffff << 6)
}

/// Returns the line control register's value: the frame, with FIFOs.
fn frame(line: &LineSettings) -> u32 {
    let data = match line.data_bits {
        DataBits::Five => 0,
        DataBits::Six => 1,
        DataBits::Seven => 2,
        DataBits::Eight => 3,
    };
    let stop = match line.stop_bits {
        StopBits::One => 0,
        StopBits::Two => lcr_h::STP2,
    };
    let parity = match line.parity {
        Parity::None => 0,
        Parity::Odd => lcr_h::PEN,
        Parity::Even => lcr_h::PEN | lcr_h::EPS,
        Parity::Mark => lcr_h::PEN | lcr_h::SPS,
        Parity::Space => lcr_h::PEN | lcr_h::EPS | lcr_h::SPS,
    };
    data << lcr_h::WLEN.trailing_zeros() | stop | parity | lcr_h::FEN
}

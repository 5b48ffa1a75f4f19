//! Hardware faults of serial ports.

use std::cell::Cell;
use std::io::Write;

use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::{LSR, MSR, lsr, msr};
use strum::{Display, EnumString, IntoStaticStr};

use crate::uart::Uart;

/// A fault of a serial port; parsed from its [`name`](Self::name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Fault {
    /// The line status never shows the transmitter ready.
    #[strum(serialize = "stuck-lsr")]
    StuckStatus,
    /// Every read returns all ones and every write is lost: no power, or no device.
    AllOnes,
    /// The other end deasserts CTS permanently.
    NoCts,
    /// The transmit FIFO accepts half of its advertised bytes and loses the rest.
    ShortFifo,
    /// The port loses power for a moment. Its registers are as after a reset and its FIFOs are
    /// empty; then it works again.
    PowerLoss,
    /// Each read takes [`SLOW_READ`](Self::SLOW_READ) longer.
    SlowReads,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 6] = [
        Self::StuckStatus,
        Self::AllOnes,
        Self::NoCts,
        Self::ShortFifo,
        Self::PowerLoss,
        Self::SlowReads,
    ];

    /// Extra duration of a slow read: about four times the slowest read measured in Costa,
    /// "Improving the Kernel TTY throughput" (12.8 us).
    pub const SLOW_READ: Nanos = Nanos::from_micros(50);

    /// Returns the stable kebab-case name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the value that a read of the register at `offset` returns instead of `value`.
    pub(crate) const fn shown(self, offset: usize, value: u8) -> u8 {
        match (self, offset) {
            (Self::StuckStatus, LSR) => value & !(lsr::THRE | lsr::TEMT),
            (Self::NoCts, MSR) => value & !msr::CTS,
            (Self::AllOnes, _) => !0,
            _ => value,
        }
    }

    /// Applies the fault's one-time change to the port's state.
    pub(crate) fn begin<C: Clock, W: Write>(self, uart: &mut Uart<C, W>) {
        match self {
            Self::NoCts => uart.set_modem_lines(uart.modem_lines() & !msr::CTS),
            Self::ShortFifo => uart.shorten_fifo(),
            Self::PowerLoss => uart.reset(),
            Self::StuckStatus | Self::AllOnes | Self::SlowReads => {}
        }
    }

    /// Returns whether changing register reads, outside the port, is enough for the fault.
    const fn shows_outside(self) -> bool {
        matches!(self, Self::StuckStatus | Self::AllOnes | Self::NoCts)
    }
}

/// A register window that fails after a number of accesses, around any device.
///
/// It supports only the faults that change register reads: [`Fault::StuckStatus`],
/// [`Fault::AllOnes`] and [`Fault::NoCts`]. The model supports all faults:
/// [`VirtualPort::with_fault`](crate::uart::VirtualPort::with_fault).
#[derive(Debug)]
pub struct Faulty<R> {
    inner: R,
    fault: Fault,
    countdown: Countdown,
}

impl<R: Registers> Faulty<R> {
    /// Wraps `inner`, which fails after `good` accesses.
    ///
    /// # Panics
    ///
    /// If only the model supports the fault.
    pub const fn after(good: u64, fault: Fault, inner: R) -> Self {
        assert!(
            fault.shows_outside(),
            "only the model supports this fault: use VirtualPort::with_fault"
        );
        Self {
            inner,
            fault,
            countdown: Countdown::new(good),
        }
    }

    /// Returns the wrapped window.
    pub const fn inner(&self) -> &R {
        &self.inner
    }

    /// Makes the device work for `good` more accesses.
    pub fn recover_for(&self, good: u64) {
        self.countdown.good.set(good);
    }
}

impl<R: Registers> Registers for Faulty<R> {
    fn read8(&self, offset: usize) -> u8 {
        let value = self.inner.read8(offset);
        if self.countdown.fails() {
            self.fault.shown(offset, value)
        } else {
            value
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        if !self.countdown.fails() || self.fault != Fault::AllOnes {
            self.inner.write8(offset, value);
        }
    }

    /// Returns the instructions of a burst on the wrapped device. The fault can begin inside a
    /// burst.
    fn burst_instructions(&self, values: usize) -> usize {
        self.inner.burst_instructions(values)
    }
}

/// Number of accesses until a fault.
#[derive(Debug)]
pub(crate) struct Countdown {
    good: Cell<u64>,
}

impl Countdown {
    pub(crate) const fn new(good: u64) -> Self {
        Self {
            good: Cell::new(good),
        }
    }

    /// Counts one access and returns whether it fails.
    pub(crate) fn fails(&self) -> bool {
        match self.good.get() {
            0 => true,
            good => {
                self.good.set(good - 1);
                false
            }
        }
    }
}

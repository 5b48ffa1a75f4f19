//! Hardware that fails.

use std::cell::Cell;
use std::io::Write;

use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::{LSR, MSR, lsr, msr};
use strum::{Display, EnumString, IntoStaticStr};

use crate::uart::Uart;

/// A way for a serial port to fail; parsed from its [`name`](Self::name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Fault {
    /// The line status never shows the transmitter ready.
    #[strum(serialize = "stuck-lsr")]
    StuckStatus,
    /// Every read gives all ones and every write is lost: no power, no device.
    AllOnes,
    /// The other end drops CTS, for good.
    NoCts,
    /// The transmit FIFO accepts half of its advertised bytes; the rest is lost.
    ShortFifo,
    /// The port loses its power for a moment: its registers are as after a
    /// reset, its FIFOs empty. Afterwards it works.
    PowerLoss,
    /// Each read takes [`SLOW_READ`](Self::SLOW_READ) more.
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

    /// Extra time of a slow read: four times the slowest read that was measured on the slow machine
    /// ("Improving the Kernel TTY throughput": 12.8 us).
    pub const SLOW_READ: Nanos = Nanos::from_micros(50);

    /// Returns the stable word.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the value that a read of the register returns instead of `value`.
    pub(crate) const fn shown(self, offset: usize, value: u8) -> u8 {
        match (self, offset) {
            (Self::StuckStatus, LSR) => value & !(lsr::THRE | lsr::TEMT),
            (Self::NoCts, MSR) => value & !msr::CTS,
            (Self::AllOnes, _) => !0,
            _ => value,
        }
    }

    /// Changes the port's own state when the fault begins.
    pub(crate) fn begin<C: Clock, W: Write>(self, uart: &mut Uart<C, W>) {
        match self {
            Self::NoCts => uart.set_modem_lines(uart.modem_lines() & !msr::CTS),
            Self::ShortFifo => uart.shorten_fifo(),
            Self::PowerLoss => uart.reset(),
            Self::StuckStatus | Self::AllOnes | Self::SlowReads => {}
        }
    }

    /// Returns whether the fault can be made outside the port, by changing the values of its
    /// registers.
    const fn shows_outside(self) -> bool {
        matches!(self, Self::StuckStatus | Self::AllOnes | Self::NoCts)
    }
}

/// A window onto any device that fails after some accesses.
///
/// It can only change the values of register reads: [`Fault::StuckStatus`], [`Fault::AllOnes`] and
/// [`Fault::NoCts`]. The model has all of them:
/// [`VirtualPort::with_fault`](crate::uart::VirtualPort::with_fault).
#[derive(Debug)]
pub struct Faulty<R> {
    inner: R,
    fault: Fault,
    countdown: Countdown,
}

impl<R: Registers> Faulty<R> {
    /// Works for `good` accesses, then fails.
    ///
    /// # Panics
    ///
    /// If the fault is one that only the model can have.
    pub const fn after(good: u64, fault: Fault, inner: R) -> Self {
        assert!(
            fault.shows_outside(),
            "only the model has this fault: VirtualPort::with_fault"
        );
        Self {
            inner,
            fault,
            countdown: Countdown::new(good),
        }
    }

    /// The window behind the fault.
    pub const fn inner(&self) -> &R {
        &self.inner
    }

    /// Works again for `good` accesses.
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

    /// One instruction, as on the device's own bus; it may fail in the middle.
    fn burst_instructions(&self, values: usize) -> usize {
        self.inner.burst_instructions(values)
    }
}

/// Accesses until something fails.
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

    /// Whether this access fails.
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

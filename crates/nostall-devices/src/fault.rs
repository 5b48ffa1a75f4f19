//! Hardware that fails.

use std::cell::Cell;

use nostall_io::Registers;
use nostall_uart::registers::{LSR, lsr};

/// A way for a serial port to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The line status never shows the transmitter ready.
    StuckStatus,
    /// Every read gives all ones and every write is lost: no power, no device.
    AllOnes,
}

/// A window onto a device that fails after some accesses.
#[derive(Debug)]
pub struct Faulty<R> {
    inner: R,
    fault: Fault,
    /// Accesses until it fails.
    good: Cell<u64>,
}

impl<R: Registers> Faulty<R> {
    /// Works for `good` accesses, then fails.
    pub const fn after(good: u64, fault: Fault, inner: R) -> Self {
        Self {
            inner,
            fault,
            good: Cell::new(good),
        }
    }

    /// Works again for `good` accesses.
    pub fn recover_for(&self, good: u64) {
        self.good.set(good);
    }

    fn fails(&self) -> bool {
        match self.good.get() {
            0 => true,
            good => {
                self.good.set(good - 1);
                false
            }
        }
    }
}

impl<R: Registers> Registers for Faulty<R> {
    fn read8(&self, offset: usize) -> u8 {
        let value = self.inner.read8(offset);
        match self.fault {
            _ if !self.fails() => value,
            Fault::StuckStatus if offset == LSR => value & !(lsr::THRE | lsr::TEMT),
            Fault::StuckStatus => value,
            Fault::AllOnes => !0,
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        if !self.fails() || self.fault == Fault::StuckStatus {
            self.inner.write8(offset, value);
        }
    }

    /// One instruction, as on the device's own bus; it may fail in the middle.
    fn burst_instructions(&self, values: usize) -> usize {
        self.inner.burst_instructions(values)
    }
}

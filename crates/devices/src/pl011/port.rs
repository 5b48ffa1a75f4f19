//! A port in virtual time, as seen by a driver, and its faults.

use std::cell::{Cell, RefCell};
use std::io::Write;

use nostall_io::Registers;
use strum::{Display, EnumString, IntoStaticStr};

use super::registers::{FR, fr};
use super::{Pl011, Profile};
use crate::VirtualClock;
use crate::fault::Countdown;

/// A [`Pl011`] on a bus in virtual time.
///
/// Each access takes the profile's time, at any width. An access of 8 or 16 bits has those bits of
/// the register; a write's upper bits are 0.
#[derive(Debug)]
pub struct VirtualPort<W> {
    uart: RefCell<Pl011<VirtualClock, W>>,
    clock: VirtualClock,
    profile: Profile,
    fault: Option<(Fault, Countdown)>,
    begun: Cell<bool>,
}

/// A fault of a PL011; parsed from its [`name`](Self::name).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Fault {
    /// The flag register always shows BUSY.
    StuckBusy,
    /// The transmitter takes no more bytes from its FIFO.
    NeverEmpty,
    /// Every read returns all ones and every write is lost: no power, or no device.
    AllOnes,
    /// Every read returns zeros and every write is lost.
    AllZeros,
    /// The port loses power for a moment. Its registers are as after a reset and its FIFOs are
    /// empty; then it works again.
    PowerLoss,
}

impl Fault {
    /// Every fault.
    pub const ALL: [Self; 5] = [
        Self::StuckBusy,
        Self::NeverEmpty,
        Self::AllOnes,
        Self::AllZeros,
        Self::PowerLoss,
    ];

    /// Returns the stable kebab-case name.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the value that a read of the register at `offset` returns instead of `value`.
    const fn shown(self, offset: usize, value: u32) -> u32 {
        match self {
            Self::StuckBusy if offset == FR => value | fr::BUSY,
            Self::AllOnes => !0,
            Self::AllZeros => 0,
            _ => value,
        }
    }
}

impl<W: Write> Pl011<VirtualClock, W> {
    /// Creates a port with the chip, line and costs of `profile`, and the clock that its accesses
    /// advance. Sent bytes are written to `sink`.
    pub fn in_virtual_time(profile: Profile, sink: W) -> (VirtualPort<W>, VirtualClock) {
        let clock = VirtualClock::new();
        let uart = Self::new(profile.chip, clock.clone(), profile.line, sink);
        let port = VirtualPort {
            uart: RefCell::new(uart),
            clock: clock.clone(),
            profile,
            fault: None,
            begun: Cell::new(false),
        };
        (port, clock)
    }
}

impl<W: Write> Registers for VirtualPort<W> {
    fn read8(&self, offset: usize) -> u8 {
        self.read32(offset) as u8
    }

    fn write8(&self, offset: usize, value: u8) {
        self.write32(offset, value.into());
    }

    fn read16(&self, offset: usize) -> u16 {
        self.read32(offset) as u16
    }

    fn write16(&self, offset: usize, value: u16) {
        self.write32(offset, value.into());
    }

    fn read32(&self, offset: usize) -> u32 {
        let fault = self.access();
        let value = match fault {
            Some(Fault::AllOnes | Fault::AllZeros) => 0,
            _ => self.uart.borrow_mut().read(offset),
        };
        fault.map_or(value, |fault| fault.shown(offset, value))
    }

    fn write32(&self, offset: usize, value: u32) {
        if !matches!(self.access(), Some(Fault::AllOnes | Fault::AllZeros)) {
            self.uart.borrow_mut().write(offset, value);
        }
    }
}

impl<W: Write> VirtualPort<W> {
    /// Injects `fault` after `after` accesses. A second call replaces the fault of the first.
    #[must_use]
    pub fn with_fault(self, after: u64, fault: Fault) -> Self {
        Self {
            fault: Some((fault, Countdown::new(after))),
            begun: Cell::new(false),
            ..self
        }
    }

    /// Gives the host's side access to the model, at no cost in time.
    pub fn with<T>(&self, f: impl FnOnce(&mut Pl011<VirtualClock, W>) -> T) -> T {
        f(&mut self.uart.borrow_mut())
    }

    /// Returns the sink. Bytes that have not left the port are lost.
    pub fn into_sink(self) -> W {
        self.uart.into_inner().into_sink()
    }

    /// Advances the clock by the time of one access, and returns the fault that applies to it.
    fn access(&self) -> Option<Fault> {
        self.clock.advance(self.profile.access);
        let (fault, countdown) = self.fault.as_ref()?;
        if !countdown.fails() {
            return None;
        }
        if !self.begun.replace(true) {
            match fault {
                Fault::NeverEmpty => self.uart.borrow_mut().halt(),
                Fault::PowerLoss => self.uart.borrow_mut().reset(),
                _ => {}
            }
        }
        Some(*fault)
    }
}

//! A port in virtual time, as seen by a driver.

use std::cell::{Cell, RefCell};
use std::io::Write;

use nostall_io::Registers;
use nostall_uart::Model;

use super::{Chip, Profile, Uart};
use crate::fault::Countdown;
use crate::{Fault, VirtualClock};

/// A [`Uart`] on a bus in virtual time.
///
/// Each access takes the profile's time. A burst is one instruction, as `rep outsb` is on a PC. A
/// 32-bit access is one access to a DesignWare, whose registers are words. It is four accesses to
/// any other model (see [`Uart::read32`]).
#[derive(Debug)]
pub struct VirtualPort<W> {
    uart: RefCell<Uart<VirtualClock, W>>,
    clock: VirtualClock,
    profile: Profile,
    accesses: Cell<u64>,
    fault: Option<Planned>,
}

/// A fault that has not begun yet, and its countdown.
#[derive(Debug)]
struct Planned {
    fault: Fault,
    countdown: Countdown,
    begun: Cell<bool>,
}

impl<W: Write> Uart<VirtualClock, W> {
    /// Creates a 16550A with the timing of `profile`, and the clock that its accesses advance. Sent
    /// bytes are written to `sink`.
    pub fn in_virtual_time(profile: Profile, sink: W) -> (VirtualPort<W>, VirtualClock) {
        Self::in_virtual_time_as(Model::Uart16550A, profile, sink)
    }

    /// Creates a port like [`in_virtual_time`](Self::in_virtual_time), with another chip.
    pub fn in_virtual_time_as(
        chip: impl Into<Chip>,
        profile: Profile,
        sink: W,
    ) -> (VirtualPort<W>, VirtualClock) {
        let clock = VirtualClock::new();
        let port = VirtualPort {
            uart: RefCell::new(Self::of(chip, clock.clone(), profile.line, sink)),
            clock: clock.clone(),
            profile,
            accesses: Cell::new(0),
            fault: None,
        };
        (port, clock)
    }
}

impl<W: Write> Registers for VirtualPort<W> {
    fn read8(&self, offset: usize) -> u8 {
        let fault = self.access();
        if fault == Some(Fault::SlowReads) {
            self.clock.advance(Fault::SLOW_READ);
        }
        let value = self.uart.borrow_mut().read(offset);
        fault.map_or(value, |fault| fault.shown(offset, value))
    }

    fn write8(&self, offset: usize, value: u8) {
        if self.access() != Some(Fault::AllOnes) {
            self.uart.borrow_mut().write(offset, value);
        }
    }

    fn read32(&self, offset: usize) -> u32 {
        if !self.is_of_words() {
            return u32::from_le_bytes([0, 1, 2, 3].map(|i| self.read8(offset.wrapping_add(i))));
        }
        let fault = self.access();
        if fault == Some(Fault::SlowReads) {
            self.clock.advance(Fault::SLOW_READ);
        }
        let value = self.uart.borrow_mut().read32(offset);
        match fault {
            Some(Fault::AllOnes) => !0,
            Some(fault) => value & !0xff | u32::from(fault.shown(offset, value as u8)),
            None => value,
        }
    }

    fn write32(&self, offset: usize, value: u32) {
        if self.is_of_words() {
            self.write8(offset, value as u8);
            return;
        }
        for (i, byte) in value.to_le_bytes().into_iter().enumerate() {
            self.write8(offset.wrapping_add(i), byte);
        }
    }

    fn burst_instructions(&self, _values: usize) -> usize {
        1
    }
}

impl<W: Write> VirtualPort<W> {
    /// Injects `fault` after `after` accesses.
    ///
    /// All faults are supported. A second call replaces the fault of the first.
    #[must_use]
    pub fn with_fault(self, after: u64, fault: Fault) -> Self {
        Self {
            fault: Some(Planned {
                fault,
                countdown: Countdown::new(after),
                begun: Cell::new(false),
            }),
            ..self
        }
    }

    /// Gives the host's side access to the model, at no cost in time.
    pub fn with<T>(&self, f: impl FnOnce(&mut Uart<VirtualClock, W>) -> T) -> T {
        f(&mut self.uart.borrow_mut())
    }

    /// Returns the sink. Bytes that have not left the port are lost.
    pub fn into_sink(self) -> W {
        self.uart.into_inner().into_sink()
    }

    /// Advances the clock by the time of one access, and returns the fault that applies to it.
    fn access(&self) -> Option<Fault> {
        let count = self.accesses.get().wrapping_add(1);
        self.accesses.set(count);
        self.clock.advance(self.profile.access_time(count));
        let planned = self.fault.as_ref()?;
        if !planned.countdown.fails() {
            return None;
        }
        if !planned.begun.replace(true) {
            planned.fault.begin(&mut self.uart.borrow_mut());
        }
        // The model itself applies this fault, which loopback hides.
        Some(planned.fault).filter(|&fault| fault != Fault::NoCts)
    }

    fn is_of_words(&self) -> bool {
        self.uart.borrow().chip().model() == Model::DesignWare
    }
}

//! A port in virtual time, as a driver sees it.

use std::cell::RefCell;
use std::io::Write;

use nostall_io::{Nanos, Registers};

use super::{Profile, Uart};
use crate::VirtualClock;

/// A [`Uart`] on a PC's bus in virtual time: each access takes its profile's
/// time, and a burst is one instruction, as `rep outsb` is.
#[derive(Debug)]
pub struct VirtualPort<W> {
    uart: RefCell<Uart<VirtualClock, W>>,
    clock: VirtualClock,
    access: Nanos,
}

impl<W: Write> Uart<VirtualClock, W> {
    /// A port that behaves and costs as `profile` says, and the clock that its
    /// accesses advance. What it sends goes to `sink`.
    pub fn in_virtual_time(profile: Profile, sink: W) -> (VirtualPort<W>, VirtualClock) {
        let clock = VirtualClock::new();
        let port = VirtualPort {
            uart: RefCell::new(Self::new(clock.clone(), profile.line, sink)),
            clock: clock.clone(),
            access: profile.access,
        };
        (port, clock)
    }
}

impl<W: Write> VirtualPort<W> {
    /// Lets the host's end look at or act on the model, at no cost in time.
    pub fn with<T>(&self, f: impl FnOnce(&mut Uart<VirtualClock, W>) -> T) -> T {
        f(&mut self.uart.borrow_mut())
    }

    /// Where the sent bytes went, once the port is no longer needed. What had
    /// not left the port is lost.
    pub fn into_sink(self) -> W {
        self.uart.into_inner().into_sink()
    }
}

impl<W: Write> Registers for VirtualPort<W> {
    fn read8(&self, offset: usize) -> u8 {
        self.clock.advance(self.access);
        self.uart.borrow_mut().read(offset)
    }

    fn write8(&self, offset: usize, value: u8) {
        self.clock.advance(self.access);
        self.uart.borrow_mut().write(offset, value);
    }

    fn burst_instructions(&self, _values: usize) -> usize {
        1
    }
}

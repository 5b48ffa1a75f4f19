//! Drivers that others wrote, to be measured beside ours.

#![expect(unsafe_code, reason = "uart_16550 wants a promise about its backend")]

use nostall_io::{Clock, Nanos, Registers};
use uart_16550::backend::Backend;
use uart_16550::spec::registers::LSR;
use uart_16550::{Config, Uart16550};

/// Our window as that crate's backend.
struct PeerBackend<R>(R);

impl<R: Registers> Backend for PeerBackend<R> {
    unsafe fn read(&mut self, offset: u8) -> u8 {
        self.0.read8(offset.into())
    }

    unsafe fn write(&mut self, offset: u8, value: u8) {
        self.0.write8(offset.into(), value);
    }
}

/// The `uart_16550` crate's driver, as it sets itself up: 115,200 baud, FIFOs on.
pub(crate) struct Peer<R: Registers>(Uart16550<PeerBackend<R>>);

impl<R: Registers> Peer<R> {
    /// Takes the port over; `None` if it does not want it.
    pub(crate) fn open(registers: R) -> Option<Self> {
        // SAFETY: a window answers any offset, for as long as it lives.
        let mut uart = unsafe { Uart16550::new_with_backend(PeerBackend(registers)) };
        uart.init(Config::default()).ok()?;
        Some(Self(uart))
    }

    /// Sends all of `text` and waits until it has left, as our console does.
    /// Its own loop has no bound, so its steps are taken here. Returns what it
    /// took within `bound`.
    pub(crate) fn send(&mut self, text: &[u8], clock: &impl Clock, bound: Nanos) -> usize {
        let deadline = clock.now() + bound;
        let mut sent = 0;
        while sent < text.len() {
            match self.0.send_bytes(&text[sent..]) {
                0 if clock.now() > deadline => return sent,
                0 => clock.wait_until(clock.now() + Nanos::from_micros(1)),
                n => sent += n,
            }
        }
        while !self.0.lsr().contains(LSR::TRANSMITTER_EMPTY) && clock.now() < deadline {
            clock.wait_until(clock.now() + Nanos::from_micros(1));
        }
        sent
    }
}

//! Drivers of other crates, measured beside nostall's.

#![expect(unsafe_code, reason = "uart_16550 wants a promise about its backend")]

use nostall_io::{Clock, Nanos, Registers};
use uart_16550::backend::Backend;
use uart_16550::spec::registers::LSR;
use uart_16550::{BaudRate, Config, Uart16550};

/// A register window as a backend of `uart_16550`.
struct PeerBackend<R>(R);

impl<R: Registers> Backend for PeerBackend<R> {
    unsafe fn read(&mut self, offset: u8) -> u8 {
        self.0.read8(offset.into())
    }

    unsafe fn write(&mut self, offset: u8, value: u8) {
        self.0.write8(offset.into(), value);
    }
}

/// The `uart_16550` crate's driver with its default setup, at the rate of the other strategies.
pub(crate) struct Peer<R: Registers>(Uart16550<PeerBackend<R>>);

impl<R: Registers> Peer<R> {
    /// Sets up the port; `None` if the driver refuses it.
    pub(crate) fn open(registers: R) -> Option<Self> {
        // SAFETY: a register window accepts any offset while it exists.
        let mut uart = unsafe { Uart16550::new_with_backend(PeerBackend(registers)) };
        let config = Config {
            baud_rate: BaudRate::Baud115200,
            ..Config::DEFAULT
        };
        uart.init(config).ok()?;
        Some(Self(uart))
    }

    /// Sends all of `text` and waits until it has left, as nostall's console does.
    ///
    /// The driver's own loop has no bound, so its steps are called here. Returns the number of
    /// bytes sent within `bound`.
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

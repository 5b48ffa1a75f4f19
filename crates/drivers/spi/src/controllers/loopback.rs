//! Controller without hardware, to measure and to try the bus.

use embedded_hal::spi::Operation;

use crate::capabilities::Capabilities;
use crate::controller::{AsyncController, Controller, Level, Progress};
use crate::error::Fault;
use crate::settings::Wire;
use crate::words::Words;

/// Controller with connected data wires, whose transfers take no time: it receives the bytes that
/// it sends. It supports everything, and has 255 chip-select lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loopback;

impl Controller for Loopback {
    fn capabilities(&self) -> Capabilities {
        Capabilities::all(255)
    }

    #[inline]
    fn set(&mut self, wire: &Wire) -> Result<u32, Fault> {
        Ok(wire.clock)
    }

    #[inline]
    fn select(&mut self, _level: Level) -> Result<(), Fault> {
        Ok(())
    }

    #[inline]
    fn transfer(&mut self, words: &mut Words<'_>) -> Result<Progress, Fault> {
        let fill = words.fill();
        match words.operation() {
            Operation::Write(_) | Operation::TransferInPlace(_) | Operation::DelayNs(_) => {}
            Operation::Read(into) => into.fill(fill),
            Operation::Transfer(read, write) => {
                let both = write.len().min(read.len());
                let (looped, rest) = read.split_at_mut(both);
                looped.copy_from_slice(&write[..both]);
                rest.fill(fill);
            }
        }
        words.complete();
        Ok(Progress::Done)
    }

    fn abort(&mut self) -> Result<(), Fault> {
        Ok(())
    }
}

impl AsyncController for Loopback {}

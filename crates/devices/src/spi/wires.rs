//! An SPI bus with devices, through embedded-hal's traits.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::fmt;
use std::rc::Rc;

use embedded_hal::digital::{ErrorType as PinError, OutputPin};
use embedded_hal::spi::{ErrorType, SpiBus};
use nostall_io::Nanos;

use super::Target;
use crate::VirtualClock;

/// Four-wire SPI bus in virtual time: each byte takes eight clock cycles at the configured rate.
/// SPI mode 0, words of 8 bits, most significant bit first.
///
/// Clones share the wires. They implement `SpiBus`. The chip-select lines ([`SelectLine`]) are
/// active-low output pins. Without a selected device, reads return all ones.
#[derive(Clone)]
pub struct Wires {
    shared: Rc<WireState>,
}

struct WireState {
    clock: VirtualClock,
    hertz: Cell<u32>,
    ends: RefCell<Vec<End>>,
}

struct End {
    target: Box<dyn Target>,
    selected: bool,
}

impl Wires {
    /// Creates a bus without devices, at 1 MHz.
    pub fn new(clock: VirtualClock) -> Self {
        Self {
            shared: Rc::new(WireState {
                clock,
                hertz: Cell::new(1_000_000),
                ends: RefCell::default(),
            }),
        }
    }

    /// Connects a device and returns its chip-select line.
    pub fn connect(&self, target: impl Target + 'static) -> SelectLine {
        let mut ends = self.shared.ends.borrow_mut();
        ends.push(End {
            target: Box::new(target),
            selected: false,
        });
        SelectLine {
            wires: self.clone(),
            end: ends.len() - 1,
        }
    }

    /// Returns a chip-select line without a device.
    pub fn unconnected(&self) -> SelectLine {
        SelectLine {
            wires: self.clone(),
            end: usize::MAX,
        }
    }

    /// Sets the clock rate in hertz; 0 counts as 1.
    pub fn set_hertz(&self, hertz: u32) {
        self.shared.hertz.set(hertz.max(1));
    }

    /// Exchanges one byte with every selected device.
    fn exchange(&self, byte: u8) -> u8 {
        let span = Nanos::from_secs(8) / self.shared.hertz.get().into();
        self.shared.clock.advance(span);
        let mut came = 0xff;
        for end in self.shared.ends.borrow_mut().iter_mut() {
            if end.selected {
                // The line is low if any of several selected devices pulls it down.
                came &= end.target.exchange(byte);
            } else {
                end.target.pass(byte);
            }
        }
        came
    }
}

impl fmt::Debug for Wires {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wires")
            .field("hertz", &self.shared.hertz)
            .finish_non_exhaustive()
    }
}

impl ErrorType for Wires {
    type Error = Infallible;
}

/// `read` sends 0xff bytes.
impl SpiBus for Wires {
    fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        words.fill(0xff);
        self.transfer_in_place(words)
    }

    fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        for &word in words {
            self.exchange(word);
        }
        Ok(())
    }

    fn transfer(&mut self, read: &mut [u8], write: &[u8]) -> Result<(), Infallible> {
        for index in 0..read.len().max(write.len()) {
            let came = self.exchange(write.get(index).copied().unwrap_or(0xff));
            if let Some(into) = read.get_mut(index) {
                *into = came;
            }
        }
        Ok(())
    }

    fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        for word in words {
            *word = self.exchange(*word);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// A device's chip-select line, active low.
#[derive(Clone, Debug)]
pub struct SelectLine {
    wires: Wires,
    end: usize,
}

impl SelectLine {
    fn set(&self, selected: bool) {
        let mut ends = self.wires.shared.ends.borrow_mut();
        let Some(end) = ends.get_mut(self.end) else {
            return;
        };
        match (end.selected, selected) {
            (false, true) => end.target.select(),
            (true, false) => end.target.release(),
            _ => {}
        }
        end.selected = selected;
    }
}

impl PinError for SelectLine {
    type Error = Infallible;
}

impl OutputPin for SelectLine {
    fn set_low(&mut self) -> Result<(), Infallible> {
        self.set(true);
        Ok(())
    }

    fn set_high(&mut self) -> Result<(), Infallible> {
        self.set(false);
        Ok(())
    }
}

//! SPI controllers of this machine.

use core::ops::Range;
use core::ptr::NonNull;

use nostall_io::{Mmio, MmioLayout, Nanos, Registers};
use nostall_spi::controllers::Sifive;
use nostall_spi::controllers::sifive::{Completion, mask};

use super::tree::Device;
use super::{paging, plic, prci};

/// An interrupt, a sleep and a wake-up take about that: what is shorter is waited for.
const WORTH_AN_INTERRUPT: Nanos = Nanos::from_micros(20);

/// `csdef` ("Chip Select Default Register"): after reset, a one for each line that there is.
const CSDEF: usize = 0x14 / 4;

/// How registers are reached.
pub type Controller = Sifive<Mmio>;

/// A controller that the device tree tells of.
pub struct Found {
    registers: Range<u64>,
    /// Of the bus that it is on, in hertz.
    input: u32,
    /// Where its interrupt arrives, if it does.
    pub interrupt: Option<u32>,
}

/// The controller that drives a device of this kind.
///
/// Panics if there is none, or one whose clock is not known.
pub fn find(drives: &str) -> Found {
    let Some(device) = Device::all("sifive,spi0").find(|device| device.drives(drives)) else {
        panic!("no SPI controller with a {drives} on this machine");
    };
    let input = prci::clock_of(&device).and_then(|hz| u32::try_from(hz).ok());
    let Some(input) = input.filter(|_| paging::is_device_memory(&device.registers)) else {
        panic!("the device tree does not tell of the SPI controller's clock or registers");
    };
    Found {
        input,
        interrupt: plic::device().and_then(|plic| device.interrupt(&plic)),
        registers: device.registers,
    }
}

impl Found {
    /// To be driven by one who has no other.
    pub fn controller(&self) -> Controller {
        let registers = self.window();
        let lines = 32 - registers.read32(CSDEF).leading_zeros();
        let completion = match self.interrupt {
            Some(_) => Completion::Interrupt(WORTH_AN_INTERRUPT),
            None => Completion::Polled,
        };
        Sifive::new(registers, self.input, lines as u8, completion)
    }

    /// Has it take its interrupt back: for the handler.
    pub fn mask(&self) {
        mask(&self.window());
    }

    fn window(&self) -> Mmio {
        let base = NonNull::new(self.registers.start as *mut u8).expect("not in the first page");
        let len = (self.registers.end - self.registers.start) as usize;
        // SAFETY: mapped, as `find` has looked at; no DMA. One controller at a time
        // drives the device, and the handler writes a register that it only writes.
        unsafe { Mmio::new(base, len, MmioLayout::WORDS) }.expect("words, aligned")
    }
}

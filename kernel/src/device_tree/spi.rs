//! The machine's SPI controllers.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use nostall_io::{Clock, Mmio, MmioLayout, Nanos, Registers};
use nostall_spi::controllers::Sifive;
use nostall_spi::controllers::sifive::{Completion, mask};

use super::{Device, prci};
use crate::arch::{MachineClock, interrupt_of, is_device_memory, while_handled};

/// Approximate duration of an interrupt, a sleep and a wake-up: shorter transfers are polled.
const WORTH_AN_INTERRUPT: Nanos = Nanos::from_micros(20);

/// Register `csdef` ("Chip Select Default Register"): after reset, a bit is set for each existing
/// line.
const CSDEF: usize = 0x14 / 4;

// The other registers are only for the check; see `nostall_spi::controllers::sifive`.
const CSMODE: usize = 0x18 / 4;
const CSMODE_AUTO: u32 = 0;
const TXDATA: usize = 0x48 / 4;
const RXDATA: usize = 0x4c / 4;
const RXDATA_EMPTY: u32 = 1 << 31;
const RXMARK: usize = 0x54 / 4;
const FCTRL: usize = 0x60 / 4;
const IE: usize = 0x70 / 4;
const IE_RXWM: u32 = 1 << 1;

/// Driver of an SPI controller.
pub type Controller = Sifive<Mmio>;

/// A controller in the device tree.
pub struct Found {
    registers: Range<u64>,
    /// Frequency of the controller's input clock in hertz.
    input: u32,
    /// Interrupt number, if the interrupt is connected.
    pub interrupt: Option<u32>,
}

/// Returns the controller that a device of this kind is connected to.
///
/// Panics if there is none, or if its clock is unknown.
pub fn find(drives: &str) -> Found {
    let Some(device) = devices().find(|device| device.drives(drives)) else {
        panic!("no SPI controller with a {drives} on this machine");
    };
    Found::new(device)
}

/// Returns all controllers.
///
/// Panics if a controller's clock is unknown.
pub fn all() -> impl Iterator<Item = Found> {
    devices().map(Found::new)
}

fn devices() -> impl Iterator<Item = Device> {
    Device::all("sifive,spi0")
}

impl Found {
    fn new(device: Device) -> Self {
        let input = prci::clock_of(&device).and_then(|hz| u32::try_from(hz).ok());
        let Some(input) = input.filter(|_| is_device_memory(&device.registers)) else {
            panic!("the device tree does not describe the SPI controller's clock or registers");
        };
        Self {
            input,
            interrupt: interrupt_of(&device),
            registers: device.registers,
        }
    }

    /// Returns a driver. The caller must not have another driver of this controller.
    pub fn controller(&self) -> Controller {
        let registers = self.window();
        let lines = 32 - registers.read32(CSDEF).leading_zeros();
        let completion = match self.interrupt {
            Some(_) => Completion::Interrupt(WORTH_AN_INTERRUPT),
            None => Completion::Polled,
        };
        Sifive::new(registers, self.input, lines as u8, completion)
    }

    /// Masks the controller's interrupt; for the handler.
    pub fn mask(&self) {
        mask(&self.window());
    }

    /// Sends a byte without a selected device, and checks that its reply causes one interrupt.
    ///
    /// Panics if none arrives, or more than one.
    pub fn check_interrupt(&self, clock: &MachineClock) {
        const IGNORED: u32 = 0xff; // not a command for a flash
        let Some(interrupt) = self.interrupt else {
            return;
        };
        let registers = self.window();
        let arrived = AtomicU32::new(0);
        let handler = || {
            self.mask();
            arrived.fetch_add(1, Ordering::Relaxed);
        };
        registers.write32(FCTRL, 0); // no memory-mapped reads
        registers.write32(CSMODE, CSMODE_AUTO);
        registers.write32(RXMARK, 0);
        while_handled(interrupt, &handler, || {
            registers.write32(IE, IE_RXWM);
            registers.write32(TXDATA, IGNORED);
            clock.wait_until(clock.now() + Nanos::from_millis(1));
        });
        let sent = registers.read32(RXDATA);
        assert_eq!(
            sent & RXDATA_EMPTY,
            0,
            "no reply byte from an SPI controller"
        );
        let arrived = arrived.into_inner();
        assert_eq!(arrived, 1, "interrupt {interrupt} of an SPI controller");
    }

    fn window(&self) -> Mmio {
        let base = NonNull::new(self.registers.start as *mut u8).expect("not in the first page");
        let len = (self.registers.end - self.registers.start) as usize;
        // SAFETY: mapped on all CPUs, as checked in `new`; no DMA.
        unsafe { Mmio::new(base, len, MmioLayout::WORDS) }.expect("words, aligned")
    }
}

//! The clocks of SiFive's FU540: its PRCI (in its manual the chapter "Clocking and Reset",
//! which was not at hand; registers and formula are as Linux's and FreeBSD's drivers read
//! them).

use core::ptr::NonNull;

use nostall_io::{Mmio, MmioLayout, Registers};

use super::{Device, fixed_clock};
use crate::arch::is_device_memory;

/// The clock of the bus that devices are on, as a device tree numbers it (Linux's
/// dt-bindings/clock/sifive-fu540-prci.h).
const TLCLK: u32 = 3;

/// Bytes of a register.
const WORD: usize = 4;

// Registers, as numbers of words.
const COREPLLCFG0: usize = 0x04 / WORD;
const CORECLKSEL: usize = 0x24 / WORD;

/// `coreclksel`: the input clock, and not the PLL's.
const CORECLKSEL_HFCLK: u32 = 1 << 0;

/// The rate of a device's clock, in hertz; `None` if it is none that is known here.
pub fn clock_of(device: &Device) -> Option<u64> {
    let mut clock = device.cells("clocks");
    let (parent, number) = (clock.next()?, clock.next()?);
    let prci = Device::all("sifive,fu540-c000-prci")
        .find(|prci| prci.number("phandle") == Some(parent.into()))?;
    (number == TLCLK).then_some(())?;
    let hfclk = fixed_clock(prci.cells("clocks").next()?)?;
    let hfclk = u32::try_from(hfclk).ok()?;
    let range = prci.registers;
    is_device_memory(&range).then_some(())?;
    let base = NonNull::new(range.start as *mut u8)?;
    let len = (range.end - range.start) as usize;
    // SAFETY: mapped on all CPUs, as checked above. Clocks do no DMA.
    let registers = unsafe { Mmio::new(base, len, MmioLayout::WORDS) }.ok()?;
    let core = match registers.read32(CORECLKSEL) & CORECLKSEL_HFCLK {
        0 => pll(hfclk, registers.read32(COREPLLCFG0)),
        _ => hfclk.into(),
    };
    // Half of the cores'.
    Some(core / 2)
}

/// What a PLL makes of its input: `2 * (divf + 1) / ((divr + 1) * 2^divq)`.
const fn pll(input: u32, config: u32) -> u64 {
    let divr = config & 0x3f;
    let divf = config >> 6 & 0x1ff;
    let divq = config >> 15 & 0x7;
    input as u64 * 2 * (divf as u64 + 1) / ((divr as u64 + 1) << divq)
}

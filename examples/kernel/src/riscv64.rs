//! QEMU's `virt` with one hart, in supervisor mode on OpenSBI.

use core::arch::global_asm;

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use nostall_console::{Mmio, MmioLayout, Nanos, Rdtime, Registers};
use riscv::interrupt::supervisor::enable;
pub use riscv::interrupt::supervisor::{disable, free as without_interrupts};
use riscv::register::{scause, sepc, sie};

global_asm!(include_str!("riscv64.s"));

pub type Port = Mmio;
pub static CLOCK: Rdtime = Rdtime::new();
/// The serial port.
// SAFETY: the machine has it there, without translation, and it does no DMA.
pub const PORT: Port = unsafe { Mmio::at(0x1000_0000, 8, MmioLayout::BYTES) };
/// The interrupt controller.
// SAFETY: as above.
const PLIC: Mmio = unsafe { Mmio::at(0x0c00_0000, 0x40_0000, MmioLayout::WORDS) };
/// QEMU's test device, which ends it.
// SAFETY: as above.
const POWER: Mmio = unsafe { Mmio::at(0x10_0000, 4, MmioLayout::WORDS) };

/// The serial port's interrupt.
const SERIAL: usize = 10;
// Registers of the first hart's supervisor mode (RISC-V PLIC Specification 1.0.0), in words.
const ENABLE: usize = 0x2080 / 4;
const THRESHOLD: usize = 0x20_1000 / 4;
const CLAIM: usize = THRESHOLD + 1;

pub fn start_clock(device_tree: usize) {
    // SAFETY: the firmware passed its address, and nothing has written there since.
    let tree = unsafe { Fdt::from_raw(device_tree as *const u8) }.expect("a device tree");
    let cpus = tree.root().child("cpus");
    let rate = cpus.and_then(|cpus| cpus.property("timebase-frequency")?.value_as::<u32>().ok());
    CLOCK.set_rate(rate.unwrap_or(0).into());
}

pub fn set_timer(at: Nanos) {
    sbi_rt::set_timer(CLOCK.ticks_at(at).unwrap_or(u64::MAX));
}

pub fn start_interrupts() {
    PLIC.write32(SERIAL, 1); // its priority
    PLIC.write32(ENABLE, 1 << SERIAL);
    PLIC.write32(THRESHOLD, 0);
    // SAFETY: the boot code has set the trap entry.
    unsafe {
        sie::set_stimer();
        sie::set_sext();
    }
}

/// Sleeps until an interrupt is pending, and unmasks interrupts.
pub fn enable_and_hlt() {
    riscv::asm::wfi(); // also returns if the interrupt is masked
    // SAFETY: not called in a critical section.
    unsafe { enable() };
}

/// Called by the trap entry, with interrupts masked.
#[unsafe(no_mangle)]
extern "C" fn trap() {
    match scause::read().bits() {
        0x8000_0000_0000_0005 => super::on_timer(),
        0x8000_0000_0000_0009 => {
            let source = PLIC.read32(CLAIM);
            super::CONSOLE.on_interrupt();
            PLIC.write32(CLAIM, source); // end of interrupt
        }
        cause => panic!("exception {cause} at {:#x}", sepc::read()),
    }
}

/// Ends QEMU with status 0, or with 1 after a panic.
pub fn power_off(orderly: bool) {
    POWER.write32(0, if orderly { 0x5555 } else { 0x1_3333 });
}

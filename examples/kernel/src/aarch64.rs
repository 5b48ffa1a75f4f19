//! QEMU's Arm machine `virt` with one CPU, at EL1.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

use aarch64_rt::{
    ExceptionHandlers, InitialPagetable, RegisterStateRef, entry, exception_handlers,
    initial_pagetable,
};
use nostall_console::{Cntvct, Mmio, MmioLayout, Nanos, Pl011, Registers, VirtualCounter};

// Each entry maps 1 GiB to itself: devices, which hold no code, and RAM, which is Normal Write-Back.
// Atomic accesses need that type (Arm ARM, DDI 0487, B2.9).
initial_pagetable!({
    let mut table = [0; 512];
    table[0] = 0x60_0000_0000_0401;
    table[1] = 0x4000_0705;
    InitialPagetable(table)
});

entry!(start);
fn start(_: u64, _: u64, _: u64, _: u64) -> ! {
    super::kernel_main(0, 0)
}

pub type Port = Pl011<Mmio>;
pub static CLOCK: Cntvct = Cntvct::new();
/// The serial port, whose input clock has 24 MHz.
// SAFETY: the boot code maps it as device memory, and the driver uses no DMA.
pub const PORT: Port = Pl011::new(
    unsafe { Mmio::at(0x0900_0000, 0x1000, MmioLayout::BYTES) },
    Some(24_000_000),
);
/// The interrupt controller: its distributor and this CPU's interface.
// SAFETY: as above.
const GIC: Mmio = unsafe { Mmio::at(0x0800_0000, 0x2_0000, MmioLayout::BYTES) };

/// The virtual timer's interrupt, and the serial port's.
const TIMER: u32 = 27;
const SERIAL: u32 = 33;
// Registers (Arm Generic Interrupt Controller Architecture Specification, IHI 0048B, chapter 4).
const GICD_CTLR: usize = 0;
const GICD_ISENABLER: usize = 0x100;
const GICD_ITARGETSR: usize = 0x800;
const GICC_CTLR: usize = 0x1_0000;
const GICC_PMR: usize = 0x1_0004;
const GICC_IAR: usize = 0x1_000c;
const GICC_EOIR: usize = 0x1_0010;

pub fn start_clock(_: usize) {
    CLOCK.set_rate(VirtualCounter::hz());
}

pub fn set_timer(at: Nanos) {
    let ticks = CLOCK.ticks_at(at).unwrap_or(u64::MAX);
    // SAFETY: the virtual timer is this kernel's.
    unsafe {
        asm!("msr cntv_cval_el0, {}", "msr cntv_ctl_el0, {}", "isb", in(reg) ticks, in(reg) 1_u64);
    }
}

pub fn start_interrupts() {
    for interrupt in [TIMER, SERIAL] {
        let word = interrupt as usize / 32 * 4;
        GIC.write32(GICD_ISENABLER + word, 1 << (interrupt % 32));
        GIC.write8(GICD_ITARGETSR + interrupt as usize, 1); // to this CPU
    }
    GIC.write32(GICD_CTLR, 1);
    GIC.write32(GICC_PMR, 0xff); // every priority
    GIC.write32(GICC_CTLR, 1);
}

pub fn without_interrupts<T>(critical: impl FnOnce() -> T) -> T {
    let mask: u64;
    // SAFETY: reads the mask.
    unsafe { asm!("mrs {}, daif", out(reg) mask) };
    disable();
    let result = critical();
    // SAFETY: restores the mask that it found.
    unsafe { asm!("msr daif, {}", in(reg) mask) };
    result
}

pub fn disable() {
    // SAFETY: interrupts may be masked anywhere.
    unsafe { asm!("msr daifset, #2") };
}

/// Sleeps until an interrupt is pending, and unmasks interrupts.
pub fn enable_and_hlt() {
    // SAFETY: not called in a critical section. `wfi` also returns if the interrupt is masked.
    unsafe { asm!("wfi", "msr daifclr, #2") };
}

exception_handlers!(Exceptions);
struct Exceptions;

impl ExceptionHandlers for Exceptions {
    extern "C" fn irq_current(_: RegisterStateRef<'_>) {
        let interrupt = GIC.read32(GICC_IAR);
        match interrupt & 0x3ff {
            TIMER => super::on_timer(),
            SERIAL => _ = super::CONSOLE.on_interrupt(),
            _ => return, // none is left
        }
        GIC.write32(GICC_EOIR, interrupt);
    }

    extern "C" fn sync_current(state: RegisterStateRef<'_>) {
        panic!("exception at {:#x}", state.elr);
    }
}

/// Ends QEMU with status 0, or with 1 after a panic (Arm semihosting, SYS_EXIT). Without semihosting
/// the instruction is undefined, and its exception ends here once more.
pub fn power_off(orderly: bool) {
    static IS_ENDING: AtomicBool = AtomicBool::new(false);
    while IS_ENDING.swap(true, Ordering::Relaxed) {
        disable();
    }
    let block = [0x2_0026_u64, u64::from(!orderly)]; // ADP_Stopped_ApplicationExit
    // SAFETY: QEMU reads the block, and does not return.
    unsafe { asm!("hlt #0xf000", in("x0") 0x18_u64, in("x1") &block) };
}

//! The generic interrupt controller: version 2 (IHI 0048B) or 3 (IHI 0069G). It delivers each CPU's
//! timer interrupt, and calls of other CPUs.

use core::arch::asm;
use core::hint::spin_loop;
use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering};

use nostall_io::{Mmio, MmioLayout, Processor, Registers};
use spin::Once;

use super::cpus::{self, Cpu, MAX_CPUS};
use super::registers::{read, write};
use super::{paging, timer};
use crate::device_tree::Device;

/// Names of both versions in device trees.
const V2: [&str; 2] = ["arm,cortex-a15-gic", "arm,gic-400"];
const V3: &str = "arm,gic-v3";

/// Number of the interrupt that one CPU sends to others.
const CALL: u32 = 0;

/// Numbers from here on mean that no interrupt is pending ("Special interrupt numbers").
const NONE: u32 = 1020;

// Register numbers: offset / 4. GICR_TYPER has 64 bits, all others 32.
const GICD_CTLR: usize = 0;
const GICD_ITARGETSR0: usize = 0x800 / 4;
const GICD_SGIR: usize = 0xf00 / 4;
const GICC_CTLR: usize = 0;
const GICC_PMR: usize = 1;
const GICC_IAR: usize = 0xc / 4;
const GICC_EOIR: usize = 0x10 / 4;
const GICR_TYPER: usize = 0x8 / 4;
const GICR_WAKER: usize = 0x14 / 4;
/// Distance of a redistributor's second frame, for calls and per-CPU interrupts.
const SECOND_FRAME: usize = 0x1_0000 / 4;
/// Bytes of both frames. With virtual LPIs, there are two more.
const FRAMES: u64 = 0x2_0000;
/// The same registers in version 2's distributor and in a redistributor's second frame.
const IGROUPR0: usize = 0x80 / 4;
const ISENABLER0: usize = 0x100 / 4;
const ICENABLER0: usize = 0x180 / 4;
const IPRIORITYR0: usize = 0x400 / 4;

/// Bits of `GICD_CTLR` in version 3: affinity routing, both groups of the non-secure view, and the
/// register-write-pending bit.
const ARE: u32 = 1 << 4;
const BOTH_GROUPS: u32 = 0b11;
const WRITE_PENDING: u32 = 1 << 31;

/// Bits of `GICR_TYPER`: the last redistributor of its region, and frames for virtual LPIs.
const LAST: u32 = 1 << 4;
const VIRTUAL_LPIS: u32 = 1 << 1;

// Bits of `GICR_WAKER`.
const PROCESSOR_SLEEP: u32 = 1 << 1;
const CHILDREN_ASLEEP: u32 = 1 << 2;

/// A priority of 0x80 or higher is masked by no CPU here.
const PRIORITY: u32 = 0x8080_8080;
const ALL_PRIORITIES: u32 = 0xff;

/// More polls than a change of the controller takes.
const POLLS: u32 = 1_000_000;

static GIC: Once<Gic> = Once::new();

/// Version 2's bit of each CPU.
static TARGETS: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

struct Gic {
    distributor: Mmio,
    /// Version 2's interface of the current CPU; `None` with version 3.
    interface: Option<Mmio>,
    device: Device,
    timer: u32,
}

/// An interrupt.
pub enum Taken {
    /// From this CPU's timer.
    Timer,
    /// From another CPU.
    Call,
    /// A number that no CPU has enabled.
    Other(u32),
}

/// Finds the controller, and starts it for all CPUs.
///
/// Panics if there is none of a known version.
pub fn init() {
    GIC.call_once(Gic::find);
}

fn gic() -> &'static Gic {
    GIC.get().expect("the first CPU has been at `init`")
}

/// Enables the timer's interrupts and calls for this CPU. Interrupts must be masked.
///
/// Panics if the controller does not know this CPU.
pub fn enable() {
    let gic = gic();
    let (own, first) = match gic.interface {
        Some(_) => (gic.distributor, 0),
        None => (gic.wake_redistributor(), SECOND_FRAME),
    };
    let interrupts = 1 << CALL | 1 << gic.timer;
    own.write32(first + ICENABLER0, !interrupts);
    if gic.interface.is_none() {
        own.write32(first + IGROUPR0, !0); // group 1, which the CPU takes as IRQs
    }
    for number in [CALL, gic.timer] {
        let register = IPRIORITYR0 + number as usize / 4;
        own.write32(first + register, PRIORITY);
    }
    own.write32(first + ISENABLER0, interrupts);
    match gic.interface {
        Some(interface) => {
            let target = gic.distributor.read32(GICD_ITARGETSR0) & 0xff;
            TARGETS[Cpu.id()].store(target, Ordering::Relaxed);
            interface.write32(GICC_PMR, ALL_PRIORITIES);
            interface.write32(GICC_CTLR, 1);
        }
        None => enable_system_registers(),
    }
}

/// Enables version 3's interface of this CPU.
///
/// Panics if it has no system registers.
fn enable_system_registers() {
    const ICC_SRE_SRE: u64 = 1;
    let enabled = read!("icc_sre_el1") | ICC_SRE_SRE;
    // SAFETY: without effect if the firmware keeps the registers from the kernel.
    unsafe {
        write!("icc_sre_el1", enabled);
        asm!("isb", options(nostack, preserves_flags));
    }
    assert!(
        read!("icc_sre_el1") & ICC_SRE_SRE != 0,
        "the firmware keeps the GIC's system registers from the kernel"
    );
    // SAFETY: traps.rs handles the interrupts.
    unsafe {
        write!("icc_pmr_el1", ALL_PRIORITIES.into());
        write!("icc_ctlr_el1", 0); // the end of an interrupt also deactivates it
        write!("icc_igrpen1_el1", 1);
        asm!("isb", options(nostack, preserves_flags));
    }
}

/// Takes this CPU's pending interrupt, if there is one, and ends it.
pub fn take() -> Option<Taken> {
    let gic = gic();
    let (raw, number) = match gic.interface {
        Some(interface) => {
            let raw = interface.read32(GICC_IAR);
            (raw, raw & 0x3ff) // the sender is above
        }
        None => {
            let raw = read!("icc_iar1_el1") as u32;
            (raw, raw & 0xff_ffff)
        }
    };
    let taken = match number {
        NONE.. => return None,
        CALL => Taken::Call,
        _ if number == gic.timer => {
            timer::stop(); // otherwise the interrupt is pending again after its end
            Taken::Timer
        }
        _ => Taken::Other(number),
    };
    match gic.interface {
        Some(interface) => interface.write32(GICC_EOIR, raw),
        // SAFETY: ends the interrupt that was taken above.
        None => unsafe {
            write!("icc_eoir1_el1", raw.into());
            asm!("isb", options(nostack, preserves_flags));
        },
    }
    Some(taken)
}

/// Interrupts another CPU, which sees all earlier writes.
pub fn call(cpu: usize) {
    // SAFETY: only orders memory accesses.
    unsafe { asm!("dsb ishst", options(nostack, preserves_flags)) };
    let gic = gic();
    if gic.interface.is_some() {
        let target = TARGETS[cpu].load(Ordering::Relaxed);
        return gic.distributor.write32(GICD_SGIR, target << 16 | CALL);
    }
    let id = cpus::id_of(cpu) as u64;
    let [in_cluster, cluster, second, _] = (id as u32).to_le_bytes().map(u64::from);
    let third = id >> 32 & 0xff;
    let target = third << 48
        | second << 32
        | cluster << 16
        | (in_cluster / 16) << 44
        | u64::from(CALL) << 24
        | 1 << (in_cluster % 16);
    // SAFETY: that CPU's traps.rs handles the interrupt.
    unsafe {
        write!("icc_sgi1r_el1", target);
        asm!("isb", options(nostack, preserves_flags));
    }
}

impl Gic {
    fn find() -> Self {
        let v2 = V2.into_iter().flat_map(Device::all).next();
        let is_v2 = v2.is_some();
        let Some(device) = v2.or_else(|| Device::all(V3).next()) else {
            panic!("the device tree has no interrupt controller that is a GICv2 or a GICv3");
        };
        let mut ranges = device.ranges();
        let distributor = ranges.next().and_then(window);
        let interface = is_v2.then(|| ranges.next().and_then(window));
        let (Some(distributor), None | Some(Some(_))) = (distributor, interface) else {
            panic!("the device tree does not describe the GIC's registers");
        };
        let gic = Self {
            distributor,
            interface: interface.flatten(),
            device,
            timer: timer::interrupt(),
        };
        distributor.write32(GICD_CTLR, if is_v2 { 1 } else { ARE | BOTH_GROUPS });
        assert!(
            is_v2 || await_zero(distributor, GICD_CTLR, WRITE_PENDING),
            "the GIC's distributor does not start"
        );
        gic
    }

    /// Wakes version 3's redistributor of this CPU.
    fn wake_redistributor(&self) -> Mmio {
        let id = cpus::id_of(Cpu.id());
        let affinity = id >> 8 & 0xff00_0000 | id & 0xff_ffff;
        let Some(own) = self.redistributor(affinity as u32) else {
            panic!("the GIC has no redistributor for the CPU {id:#x}");
        };
        own.write32(GICR_WAKER, own.read32(GICR_WAKER) & !PROCESSOR_SLEEP);
        assert!(
            await_zero(own, GICR_WAKER, CHILDREN_ASLEEP),
            "the GIC's redistributor of the CPU {id:#x} does not wake"
        );
        own
    }

    fn redistributor(&self, affinity: u32) -> Option<Mmio> {
        for region in self.device.ranges().skip(1) {
            let mut start = region.start;
            while region.end.saturating_sub(start) >= FRAMES {
                let frames = window(start..start + FRAMES)?;
                let kind = frames.read32(GICR_TYPER);
                if frames.read32(GICR_TYPER + 1) == affinity {
                    return Some(frames);
                }
                if kind & LAST != 0 {
                    break;
                }
                start += FRAMES << u32::from(kind & VIRTUAL_LPIS != 0);
            }
        }
        None
    }
}

/// Returns the registers at `range`, if they are mapped.
fn window(range: Range<u64>) -> Option<Mmio> {
    paging::is_device_memory(&range).then_some(())?;
    let base = NonNull::new(range.start as *mut u8)?;
    // SAFETY: mapped on all CPUs, as checked above; it does no DMA without LPIs.
    unsafe { Mmio::new(base, (range.end - range.start) as usize, MmioLayout::WORDS) }.ok()
}

/// Waits until the bits `mask` of a register are 0. Returns `false` if they stay set.
fn await_zero(window: Mmio, register: usize, mask: u32) -> bool {
    (0..POLLS).any(|_| {
        spin_loop();
        window.read32(register) & mask == 0
    })
}

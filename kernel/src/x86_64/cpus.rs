//! The CPUs: numbers, stacks, segments, start.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use nostall_io::{Clock, Nanos, Processor};
use x86_64::VirtAddr;
use x86_64::instructions::interrupts;
use x86_64::instructions::segmentation::{CS, SS, Segment};
use x86_64::instructions::tables::load_tss;
use x86_64::registers::model_specific::GsBase;
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable};
use x86_64::structures::tss::TaskStateSegment;

use super::apic::LocalApic;
use super::clock::Tsc;

/// Number of CPUs for which stacks exist.
pub const MAX_CPUS: usize = 64;
/// Start address of the other CPUs: a page below 1 MiB.
pub const TRAMPOLINE: usize = 0x8000;

/// Index of the emergency stack, for double faults and NMIs.
pub const EMERGENCY_STACK: u16 = 0;

/// Data of each CPU.
#[repr(C)]
struct PerCpu {
    /// The CPU's number. The first field, so that `gs:[0]` reads it.
    number: UnsafeCell<u64>,
    segments: UnsafeCell<(GlobalDescriptorTable, TaskStateSegment)>,
}

// SAFETY: each CPU writes only its own cells, in `init_this`, before any other access.
unsafe impl Sync for PerCpu {}

static PER_CPU: [PerCpu; MAX_CPUS] = [const {
    PerCpu {
        number: UnsafeCell::new(0),
        segments: UnsafeCell::new((GlobalDescriptorTable::new(), TaskStateSegment::new())),
    }
}; MAX_CPUS];

/// Size of an emergency stack. An injected panic flushes the log and reports on it.
const EMERGENCY_BYTES: usize = 16 << 10;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; EMERGENCY_BYTES]>);

// SAFETY: only the hardware uses the stacks, each for one CPU.
unsafe impl Sync for Stack {}

/// Separate from [`PER_CPU`], so that they need no room in the image.
static EMERGENCY_STACKS: [Stack; MAX_CPUS] =
    [const { Stack(UnsafeCell::new([0; EMERGENCY_BYTES])) }; MAX_CPUS];

/// Sets this CPU's number, segments and emergency stack.
pub fn init_this(number: usize) {
    let mine = &PER_CPU[number];
    // SAFETY: only this CPU accesses it, and only here.
    unsafe { *mine.number.get() = number as u64 };
    // SAFETY: as above; from now on only the hardware uses it.
    let (gdt, tss) = unsafe { &mut *mine.segments.get() };
    let stack_end = EMERGENCY_STACKS[number].0.get().addr() + size_of::<Stack>();
    tss.interrupt_stack_table[usize::from(EMERGENCY_STACK)] = VirtAddr::new(stack_end as u64);
    let code = gdt.append(Descriptor::kernel_code_segment());
    let data = gdt.append(Descriptor::kernel_data_segment());
    let tss = gdt.append(Descriptor::tss_segment(tss));
    gdt.load();
    // SAFETY: the loaded table has these three, and lives forever.
    unsafe {
        CS::set_reg(code);
        SS::set_reg(data);
        load_tss(tss);
    }
    GsBase::write(VirtAddr::from_ptr(mine));
}

/// The current CPU.
pub struct Cpu;

impl Processor for Cpu {
    // Inlined, because the recorder of all functions calls it.
    #[inline(always)]
    fn id(&self) -> usize {
        let number: u64;
        // SAFETY: GS points to this CPU's `PerCpu` since `init_this`.
        unsafe {
            asm!("mov {}, gs:[0]", out(reg) number, options(nostack, readonly, preserves_flags))
        };
        number as usize
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        interrupts::without_interrupts(critical)
    }
}

static TIMER_HZ: AtomicU64 = AtomicU64::new(0);
static TIMER_KNOWN: AtomicBool = AtomicBool::new(false);

/// Local APIC id of each CPU, set when its APIC is enabled.
static APIC_IDS: [AtomicU8; MAX_CPUS] = [const { AtomicU8::new(0) }; MAX_CPUS];

/// Waits until the timer's rate is known, then enables this CPU's local APIC. For all CPUs except
/// the first.
pub fn await_timer_rate() {
    while !TIMER_KNOWN.load(Ordering::Acquire) {
        Cpu.relax();
    }
    enable_apic();
}

/// Sleeps until the next interrupt, unless there is work already.
///
/// Work is checked with interrupts masked, so a wake-up in between is not lost.
pub fn sleep_unless<T>(something: impl FnOnce() -> Option<T>) -> Option<T> {
    interrupts::disable();
    let something = something();
    if something.is_none() {
        interrupts::enable_and_hlt();
    } else {
        interrupts::enable();
    }
    something
}

/// Ends the sleep of these CPUs. Their local APICs must be enabled.
pub fn wake(cpus: impl IntoIterator<Item = usize>) {
    Cpu.without_interrupts(|| {
        let apic = LocalApic::of_this_cpu();
        for cpu in cpus {
            apic.wake(APIC_IDS[cpu].load(Ordering::Relaxed));
        }
    });
}

/// Interrupts all other CPUs, even if they mask interrupts.
pub fn call_others() {
    LocalApic::of_this_cpu().send_nmi_to_others();
}

/// Sets this CPU's timer to interrupt it once, at `at`. Interrupts must be masked.
pub fn set_timer(clock: &Tsc, at: Nanos) {
    let timer_hz = TIMER_HZ.load(Ordering::Relaxed);
    LocalApic::of_this_cpu().set_timer(timer_hz, at - clock.now());
}

/// Enables this CPU's interrupts.
pub fn enable_interrupts() {
    interrupts::enable();
}

fn enable_apic() -> LocalApic {
    let apic = LocalApic::of_this_cpu();
    apic.enable();
    APIC_IDS[Cpu.id()].store(apic.id(), Ordering::Relaxed);
    apic
}

/// Calibrates the timer, and starts all other CPUs if `cpus` is more than 1. Returns the timers'
/// rate in hertz.
pub fn start_cpus(cpus: u16, clock: &Tsc) -> u64 {
    let apic = enable_apic();
    let timer_hz = apic.measure_timer(clock);
    TIMER_HZ.store(timer_hz, Ordering::Relaxed);
    TIMER_KNOWN.store(true, Ordering::Release);
    if cpus > 1 {
        place_trampoline();
        apic.start_others(TRAMPOLINE, clock);
    }
    timer_hz
}

fn place_trampoline() {
    unsafe extern "C" {
        safe static trampoline_start: u8;
        safe static trampoline_end: u8;
    }
    let start = &raw const trampoline_start;
    let len = (&raw const trampoline_end).addr() - start.addr();
    // SAFETY: conventional memory without another user, because the command line was copied.
    // paging.rs maps the page writable and executable.
    unsafe { ptr::copy_nonoverlapping(start, TRAMPOLINE as *mut u8, len) };
}

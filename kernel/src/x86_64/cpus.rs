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

/// CPUs that there are stacks for.
pub const MAX_CPUS: usize = 64;
/// Where the other CPUs start: a page below 1 MiB.
pub const TRAMPOLINE: usize = 0x8000;

/// Where the double fault and the NMI find a stack that is sure to be good.
pub const EMERGENCY_STACK: u16 = 0;

/// What each CPU has for itself.
#[repr(C)]
struct PerCpu {
    /// First, so that `gs:[0]` is the CPU's number.
    number: UnsafeCell<u64>,
    segments: UnsafeCell<(GlobalDescriptorTable, TaskStateSegment)>,
}

// SAFETY: the cells are written by their own CPU alone, in `init_this`, before
// anything can read them.
unsafe impl Sync for PerCpu {}

static PER_CPU: [PerCpu; MAX_CPUS] = [const {
    PerCpu {
        number: UnsafeCell::new(0),
        segments: UnsafeCell::new((GlobalDescriptorTable::new(), TaskStateSegment::new())),
    }
}; MAX_CPUS];

/// An injected panic flushes the log there, and reports.
const EMERGENCY_BYTES: usize = 16 << 10;

#[repr(C, align(16))]
struct Stack(UnsafeCell<[u8; EMERGENCY_BYTES]>);

// SAFETY: only the hardware uses them, each for one CPU.
unsafe impl Sync for Stack {}

/// Apart from [`PER_CPU`], so that they take no room in the image.
static EMERGENCY_STACKS: [Stack; MAX_CPUS] =
    [const { Stack(UnsafeCell::new([0; EMERGENCY_BYTES])) }; MAX_CPUS];

/// Gives this CPU its number, its segments and its emergency stack.
pub fn init_this(number: usize) {
    let mine = &PER_CPU[number];
    // SAFETY: this CPU's own, and only here.
    unsafe { *mine.number.get() = number as u64 };
    // SAFETY: as above; from now on only the hardware uses it.
    let (gdt, tss) = unsafe { &mut *mine.segments.get() };
    let stack_end = EMERGENCY_STACKS[number].0.get().addr() + size_of::<Stack>();
    tss.interrupt_stack_table[usize::from(EMERGENCY_STACK)] = VirtAddr::new(stack_end as u64);
    let code = gdt.append(Descriptor::kernel_code_segment());
    let data = gdt.append(Descriptor::kernel_data_segment());
    let tss = gdt.append(Descriptor::tss_segment(tss));
    gdt.load();
    // SAFETY: the table just loaded has these three, and lives for ever.
    unsafe {
        CS::set_reg(code);
        SS::set_reg(data);
        load_tss(tss);
    }
    GsBase::write(VirtAddr::from_ptr(mine));
}

/// The CPU that runs this.
pub struct Cpu;

impl Processor for Cpu {
    // Inlined, because the recorder of all functions asks for it.
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

/// By which number the local APICs know each CPU, once it ticks.
static APIC_IDS: [AtomicU8; MAX_CPUS] = [const { AtomicU8::new(0) }; MAX_CPUS];

/// Waits, on another CPU than the first, until the rate of its timer is known.
pub fn await_timer_rate() {
    while !TIMER_KNOWN.load(Ordering::Acquire) {
        Cpu.relax();
    }
    enable_apic();
}

/// Sleeps until the next interrupt, unless there is something to do already.
/// What is there to do is looked for with interrupts masked: a wake-up in
/// between is not lost.
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

/// Ends the sleep of these CPUs, which tick.
pub fn wake(cpus: impl IntoIterator<Item = usize>) {
    Cpu.without_interrupts(|| {
        let apic = LocalApic::of_this_cpu();
        for cpu in cpus {
            apic.wake(APIC_IDS[cpu].load(Ordering::Relaxed));
        }
    });
}

/// Interrupts all other CPUs, also where interrupts are masked.
pub fn call_others() {
    LocalApic::of_this_cpu().send_nmi_to_others();
}

/// Has this CPU's timer interrupt it at `at`, once. With interrupts masked.
pub fn set_timer(clock: &Tsc, at: Nanos) {
    let timer_hz = TIMER_HZ.load(Ordering::Relaxed);
    LocalApic::of_this_cpu().set_timer(timer_hz, at - clock.now());
}

/// Lets this CPU's interrupts through.
pub fn enable_interrupts() {
    interrupts::enable();
}

fn enable_apic() -> LocalApic {
    let apic = LocalApic::of_this_cpu();
    apic.enable();
    APIC_IDS[Cpu.id()].store(apic.id(), Ordering::Relaxed);
    apic
}

/// Calibrates the timer and starts all other CPUs that there are, if `cpus` is more than 1;
/// returns the timers' rate in hertz.
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
    // SAFETY: conventional memory that nothing uses any more (the command line is
    // copied); paging.rs maps the page writable and executable.
    unsafe { ptr::copy_nonoverlapping(start, TRAMPOLINE as *mut u8, len) };
}

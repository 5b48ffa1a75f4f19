//! Exceptions and interrupts.

use core::arch::global_asm;
use core::cell::UnsafeCell;

use nostall_io::Processor;
use nostall_work::text;
use x86_64::VirtAddr;
use x86_64::registers::control::Cr2;
use x86_64::structures::idt::InterruptDescriptorTable;

use super::apic::{LocalApic, SPURIOUS_VECTOR, TIMER_VECTOR, WAKE_VECTOR};
use super::cpus::{Cpu, EMERGENCY_STACK};
use super::paging;
use crate::trap::{Exception, Trap};

/// What cannot be masked (Intel SDM volume 3, "Nonmaskable Interrupt").
const NMI_VECTOR: u8 = 2;
const TRAP_ENTRIES: usize = 48;

global_asm!(
    ".set TRAP_ENTRIES, {entries}",
    include_str!("traps.s"),
    entries = const TRAP_ENTRIES,
    options(att_syntax),
);

/// What traps.s and the CPU leave on the stack.
#[repr(C)]
pub struct Frame {
    registers: [u64; 9],
    vector: u64,
    error: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

/// Decodes a trap, and handles those of the local APIC alone.
pub fn decode(frame: &Frame) -> Trap {
    match frame.vector as u8 {
        TIMER_VECTOR => {
            LocalApic::of_this_cpu().end_of_interrupt();
            Trap::Timer
        }
        NMI_VECTOR => Trap::Call(Some(exception(NMI_VECTOR, frame))),
        WAKE_VECTOR => {
            LocalApic::of_this_cpu().end_of_interrupt();
            Trap::Handled
        }
        SPURIOUS_VECTOR => Trap::Handled,
        vector => Trap::Exception(exception(vector, frame)),
    }
}

fn exception(vector: u8, frame: &Frame) -> Exception {
    let cr2 = Cr2::read_raw();
    // A push onto a full stack is a page fault that cannot be delivered there.
    let overflow = matches!(vector, 8 | 14) && paging::is_stack_overflow(cr2);
    let what = match (overflow, vector, frame.error) {
        (true, ..) => ", the stack is full",
        (_, 14, 0) => " on read, not mapped",
        (_, 14, 1) => " on read, not allowed",
        (_, 14, 2) => " on write, not mapped",
        (_, 14, 3) => " on write, read-only",
        (_, 14, e) if e & 0x10 != 0 => " on execution",
        _ => "",
    };
    Exception {
        vector,
        name: text(format_args!("{}{what}", name(vector))),
        error: frame.error,
        pc: frame.rip,
        sp: frame.rsp,
        address: cr2,
    }
}

/// Intel SDM volume 3, table "Protected-Mode Exceptions and Interrupts".
const fn name(vector: u8) -> &'static str {
    match vector {
        0 => "divide error",
        1 => "debug",
        2 => "non-maskable interrupt",
        3 => "breakpoint",
        4 => "overflow",
        5 => "bound range exceeded",
        6 => "invalid opcode",
        7 => "device not available",
        8 => "double fault",
        10 => "invalid TSS",
        11 => "segment not present",
        12 => "stack segment fault",
        13 => "general protection",
        14 => "page fault",
        16 => "x87 floating-point error",
        17 => "alignment check",
        18 => "machine check",
        19 => "SIMD floating-point error",
        20 => "virtualization exception",
        21 => "control protection",
        _ => "unexpected interrupt",
    }
}

struct SharedIdt(UnsafeCell<InterruptDescriptorTable>);

// SAFETY: written by the first CPU alone, before the others start.
unsafe impl Sync for SharedIdt {}

static IDT: SharedIdt = SharedIdt(UnsafeCell::new(InterruptDescriptorTable::new()));

/// Makes this CPU bring its exceptions and interrupts here.
pub fn init_this_cpu() {
    if Cpu.id() == 0 {
        // SAFETY: the only reference; see `SharedIdt`.
        fill(unsafe { &mut *IDT.0.get() });
    }
    // SAFETY: filled above, or by the first CPU before this one started.
    let idt = unsafe { &*IDT.0.get() };
    idt.load();
}

fn fill(idt: &mut InterruptDescriptorTable) {
    unsafe extern "C" {
        safe static trap_entries: u8;
    }
    let entry = |vector: u8| {
        let table = (&raw const trap_entries).addr();
        VirtAddr::new((table + 16 * usize::from(vector)) as u64)
    };
    macro_rules! exceptions {
        ($($vector:literal $field:ident)*) => {$(
            // SAFETY: traps.s has an entry for each vector, which pushes an error
            // code where the CPU does not.
            unsafe { idt.$field.set_handler_addr(entry($vector)) };
        )*};
    }
    exceptions! {
        0 divide_error 1 debug 3 breakpoint 4 overflow 5 bound_range_exceeded
        6 invalid_opcode 7 device_not_available 10 invalid_tss
        11 segment_not_present 12 stack_segment_fault 13 general_protection_fault
        14 page_fault 16 x87_floating_point 17 alignment_check 18 machine_check
        19 simd_floating_point 20 virtualization 21 cp_protection_exception
    }
    // SAFETY: as above, and each CPU's TSS has the stack.
    unsafe {
        idt.non_maskable_interrupt
            .set_handler_addr(entry(2))
            .set_stack_index(EMERGENCY_STACK);
        idt.double_fault
            .set_handler_addr(entry(8))
            .set_stack_index(EMERGENCY_STACK);
    }
    for vector in TIMER_VECTOR..TRAP_ENTRIES as u8 {
        // SAFETY: as above.
        unsafe { idt[vector].set_handler_addr(entry(vector)) };
    }
}

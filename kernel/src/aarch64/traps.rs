//! Exceptions and interrupts (Arm ARM, DDI 0487, section D1.3, "Exceptions"; D17.2.37, "ESR_EL1").

use core::arch::global_asm;

use nostall_work::text;

use super::gic::{self, Taken};
use super::registers::{read, write};
use super::{paging, psci};
use crate::trap::{Exception, Trap};

global_asm!(
    ".set FRAME_SIZE, {size}",
    include_str!("traps.s"),
    size = const size_of::<Frame>(),
);

/// Registers that traps.s saves on the trap stack.
#[repr(C, align(16))]
pub struct Frame {
    registers: [u64; 20],
    sp: u64,
    kind: u64,
}

// Kinds of vectors, as traps.s numbers them.
const SYNCHRONOUS: u64 = 0;
const IRQ: u64 = 1;
const FIQ: u64 = 2;

// Classes of exceptions: ESR_EL1.EC.
const UNKNOWN: u64 = 0x00;
const INSTRUCTION_ABORT: u64 = 0x21;
const DATA_ABORT: u64 = 0x25;

/// `hlt #0xf000`: the instruction of a semihosting call.
const SEMIHOSTING_CALL: u32 = 0xd45e_0000;

/// Decodes a trap.
pub fn decode(frame: &Frame) -> Trap {
    match frame.kind {
        IRQ => match gic::take() {
            Some(Taken::Timer) => Trap::Timer,
            Some(Taken::Call) => Trap::Call(None),
            Some(Taken::Other(number)) => {
                Trap::Exception(exception(frame, "unexpected interrupt", number as u8))
            }
            None => Trap::Handled,
        },
        // Without semihosting, a report is an undefined instruction. Reporting it would recurse. The
        // end needs the larger stack of the interrupted code.
        SYNCHRONOUS if is_report() => {
            resume_at(|_| psci::end_without_semihosting as *const () as usize);
            Trap::Handled
        }
        SYNCHRONOUS => synchronous(frame),
        FIQ => Trap::Exception(exception(frame, "unexpected FIQ", 0)),
        _ => Trap::Exception(exception(frame, "error of the memory system", 0)),
    }
}

/// Returns whether the exception is a semihosting call that the machine does not take.
fn is_report() -> bool {
    let is_unknown = read!("esr_el1") >> 26 & 0x3f == UNKNOWN;
    let pc = read!("elr_el1") as *const u32;
    // SAFETY: the CPU has fetched an instruction at this address.
    is_unknown && unsafe { pc.read() } == SEMIHOSTING_CALL
}

/// Changes the address at which the interrupted code continues.
pub fn resume_at(next: impl FnOnce(usize) -> usize) {
    let pc = next(read!("elr_el1") as usize);
    // SAFETY: the caller's address is in the same code, and no trap comes in between.
    unsafe { write!("elr_el1", pc as u64) };
}

fn synchronous(frame: &Frame) -> Trap {
    let esr = read!("esr_el1");
    let class = esr >> 26 & 0x3f;
    let address = read!("far_el1") as usize;
    // Fault status code, without the level: 1 is a translation fault, 3 a permission fault.
    let (is_write, fault) = (esr & 1 << 6 != 0, esr >> 2 & 0xf);
    let name = match class {
        UNKNOWN => "undefined instruction",
        0x07 => "use of floating point",
        INSTRUCTION_ABORT => "page fault on execution",
        DATA_ABORT if paging::is_stack_overflow(address) => "page fault, the stack is full",
        DATA_ABORT => match (fault, is_write) {
            (1, false) => "page fault on read, not mapped",
            (1, true) => "page fault on write, not mapped",
            (3, false) => "page fault on read, not allowed",
            (3, true) => "page fault on write, read-only",
            _ => "data abort",
        },
        0x22 => "pc misaligned",
        0x26 => "sp misaligned",
        0x3c => "breakpoint",
        _ => "unexpected exception",
    };
    Trap::Exception(Exception {
        error: esr & 0x01ff_ffff,
        address: address as u64,
        ..exception(frame, name, class as u8)
    })
}

fn exception(frame: &Frame, name: &str, vector: u8) -> Exception {
    Exception {
        vector,
        name: text(format_args!("{name}")),
        error: 0,
        pc: read!("elr_el1"),
        sp: frame.sp,
        address: 0,
    }
}

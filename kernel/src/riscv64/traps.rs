//! Exceptions and interrupts (RISC-V privileged specification, "Supervisor-Level ISA").

use core::arch::global_asm;

use nostall_work::text;
use riscv::register::{scause, sepc, stval};

use super::{cpus, firmware, paging, plic};
use crate::trap::{Exception, Trap};

global_asm!(
    ".set FRAME_SIZE, {size}",
    include_str!("traps.s"),
    size = const size_of::<Frame>(),
);

/// Registers that traps.s saves on the trap stack. Its end is aligned to 16 bytes.
#[repr(C, align(16))]
pub struct Frame {
    registers: [u64; 16],
    sp: u64,
}

// Numbers of the causes (table "Supervisor cause register values after trap").
const SOFTWARE_INTERRUPT: usize = 1;
const TIMER_INTERRUPT: usize = 5;
const EXTERNAL_INTERRUPT: usize = 9;
const BREAKPOINT: usize = 3;
const FETCH_PAGE_FAULT: usize = 12;
const LOAD_PAGE_FAULT: usize = 13;
const STORE_PAGE_FAULT: usize = 15;

/// Decodes a trap, and handles interrupts of devices.
pub fn decode(frame: &Frame) -> Trap {
    let cause = scause::read();
    if cause.is_interrupt() {
        cpus::count_interrupt();
    }
    match (cause.is_interrupt(), cause.code()) {
        (true, TIMER_INTERRUPT) => Trap::Timer,
        // From another CPU, which may have work for this one.
        (true, SOFTWARE_INTERRUPT) => {
            cpus::on_wake();
            Trap::Call(None)
        }
        (true, EXTERNAL_INTERRUPT) => {
            plic::on_interrupt();
            Trap::Handled
        }
        // Without semihosting, a report is a breakpoint. Reporting this exception would recurse.
        (false, BREAKPOINT) => firmware::end_without_semihosting(),
        (is_interrupt, code) => Trap::Exception(exception(is_interrupt, code, frame)),
    }
}

/// Changes the address at which the interrupted code continues.
pub fn resume_at(next: impl FnOnce(usize) -> usize) {
    let pc = next(sepc::read());
    // SAFETY: the caller's address is in the same code, and no trap comes in between.
    unsafe { sepc::write(pc) };
}

fn exception(is_interrupt: bool, code: usize, frame: &Frame) -> Exception {
    let address = stval::read();
    let what = match code {
        _ if is_interrupt => "",
        FETCH_PAGE_FAULT => " on execution",
        LOAD_PAGE_FAULT | STORE_PAGE_FAULT if paging::is_stack_overflow(address) => {
            ", the stack is full"
        }
        LOAD_PAGE_FAULT if paging::is_mapped(address) => " on read, not allowed",
        LOAD_PAGE_FAULT => " on read, not mapped",
        STORE_PAGE_FAULT if paging::is_mapped(address) => " on write, read-only",
        STORE_PAGE_FAULT => " on write, not mapped",
        _ => "",
    };
    let name = if is_interrupt {
        "unexpected interrupt"
    } else {
        name(code)
    };
    Exception {
        vector: code as u8,
        name: text(format_args!("{name}{what}")),
        error: 0,
        pc: sepc::read() as u64,
        sp: frame.sp,
        address: address as u64,
    }
}

const fn name(code: usize) -> &'static str {
    match code {
        0 => "instruction address misaligned",
        1 => "instruction access fault",
        2 => "illegal instruction",
        BREAKPOINT => "breakpoint",
        4 => "load address misaligned",
        5 => "load access fault",
        6 => "store address misaligned",
        7 => "store access fault",
        8 => "environment call from user mode",
        9 => "environment call from supervisor mode",
        FETCH_PAGE_FAULT | LOAD_PAGE_FAULT | STORE_PAGE_FAULT => "page fault",
        _ => "unexpected exception",
    }
}

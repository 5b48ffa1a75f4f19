//! Exceptions and interrupts (RISC-V privileged specification, "Supervisor-Level ISA").

use core::arch::global_asm;

use nostall_io::Processor;
use nostall_work::{Event, text};
use riscv::register::{scause, sepc, stval};

use super::{Cpu, cpus, paging, plic, semihosting};
use crate::{console, die, log};

global_asm!(
    ".set FRAME_SIZE, {size}",
    include_str!("traps.s"),
    size = const size_of::<Frame>(),
);

/// What traps.s leaves on the trap stack, whose end is aligned to 16.
#[repr(C, align(16))]
struct Frame {
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

#[unsafe(no_mangle)]
extern "C" fn rust_trap(frame: &Frame) {
    let cause = scause::read();
    if cause.is_interrupt() {
        cpus::count_interrupt();
    }
    match (cause.is_interrupt(), cause.code()) {
        (true, TIMER_INTERRUPT) => {
            cpus::on_timer();
            console::on_timer();
        }
        // From another CPU: look whether there is something to do.
        (true, SOFTWARE_INTERRUPT) => {
            cpus::on_wake();
            console::on_call();
        }
        (true, EXTERNAL_INTERRUPT) => plic::on_interrupt(),
        // Nobody takes our reports; to report this would only bring us here again.
        (false, BREAKPOINT) => semihosting::nobody_listens(),
        (is_interrupt, code) => exception(is_interrupt, code, frame),
    }
}

fn exception(is_interrupt: bool, code: usize, frame: &Frame) -> ! {
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
    let name = text(format_args!("{name}{what}"));
    let (pc, sp) = (sepc::read() as u64, frame.sp);
    log::last_line(format_args!(
        "Kernel exception {code}: {name} (pc {pc:#x}, sp {sp:#x}, address {address:#x})"
    ));
    die(&Event::Exception {
        cpu: Cpu.id() as u16,
        vector: code as u8,
        name,
        error: 0,
        pc,
        sp,
        address: address as u64,
    })
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

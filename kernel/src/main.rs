//! nostall's reference kernel: every core at work on bare metal.
//!
//! It boots, starts all CPUs, and does the [work](nostall_work::WorkList) that its command line
//! lists. It reports each result as a line of JSON on a separate channel. Then it ends the machine.
//! Each processor architecture has a folder of its name; `arch.rs` lists the items that it
//! supplies.

#![no_std]
#![no_main]

mod arch;
mod boot;
mod cpu;
mod death;
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
#[cfg_attr(
    target_arch = "aarch64",
    allow(dead_code, reason = "only RISC-V's SPI uses all of it")
)]
mod device_tree;
mod experiments;
mod fail;
mod functions;
mod log;
mod machine;
mod other_cpus;
mod report;
mod trap;

use core::panic::PanicInfo;

use nostall_io::Processor;
use nostall_work::{Event, WorkList, text};

use arch::Cpu;
use boot::Boot;
use death::die;
use experiments::{pstore, trace};
use machine::BootedMachine;
use trap::{Exception, Trap};

/// Entry point of each CPU, with the arguments of the architecture's `boot.s`.
#[unsafe(no_mangle)]
extern "C" fn rust_entry(first: usize, second: usize, third: usize) -> ! {
    match arch::enter(first, second, third) {
        Some(boot) => main(&boot),
        None => {
            cpu::start_ticking();
            other_cpus::idle()
        }
    }
}

/// Entry point of interrupts and exceptions, from the architecture's `traps.s`.
#[unsafe(no_mangle)]
extern "C" fn rust_trap(frame: &arch::Frame) {
    functions::nested(|| match arch::decode_trap(frame) {
        Trap::Handled => {}
        Trap::Timer => cpu::on_timer(),
        Trap::Call(unexpected) => {
            let is_taken = functions::on_call() || cpu::on_call();
            if let Some(exception) = unexpected.filter(|_| !is_taken) {
                die_of(exception);
            }
        }
        Trap::Exception(exception) => die_of(exception),
    });
}

fn die_of(exception: Exception) -> ! {
    trace::freeze();
    let Exception {
        vector,
        name,
        error,
        pc,
        sp,
        address,
    } = exception;
    log::last_line(format_args!(
        "Kernel exception {vector}: {name} (pc {pc:#x}, sp {sp:#x}, address {address:#x})"
    ));
    die(&Event::Exception {
        cpu: Cpu.id() as u16,
        vector,
        name,
        error,
        pc,
        sp,
        address,
    })
}

/// Runs the work list on the first CPU.
fn main(boot: &Boot) -> ! {
    let list = match WorkList::parse(boot.command_line) {
        Ok(list) => list,
        Err(bad) => panic!("{bad}"),
    };
    arch::set_serial_port(list.window);
    let machine = BootedMachine::start(list.cpus, list.timer);
    pstore::start();
    log::line(format_args!(
        "nostall's reference kernel, {} CPUs",
        list.cpus
    ));
    experiments::run(&list, boot.input, machine.clock(), || {
        report::send(&machine.ready());
    });
    report::send(&Event::Done);
    arch::end(arch::Ending::Success)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    trace::freeze();
    let place = info.location().map_or(("?", 0), |l| (l.file(), l.line()));
    let message = text(format_args!("{} ({}:{})", info.message(), place.0, place.1));
    log::last_line(format_args!(
        "Kernel panic: {} ({}:{})",
        info.message(),
        place.0,
        place.1
    ));
    let cpu = Cpu.id() as u16;
    die(&Event::Panic { cpu, message })
}

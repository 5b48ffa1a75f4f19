//! nostall's reference kernel: every core at work on bare metal.
//!
//! It boots, starts all CPUs, does the [work](nostall_work::WorkList) that its
//! command line lists, reports each piece as a line of JSON on a channel of its
//! own, and ends the machine. What is particular to a processor lies in the
//! folder of that name.

#![no_std]
#![no_main]

mod console;
mod crew;
mod example;
mod fail;
mod jobs;
mod log;
mod machine;
mod pci;
mod pstore;
mod report;
mod script;
mod second;
#[cfg(target_arch = "riscv64")]
mod spi;

#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;

#[cfg(target_arch = "riscv64")]
#[path = "riscv64/mod.rs"]
mod arch;

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicUsize, Ordering};

use nostall_io::{Clock, Nanos, Processor};
use nostall_work::{Event, WorkList, text};

use arch::Cpu;
use machine::Machine;

/// What the boot protocol brought.
struct Boot {
    command_line: &'static str,
    /// The text to send, or whatever else the work is about.
    input: &'static [u8],
}

/// The first CPU, with the machine up.
fn main(boot: &Boot) -> ! {
    let list = match WorkList::parse(boot.command_line) {
        Ok(list) => list,
        Err(bad) => panic!("{bad}"),
    };
    arch::set_serial_port(list.window);
    let machine = Machine::start(list.cpus, list.timer);
    log::start(*machine.clock());
    pstore::start();
    log::line(format_args!(
        "nostall's reference kernel, {} CPUs",
        list.cpus
    ));
    jobs::run(&list, boot.input, machine.clock(), || {
        report::send(&machine.ready());
    });
    report::send(&Event::Done);
    arch::end(arch::Ending::Success)
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
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

/// The CPU that dies first, plus 1.
static DYING: AtomicUsize = AtomicUsize::new(0);

/// Leaves the log in persistent RAM, because the kernel dies: after what is to be on a
/// console first, and before all else that is to be told.
///
/// Who dies in here, or dies again, keeps what there is. Who comes after another CPU waits
/// for it to end the machine; but not for ever, for it may be dead in here.
fn leave_record() {
    let me = Cpu.id() + 1;
    // Nor does a handler come in between, which may print for seconds, or die.
    Cpu.without_interrupts(|| {
        match DYING.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => pstore::last_words(),
            Err(first) if first == me => {}
            Err(_) => wait_for_the_end(),
        }
    });
}

/// Until the CPU that is at it ends the machine. By the clock: looks are short where a CPU
/// has nothing to relax, and that CPU's host may have it wait.
fn wait_for_the_end() {
    /// Longer than the record and all that is told take, on a busy host, too.
    const PATIENCE: Nanos = Nanos::from_secs(10);
    /// A dying machine's clock may stand still. More than there are in that time.
    const LOOKS: u32 = u32::MAX;

    // Without a clock there is no record to wait for either.
    let Some(clock) = log::clock() else { return };
    let deadline = clock.now() + PATIENCE;
    for _ in 0..LOOKS {
        if clock.now() >= deadline {
            return;
        }
        Cpu.relax();
    }
}

/// The end, of which the log has the reason by now.
fn die(report: &Event) -> ! {
    leave_record();
    report::last_words(report);
    arch::end(arch::Ending::Failure)
}

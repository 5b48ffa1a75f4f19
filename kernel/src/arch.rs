//! The list of items that an architecture supplies, in the folder of its name.
//!
//! | item | purpose |
//! | --- | --- |
//! | [`MAX_CPUS`], [`Cpu`] | the CPUs: their maximum number, and the current one |
//! | [`enter`] | brings up a CPU with the arguments that `boot.s` passes; a [`Boot`] on the first one |
//! | [`decode_trap`], [`Frame`] | handles the architecture's own traps, and decodes all others |
//! | [`start_cpus`] | starts the other CPUs, and calibrates the timers |
//! | [`enable_interrupts`] | enables this CPU's interrupts |
//! | [`sleep_unless`], [`wake`] | sleeps until the next interrupt; wakes sleeping CPUs |
//! | [`set_timer`] | sets the time of this CPU's next [`Trap::Timer`] |
//! | [`call_others`] | interrupts all other CPUs, with an NMI if the architecture has one: [`Trap::Call`] |
//! | [`hang`] | stops this CPU forever |
//! | [`MachineClock`], [`Ticks`] | the clock that all CPUs share, and its counter |
//! | [`SerialPort`], [`serial_port`], [`set_serial_port`], [`line_settings`] | the port under test |
//! | [`pci`] | access to PCI configuration space |
//! | [`persistent_ram`] | the RAM that outlives the kernel |
//! | [`clean`] | makes bytes in RAM survive a reset that discards the caches |
//! | [`with_writable_code`], [`see_new_code`], [`resume_at`] | change the kernel's own code |
//! | [`bus_check`] | checks each kind of device access |
//! | [`send_report`], [`end`], [`Ending`] | send a report to the host; end the machine |
//!
//! An architecture with a device tree takes the clock, reports, `SerialPort`, `pci` and `bus_check`
//! from `device_tree`. For that it supplies `Counter`, `counter_hz`, `MAPPED_GIB` and
//! `is_device_memory`. For SPI it supplies `interrupt_of` and `while_handled` (interrupts of
//! devices), `in_interrupt`, and `interrupts` (their counts).
//!
//! Its `boot.s` calls [`rust_entry`](crate::rust_entry) on each CPU, and its `traps.s` calls
//! [`rust_trap`](crate::rust_trap). An architecture calls no other entry point of the kernel.

#[cfg(target_arch = "aarch64")]
#[path = "aarch64/mod.rs"]
mod this;
#[cfg(target_arch = "riscv64")]
#[path = "riscv64/mod.rs"]
mod this;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod this;

use core::ffi::CStr;
use core::ops::{Range, RangeInclusive};
use core::ptr::NonNull;

use nostall_io::{Clock, Nanos, Processor, Registers};
use nostall_pci::mcfg::Segment;
use nostall_pci::{Environment, Ranges};
use nostall_uart::LineSettings;
use nostall_work::{ReportText, UartWindow};

use crate::boot::{Boot, NoRam};
use crate::trap::Trap;
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
pub use this::{Counter, MAPPED_GIB, counter_hz, is_device_memory};
pub use this::{
    Cpu, Ending, Frame, MAX_CPUS, MachineClock, SerialPort, Ticks, bus_check, call_others, clean,
    decode_trap, enable_interrupts, end, enter, hang, line_settings, pci, persistent_ram,
    resume_at, see_new_code, send_report, serial_port, set_serial_port, set_timer, sleep_unless,
    start_cpus, wake, with_writable_code,
};
#[cfg(target_arch = "riscv64")]
pub use this::{in_interrupt, interrupt_of, interrupts, spi, while_handled};

/// Fails to compile if an item of the list has a different type.
#[expect(clippy::type_complexity, reason = "each type is written once")]
const _: () = {
    const fn is_processor<T: Processor>() {}
    const fn is_clock<T: Clock + Copy + Send + Sync + 'static>() {}
    const fn is_port<T: Registers + Sync + 'static>() {}
    const fn is_window<T: Registers>() {}

    is_processor::<Cpu>();
    let _: RangeInclusive<usize> = 1..=MAX_CPUS;
    let _: fn(usize, usize, usize) -> Option<Boot> = enter;
    let _: fn(&Frame) -> Trap = decode_trap;
    let _: fn(u16, &MachineClock) -> u64 = start_cpus;
    let _: fn() = enable_interrupts;
    let _: fn(fn() -> Option<()>) -> Option<()> = sleep_unless;
    let _: fn(Option<usize>) = wake;
    let _: fn(&MachineClock, Nanos) = set_timer;
    let _: fn() = call_others;
    let _: fn() -> ! = hang;

    is_clock::<MachineClock>();
    let _: fn() -> MachineClock = MachineClock::find;
    let _: fn(&MachineClock) -> u64 = MachineClock::hz;

    is_port::<SerialPort>();
    let _: fn() -> SerialPort = serial_port;
    let _: fn(Option<UartWindow>) = set_serial_port;
    let _: fn() -> LineSettings = line_settings;

    is_window::<pci::PortWindow>();
    is_window::<pci::EcamWindow>();
    let _: fn() -> Option<pci::PortWindow> = pci::ports;
    let _: unsafe fn(NonNull<u8>, usize) -> pci::EcamWindow = pci::window;
    let _: fn(fn(Segment, Result<pci::EcamWindow, ReportText>)) -> Option<ReportText> =
        pci::each_window;
    let _: fn() -> Environment = pci::environment;
    let _: fn() -> Option<Ranges> = pci::ranges;

    let _: fn(Range<u64>) -> Result<(NonNull<u8>, usize), NoRam> = persistent_ram;
    let _: unsafe fn(NonNull<u8>, usize) -> usize = clean;
    let _: fn() = see_new_code;
    let _: Ticks = Ticks;
    let _: fn() = bus_check::run;
    let _: fn(&CStr) = send_report;
    let _: fn(Ending) -> ! = end;
    let _ = (Ending::Success, Ending::Failure);
};

//! A PC with one CPU: the legacy interrupt controllers and timer, which every PC emulates.

use core::arch::global_asm;

use nostall_console::{Clock, Nanos, Ports, Registers, Tsc};
pub use x86_64::instructions::interrupts::*;
use x86_64::{VirtAddr, instructions::tables};

global_asm!(include_str!("x86_64.s"), options(att_syntax));

pub type Port = Ports;
pub static CLOCK: Tsc = Tsc::new();
/// The serial port.
// SAFETY: ring 0, and the device does no DMA.
pub const PORT: Port = unsafe { Ports::new(0x3f8, 8) };
/// The interrupt controllers.
// SAFETY: as above.
const PICS: [Ports; 2] = unsafe { [Ports::new(0x20, 2), Ports::new(0xa0, 2)] };
// SAFETY: as above.
const TIMER: Ports = unsafe { Ports::new(0x40, 4) };
/// Gate and output of the timer's channel 2.
// SAFETY: as above.
const CONTROL: Ports = unsafe { Ports::new(0x61, 1) };
/// QEMU's device `isa-debug-exit`.
// SAFETY: as above.
const DEBUG_EXIT: Ports = unsafe { Ports::new(0x501, 1) };
/// The power management of QEMU's q35.
// SAFETY: as above.
const POWER: Ports = unsafe { Ports::new(0x604, 2) };

/// The timer's input clock, in hertz.
const TIMER_HZ: u64 = 1_193_182;

pub fn start_clock(_: usize) {
    // The minimum, because a loaded host prolongs some measurements by milliseconds.
    let measured = || (0..5).map(measured_rate).min();
    CLOCK.set_rate(Tsc::reported_rate().or_else(measured).unwrap_or(0));
}

/// Measures the counter's rate in hertz with the timer's channel 2, for 10 ms (8254 data sheet,
/// mode 0).
fn measured_rate(_: u32) -> u64 {
    const COUNT: u16 = (TIMER_HZ / 100) as u16;
    CONTROL.write8(0, CONTROL.read8(0) & !0b10 | 1); // the gate, and no speaker
    TIMER.write8(3, 0b1011_0000);
    let start = Tsc::ticks();
    TIMER.write_burst(2, &COUNT.to_le_bytes());
    while CONTROL.read8(0) & 1 << 5 == 0 {} // a missing timer reads all ones
    (Tsc::ticks() - start) * TIMER_HZ / u64::from(COUNT)
}

/// Interrupts at `at`, or after 50 ms if that is sooner (channel 0, mode 0).
pub fn set_timer(at: Nanos) {
    let span = (at - CLOCK.now()).0.min(50_000_000);
    let count = (span * TIMER_HZ / 1_000_000_000).max(1) as u16;
    TIMER.write8(3, 0b0011_0000);
    TIMER.write_burst(0, &count.to_le_bytes());
}

/// Enables the interrupts of the timer and the serial port, at vectors 32 and 36 (8259A data sheet,
/// "Initialization").
pub fn start_interrupts() {
    unsafe extern "C" {
        safe static trap_entries: u8;
    }
    static mut IDT: [u128; 48] = [0; 48];
    let gates = core::array::from_fn(|vector| {
        let entry = ((&raw const trap_entries).addr() + 16 * vector) as u128;
        (entry & 0xffff) | 0x8e00_0008_0000 | (entry >> 16) << 48
    });
    let base = VirtAddr::from_ptr(&raw const IDT);
    let limit = size_of::<[u128; 48]>() as u16 - 1;
    // SAFETY: the only CPU writes the table once, before the first interrupt.
    unsafe {
        IDT = gates;
        tables::lidt(&tables::DescriptorTablePointer { limit, base });
    }
    for (pic, words) in PICS.iter().zip([[32, 4, 1, !0b1_0001], [40, 2, 1, !0]]) {
        pic.write8(0, 0x11);
        words.into_iter().for_each(|word| pic.write8(1, word));
    }
}

/// Called by the entry of each vector, with interrupts masked.
#[unsafe(no_mangle)]
extern "C" fn trap(vector: u64, at: u64) {
    match vector {
        32 => super::on_timer(),
        36 => _ = super::CONSOLE.on_interrupt(),
        39 | 47 => return, // spurious
        _ => panic!("exception {vector} at {at:#x}"),
    }
    PICS[0].write8(0, 0x20); // end of interrupt
}

/// Ends QEMU with status 0, or with 1 after a panic.
pub fn power_off(orderly: bool) {
    match orderly {
        true => POWER.write16(0, 0x2000), // q35's ACPI
        false => DEBUG_EXIT.write8(0, 0),
    }
}

//! A Raspberry Pi 3 sends on both of its serial ports, and echoes on the first.
//!
//! The firmware starts the program at EL2, without translation: all memory is then of the device type,
//! which this program's plain loads and stores allow. On a real board, `enable_uart=1` in `config.txt` sets the
//! ports' clocks, and pins 14 and 15 must be switched to the port that is used. It was tried in QEMU
//! alone, which needs neither.

#![no_std]
#![no_main]

use core::fmt::Write;
use core::panic::PanicInfo;

use aarch64_rt::entry;
use nostall_io::{Cntvct, Mmio, MmioLayout, Registers, VirtualCounter};
use nostall_uart::{Console, ConsoleSettings, LineSettings, Model, Pl011};

/// Registers of the BCM2837 ("BCM2835 ARM Peripherals", sections 2.2 and 13.4; the addresses of its
/// bus, 0x7e00_0000, are 0x3f00_0000 for the CPUs).
// SAFETY: the board has it there, without translation, and the driver uses no DMA.
const PL011: Mmio = unsafe { Mmio::at(0x3f20_1000, 0x1000, MmioLayout::BYTES) };
// SAFETY: as above.
const MINI_UART: Mmio = unsafe { Mmio::at(0x3f21_5040, 0x40, MmioLayout::WORDS) };
/// Enables the mini UART (section 2.1.1, AUX_ENABLES).
// SAFETY: as above.
const AUX_ENABLES: Mmio = unsafe { Mmio::at(0x3f21_5004, 4, MmioLayout::WORDS) };

/// Input clocks: `init_uart_clock`, and `core_freq` (of which the mini UART takes 8 cycles for each
/// bit, where a 16550 takes 16).
const UART_CLOCK: u32 = 48_000_000;
const CORE_CLOCK: u32 = 250_000_000;

static CLOCK: Cntvct = Cntvct::new();

entry!(start);
fn start(_: u64, _: u64, _: u64, _: u64) -> ! {
    CLOCK.set_rate(VirtualCounter::hz());
    let line = LineSettings::baud(115_200);
    let uart = Pl011::new(PL011, Some(UART_CLOCK));
    let first = ConsoleSettings {
        model: Some(Model::Pl011), // with FIFOs of 16 bytes (section 13.1)
        ..line.into()
    };
    let mut first = Console::open(uart, &CLOCK, first).expect("a PL011");
    AUX_ENABLES.write32(0, 1);
    let settings = ConsoleSettings {
        model: Some(Model::Bcm2835Mini),
        ..LineSettings {
            input_clock: CORE_CLOCK * 2,
            ..line
        }
        .into()
    };
    let mut second = Console::open(MINI_UART, &CLOCK, settings).expect("a mini UART");
    let load = first.transmit_load();
    let _ = writeln!(first, "the PL011 takes {load} bytes at once");
    let load = second.transmit_load();
    let _ = writeln!(second, "the mini UART takes {load} byte at once");
    loop {
        let mut typed = None;
        first.receive_at_most(1, |byte| typed = Some(byte));
        if let Some(byte) = typed {
            first.write(&[byte]);
        }
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    if let Ok(mut console) = Console::unopened(
        Pl011::new(PL011, Some(UART_CLOCK)),
        &CLOCK,
        LineSettings::baud(115_200),
    ) {
        let _ = writeln!(console, "{info}");
    }
    loop {
        core::hint::spin_loop();
    }
}

//! Prints a file of the SD card of QEMU's sifive_u to its second serial port.
//! `scripts/spi-bare-metal` compares it.
//!
//!     make spi-bare-metal
#![no_std]
#![no_main]

use core::ptr::NonNull;

use nostall_io::{Clock, Mmio, MmioLayout, Nanos};
use nostall_spi::controllers::Sifive;
use nostall_spi::controllers::sifive::Completion;
use nostall_spi::{Bare, Bus};
use nostall_uart::{Console, ConsoleSettings, LineSettings, Newline, SifiveUart};

/// The third SPI controller, QSPI 2 (FU540-C000 Manual, "Memory Map").
const QSPI2: *mut u8 = 0x1005_0000 as _;

/// The second serial port; the firmware has the first.
// SAFETY: registers of this board, which only this program uses.
const UART1: Mmio = unsafe { Mmio::at(0x1001_1000, 0x1000, MmioLayout::BYTES) };

/// The devices' input clock after a reset: half of 33.33 MHz.
const TLCLK: u32 = 16_666_666;

#[riscv_rt::entry]
fn main() -> ! {
    let base = NonNull::new(QSPI2).expect("an address");
    // SAFETY: registers of this board, which only this program uses.
    let registers = unsafe { Mmio::new(base, 0x1000, MmioLayout::WORDS) }.expect("words, aligned");
    let controller = Sifive::new(registers, TLCLK, 1, Completion::Polled);
    let bus = Bus::new(controller, Bare(Timer));
    let settings = ConsoleSettings {
        newline: Newline::Lf,
        ..LineSettings::baud(115_200).into()
    };
    let uart = SifiveUart::new(UART1, Some(TLCLK));
    let mut out = Console::open(uart, Timer, settings).expect("a serial port");
    spi_examples::card::read(&bus, "CONTENT.TXT", |piece| {
        assert!(out.write(piece).is_complete());
    })
    .expect("a card with this file is in");
    semihosting::process::exit(0)
}

/// The counter `time`, at 1 MHz.
struct Timer;

impl Clock for Timer {
    fn now(&self) -> Nanos {
        Nanos::from_micros(riscv::register::time::read64())
    }
}

//! Runs the bare-metal program on QEMU's lm3s6965evb, whose SSI has an SD card and a
//! display. Checks the card's first block; `scripts/spi-bare-metal` checks the screen.
//!
//!     make spi-bare-metal
#![no_std]
#![no_main]

use core::panic::PanicInfo;

use cortex_m_semihosting::{debug, hprintln};
use spi_examples::interrupt;

#[cortex_m_rt::entry]
fn main() -> ! {
    spi_examples::board::set_up();
    let [block] = interrupt::main().expect("the bus works");
    let (text, zeros) = block.contents.split_at(16);
    assert_eq!(text, b"an SD card's own");
    assert!(zeros.iter().all(|byte| *byte == 0));
    let counted = interrupt::BUS.statistics();
    assert_eq!((counted.asynchronous, counted.errors), (1, 0));
    hprintln!("card read, display drawn: {} messages", counted.messages);
    loop {
        cortex_m::asm::wfi();
    }
}

/// The vectors behind the core's own: interrupt 0, GPIO port A's.
#[unsafe(link_section = ".vector_table.interrupts")]
#[unsafe(no_mangle)]
static __INTERRUPTS: [extern "C" fn(); 1] = [button];

extern "C" fn button() {
    interrupt::on_button();
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    hprintln!("{}", info);
    debug::exit(debug::EXIT_FAILURE);
    loop {}
}

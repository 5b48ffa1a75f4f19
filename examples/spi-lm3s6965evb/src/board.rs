//! What a HAL of this board would have: its SSI (ARM PL022) in loopback, its pins, a clock.

use core::convert::Infallible;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicU32, Ordering};

use cortex_m::interrupt::InterruptNumber;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m::peripheral::{NVIC, SYST};
use cortex_m_semihosting::debug;
use embedded_hal::digital::{self, OutputPin};
use embedded_hal::spi::{ErrorType, SpiBus};
use nostall_io::{Clock, Nanos};

/// SSI0 (LM3S6965 data sheet, "Synchronous Serial Interface"; PL022 TRM, "Register
/// descriptions").
pub struct Ssi0;

const SSI0: usize = 0x4000_8000;
const CR0: usize = SSI0;
const CR1: usize = SSI0 + 0x04;
const DR: usize = SSI0 + 0x08;
const SR: usize = SSI0 + 0x0c;
const CPSR: usize = SSI0 + 0x10;
/// `CR1`: the wires are joined; the SSI is enabled.
const LBM: u32 = 1 << 0;
const SSE: u32 = 1 << 1;
/// `SR`: something is in the receive FIFO; the SSI is busy.
const RNE: u32 = 1 << 2;
const BSY: u32 = 1 << 4;
/// GPIO port A (data sheet, "General-Purpose Input/Outputs"); clock gating (`RCGC1`, `RCGC2`).
const GPIO_A: usize = 0x4000_4000;
const GPIO_DIR: usize = GPIO_A + 0x400;
const RCGC1: usize = 0x400f_e104;
const RCGC2: usize = 0x400f_e108;

fn read(register: usize) -> u32 {
    // SAFETY: registers of this board, which only this program uses.
    unsafe { (register as *const u32).read_volatile() }
}

fn write(register: usize, value: u32) {
    // SAFETY: the same.
    unsafe { (register as *mut u32).write_volatile(value) }
}

pub fn set_up() {
    write(RCGC1, 1 << 4);
    write(RCGC2, 1);
    write(GPIO_DIR, 0b1100);
    write(CPSR, 2);
    write(CR0, 7);
    write(CR1, LBM | SSE);
    let mut systick = cortex_m::Peripherals::take().expect("once").SYST;
    systick.set_clock_source(SystClkSource::Core);
    systick.set_reload(0xff_ffff);
    systick.enable_counter();
    // SAFETY: its handler is there, and no critical section depends on it.
    unsafe { NVIC::unmask(Button) };
}

impl ErrorType for Ssi0 {
    type Error = Infallible;
}

impl SpiBus for Ssi0 {
    fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        words.fill(0);
        self.transfer_in_place(words)
    }
    fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        self.transfer(&mut [], words)
    }
    fn transfer(&mut self, into: &mut [u8], words: &[u8]) -> Result<(), Infallible> {
        for index in 0..into.len().max(words.len()) {
            let mut word = [words.get(index).copied().unwrap_or(0)];
            self.transfer_in_place(&mut word)?;
            if let Some(into) = into.get_mut(index) {
                *into = word[0];
            }
        }
        Ok(())
    }
    fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        for word in words {
            write(DR, (*word).into());
            while read(SR) & RNE == 0 {}
            *word = read(DR) as u8;
        }
        Ok(())
    }
    fn flush(&mut self) -> Result<(), Infallible> {
        while read(SR) & BSY != 0 {}
        Ok(())
    }
}

/// A pin of port A.
pub struct Line<const NUMBER: usize>;

impl<const NUMBER: usize> digital::ErrorType for Line<NUMBER> {
    type Error = Infallible;
}

impl<const NUMBER: usize> OutputPin for Line<NUMBER> {
    fn set_low(&mut self) -> Result<(), Infallible> {
        // The address says which pins are written.
        write(GPIO_A + (4 << NUMBER), 0);
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        write(GPIO_A + (4 << NUMBER), 1 << NUMBER);
        Ok(())
    }
}

/// The core's timer, of 24 bits, at 12 MHz: read often enough to see it wrap.
pub struct Systick;

impl Clock for Systick {
    fn now(&self) -> Nanos {
        static PASSED: AtomicU32 = AtomicU32::new(0);
        critical_section::with(|_| {
            let passed = PASSED.load(Ordering::Relaxed);
            let now = 0xff_ffff - SYST::get_current();
            let step = now.wrapping_sub(passed) & 0xff_ffff;
            let passed = passed.wrapping_add(step);
            PASSED.store(passed, Ordering::Relaxed);
            Nanos(u64::from(passed) * 1_000 / 12)
        })
    }
}

/// The interrupt of GPIO port A.
#[derive(Clone, Copy)]
pub struct Button;

// SAFETY: it is interrupt 0 (data sheet, "Interrupts").
unsafe impl InterruptNumber for Button {
    fn number(self) -> u16 {
        0
    }
}

extern "C" fn button() {
    crate::on_button();
}

/// The vectors behind the core's own: interrupt 0.
#[unsafe(link_section = ".vector_table.interrupts")]
#[unsafe(no_mangle)]
static __INTERRUPTS: [extern "C" fn(); 1] = [button];

static TOLD: AtomicU32 = AtomicU32::new(0);

pub fn tell(bytes: &[u8]) {
    let mut told = [0; 4];
    told[..bytes.len()].copy_from_slice(bytes);
    TOLD.store(u32::from_le_bytes(told), Ordering::Relaxed);
}

pub fn told() -> [u8; 2] {
    let [a, b, ..] = TOLD.load(Ordering::Relaxed).to_le_bytes();
    [a, b]
}

pub fn exit(good: bool) -> ! {
    debug::exit(if good {
        debug::EXIT_SUCCESS
    } else {
        debug::EXIT_FAILURE
    });
    loop {}
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(false)
}

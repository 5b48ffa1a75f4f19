//! The part of a HAL that the programs need, for TI's LM3S6965: its SSI (ARM PL022), its pins,
//! and the core's timer. It accesses registers only, so it builds for every small target.

use core::cell::Cell;
use core::convert::Infallible;

use critical_section::Mutex;
use embedded_hal::digital::{self, OutputPin};
use embedded_hal::spi::{ErrorType, MODE_0, SpiBus};
use nostall_io::{Clock, Nanos};
use nostall_spi::controllers::Hal;

/// SSI0 at 400 kHz. The SD card is selected with PD0, the display with the SSI's own PA3.
pub type Controller = Hal<Ssi0, (Line<GPIO_D, 0>, Line<GPIO_A, 3>, NotConnected)>;

pub const fn controller() -> Controller {
    let fixed = (400_000, MODE_0);
    Hal::new(Ssi0, (Line, Line, NotConnected), fixed)
}

/// The display's input that distinguishes data from commands.
pub type DataCommand = Line<GPIO_C, 7>;
#[allow(non_upper_case_globals)]
pub const DataCommand: DataCommand = Line;

/// The display's commands for all columns, all rows, and on (SSD0323 data sheet, "Command
/// Table").
pub const WHOLE_SCREEN: [u8; 7] = [0x15, 0, 63, 0x75, 0, 79, 0xaf];

/// A third chip select, and inputs that a board ties to its supply.
pub struct NotConnected;
pub use NotConnected as TiedHigh;

impl digital::ErrorType for NotConnected {
    type Error = Infallible;
}

impl OutputPin for NotConnected {
    fn set_low(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// SSI0 (LM3S6965 data sheet, "Synchronous Serial Interface"; PL022 TRM, "Register
/// descriptions").
pub struct Ssi0;

const SSI0: usize = 0x4000_8000;
const CR0: usize = SSI0;
const CR1: usize = SSI0 + 0x04;
const DR: usize = SSI0 + 0x08;
const SR: usize = SSI0 + 0x0c;
const CPSR: usize = SSI0 + 0x10;
/// `CR1`: the SSI is enabled.
const SSE: u32 = 1 << 1;
/// `SR`: the receive FIFO has data; the SSI is busy.
const RNE: u32 = 1 << 2;
const BSY: u32 = 1 << 4;
/// GPIO ports (data sheet, "General-Purpose Input/Outputs"), and offsets in each.
pub const GPIO_A: usize = 0x4000_4000;
pub const GPIO_C: usize = 0x4000_6000;
pub const GPIO_D: usize = 0x4000_7000;
const GPIO_F: usize = 0x4002_5000;
const DIR: usize = 0x400;
const AFSEL: usize = 0x420;
const DEN: usize = 0x51c;
/// Clock gating.
const RCGC1: usize = 0x400f_e104;
const RCGC2: usize = 0x400f_e108;
/// The core's timer, and its interrupt controller (Armv7-M ARM, B3.3 and B3.4).
const SYST_CSR: usize = 0xe000_e010;
const SYST_RVR: usize = 0xe000_e014;
const SYST_CVR: usize = 0xe000_e018;
const NVIC_ISER0: usize = 0xe000_e100;
const NVIC_ISPR0: usize = 0xe000_e200;

fn read(register: usize) -> u32 {
    // SAFETY: registers of this board, which only this program uses.
    unsafe { (register as *const u32).read_volatile() }
}

fn write(register: usize, value: u32) {
    // SAFETY: registers of this board, which only this program uses.
    unsafe { (register as *mut u32).write_volatile(value) }
}

pub fn set_up() {
    write(RCGC1, 1 << 4);
    write(RCGC2, 1 << 0 | 1 << 2 | 1 << 3 | 1 << 5);
    // Clock, input and output are the SSI's.
    write(GPIO_A + AFSEL, 0b11_0100);
    for (port, digital, outputs) in [
        (GPIO_A, 0b11_1100, 1 << 3),
        (GPIO_C, 1 << 7, 1 << 7),
        (GPIO_D, 1 << 0, 1 << 0),
    ] {
        write(port + DIR, outputs);
        write(port + DEN, digital);
        // Nothing is selected. The address selects the pins that are written.
        write(port + (outputs << 2) as usize, outputs);
    }
    write(GPIO_F + DIR, 1);
    write(GPIO_F + DEN, 1);
    set_led(false);
    // 12 MHz by 30; frames of 8 bits.
    write(CPSR, 30);
    write(CR0, 7);
    write(CR1, SSE);
    write(SYST_RVR, 0xff_ffff);
    write(SYST_CVR, 0);
    write(SYST_CSR, 0b101);
}

pub fn now() -> Nanos {
    Timer.now()
}

/// Enables the interrupt of GPIO port A, and requests it as a button would.
pub fn enable_button() {
    write(NVIC_ISER0, 1);
    write(NVIC_ISPR0, 1);
}

/// The board's status LED, at PF0.
pub fn set_led(on: bool) {
    write(GPIO_F + (4 << 0), on.into());
}

pub fn is_led_on() -> bool {
    read(GPIO_F + (4 << 0)) != 0
}

impl ErrorType for Ssi0 {
    type Error = Infallible;
}

impl SpiBus for Ssi0 {
    fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        words.fill(0xff);
        self.transfer_in_place(words)
    }
    fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        self.transfer(&mut [], words)
    }
    fn transfer(&mut self, into: &mut [u8], words: &[u8]) -> Result<(), Infallible> {
        for index in 0..into.len().max(words.len()) {
            let mut word = [words.get(index).copied().unwrap_or(0xff)];
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

/// Without DMA, nothing is awaited.
impl embedded_hal_async::spi::SpiBus for Ssi0 {
    async fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        SpiBus::read(self, words)
    }
    async fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        SpiBus::write(self, words)
    }
    async fn transfer(&mut self, into: &mut [u8], words: &[u8]) -> Result<(), Infallible> {
        SpiBus::transfer(self, into, words)
    }
    async fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        SpiBus::transfer_in_place(self, words)
    }
    async fn flush(&mut self) -> Result<(), Infallible> {
        SpiBus::flush(self)
    }
}

/// A pin of a port.
pub struct Line<const PORT: usize, const NUMBER: usize>;

impl<const PORT: usize, const NUMBER: usize> digital::ErrorType for Line<PORT, NUMBER> {
    type Error = Infallible;
}

impl<const PORT: usize, const NUMBER: usize> OutputPin for Line<PORT, NUMBER> {
    fn set_low(&mut self) -> Result<(), Infallible> {
        write(PORT + (4 << NUMBER), 0);
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        write(PORT + (4 << NUMBER), 1 << NUMBER);
        Ok(())
    }
}

/// The core's 24-bit timer at 12 MHz, which must be read at least once per second to see it wrap.
pub struct Timer;

impl Clock for Timer {
    fn now(&self) -> Nanos {
        static PASSED: Mutex<Cell<u64>> = Mutex::new(Cell::new(0));
        critical_section::with(|section| {
            let passed = PASSED.borrow(section);
            let now = 0xff_ffff - read(SYST_CVR);
            let step = now.wrapping_sub(passed.get() as u32) & 0xff_ffff;
            passed.set(passed.get() + u64::from(step));
            Nanos(passed.get() * 1_000 / 12)
        })
    }
}

//! On a host: models of the chips in the place of a HAL and its hardware.

use std::convert::Infallible;
use std::future::poll_fn;
use std::mem::{replace, take};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use embedded_hal::digital::{self, OutputPin};
use embedded_hal::spi::{ErrorType, MODE_0, SpiBus};
use nostall_devices::spi::{Flash, Target};
use nostall_io::HostClock;
use nostall_spi::controllers::Hal;

/// A bus at 8 MHz, and three chip selects.
pub type Controller = Hal<Spi, (Line<0>, Line<1>, Line<2>)>;

pub const fn controller() -> Controller {
    Hal::new(Spi, (Line, Line, Line), (8_000_000, MODE_0))
}

/// The chips, and the one that is selected.
struct Wires {
    flash: Flash<HostClock>,
    reader: Reader,
    display: Display,
    selected: Option<usize>,
}

static WIRES: LazyLock<Mutex<Wires>> = LazyLock::new(|| {
    Mutex::new(Wires {
        flash: Flash::new(HostClock::new()),
        reader: Reader::default(),
        display: Display::default(),
        selected: None,
    })
});

fn wires() -> MutexGuard<'static, Wires> {
    WIRES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Wires {
    fn chip(&mut self, line: usize) -> &mut dyn Target {
        match line {
            0 => &mut self.flash,
            1 => &mut self.reader,
            _ => &mut self.display,
        }
    }
}

/// The display's memory.
pub fn shown() -> Vec<u8> {
    wires().display.memory.clone()
}

pub struct Spi;

impl ErrorType for Spi {
    type Error = Infallible;
}

impl SpiBus for Spi {
    fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        words.fill(0);
        self.transfer_in_place(words)
    }
    fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        self.transfer_in_place(&mut words.to_vec())
    }
    fn transfer(&mut self, into: &mut [u8], words: &[u8]) -> Result<(), Infallible> {
        let mut both = words.to_vec();
        both.resize(into.len().max(words.len()), 0);
        self.transfer_in_place(&mut both)?;
        into.copy_from_slice(&both[..into.len()]);
        Ok(())
    }
    fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        let mut wires = wires();
        let selected = wires.selected.expect("a chip is selected");
        for word in words {
            *word = wires.chip(selected).exchange(*word);
        }
        Ok(())
    }
    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Other tasks run during a transfer, as with DMA.
impl embedded_hal_async::spi::SpiBus for Spi {
    async fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        others_run().await;
        SpiBus::read(self, words)
    }
    async fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        others_run().await;
        SpiBus::write(self, words)
    }
    async fn transfer(&mut self, into: &mut [u8], words: &[u8]) -> Result<(), Infallible> {
        others_run().await;
        SpiBus::transfer(self, into, words)
    }
    async fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        others_run().await;
        SpiBus::transfer_in_place(self, words)
    }
    async fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

async fn others_run() {
    let mut polled = false;
    poll_fn(|context| match replace(&mut polled, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// A chip select, low while it is asserted.
pub struct Line<const NUMBER: usize>;

impl<const NUMBER: usize> digital::ErrorType for Line<NUMBER> {
    type Error = Infallible;
}

impl<const NUMBER: usize> OutputPin for Line<NUMBER> {
    fn set_low(&mut self) -> Result<(), Infallible> {
        let mut wires = wires();
        assert_eq!(wires.selected.replace(NUMBER), None, "two are selected");
        wires.chip(NUMBER).select();
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        let mut wires = wires();
        if wires.selected.take_if(|line| *line == NUMBER).is_some() {
            wires.chip(NUMBER).release();
        }
        Ok(())
    }
}

/// A chip's input that the board ties to its supply.
pub struct TiedHigh;

impl digital::ErrorType for TiedHigh {
    type Error = Infallible;
}

impl OutputPin for TiedHigh {
    fn set_low(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// The display's input that distinguishes data from commands.
pub struct DataCommand;

impl digital::ErrorType for DataCommand {
    type Error = Infallible;
}

impl OutputPin for DataCommand {
    fn set_low(&mut self) -> Result<(), Infallible> {
        wires().display.data = false;
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        wires().display.data = true;
        Ok(())
    }
}

/// Number of the card at the reader.
pub const CARD: [u8; 4] = [0x6e, 0x6f, 0x73, 0x74];

/// The part of an MFRC522 that a driver needs to read a card's number, with a card of ISO 14443
/// type A before it. Its data sheet, sections 8.1.2, "Serial Peripheral Interface", and 9,
/// "Registers".
struct Reader {
    registers: [u8; 64],
    fifo: Vec<u8>,
    /// The first byte since the selection: a register, and the direction.
    address: Option<u8>,
}

const COMMAND: u8 = 0x01;
const COM_IRQ: u8 = 0x04;
const DIV_IRQ: u8 = 0x05;
const FIFO_DATA: u8 = 0x09;
const FIFO_LEVEL: u8 = 0x0a;
const BIT_FRAMING: u8 = 0x0d;
const CRC_HIGH: u8 = 0x21;
const CRC_LOW: u8 = 0x22;
const RECEIVED: u8 = 1 << 5;
const TIMER: u8 = 1 << 0;

impl Default for Reader {
    fn default() -> Self {
        Self {
            registers: [0; 64],
            fifo: Vec::new(),
            address: None,
        }
    }
}

impl Target for Reader {
    fn select(&mut self) {
        self.address = None;
    }
    fn exchange(&mut self, byte: u8) -> u8 {
        let Some(address) = self.address else {
            self.address = Some(byte);
            return 0;
        };
        let register = address >> 1 & 0x3f;
        if address & 0x80 == 0 {
            self.write(register, byte);
            return 0;
        }
        self.address = Some(byte);
        match register {
            FIFO_DATA if !self.fifo.is_empty() => self.fifo.remove(0),
            FIFO_LEVEL => self.fifo.len() as u8,
            _ => self.registers[usize::from(register)],
        }
    }
    fn release(&mut self) {}
}

impl Reader {
    fn write(&mut self, register: u8, byte: u8) {
        let index = usize::from(register);
        match register {
            FIFO_DATA => self.fifo.push(byte),
            FIFO_LEVEL => self.fifo.clear(),
            // Bit 7 decides whether the marked bits are set or cleared.
            COM_IRQ | DIV_IRQ => self.registers[index] &= !byte,
            _ => self.registers[index] = byte,
        }
        match (register, byte & 0x8f) {
            // CalcCRC.
            (COMMAND, 0x03) => {
                let [low, high] = crc(&take(&mut self.fifo));
                self.registers[usize::from(CRC_LOW)] = low;
                self.registers[usize::from(CRC_HIGH)] = high;
                self.registers[usize::from(DIV_IRQ)] |= 1 << 2;
            }
            // StartSend, of Transceive.
            (BIT_FRAMING, 0x80..) if self.registers[usize::from(COMMAND)] == 0x0c => {
                self.fifo = answer(&take(&mut self.fifo));
                let irq = if self.fifo.is_empty() {
                    TIMER
                } else {
                    RECEIVED
                };
                self.registers[usize::from(COM_IRQ)] |= irq;
            }
            _ => {}
        }
    }
}

/// The card's answer to a frame (ISO/IEC 14443-3, section 6); empty if there is none.
fn answer(frame: &[u8]) -> Vec<u8> {
    let [a, b, c, d] = CARD;
    let number = [a, b, c, d, a ^ b ^ c ^ d];
    match frame {
        // REQA and WUPA: a number of 4 bytes.
        [0x26] | [0x52] => vec![0x04, 0x00],
        [0x93, 0x20] => number.to_vec(),
        [0x93, 0x70, rest @ ..] if rest.starts_with(&number) && crc(frame) == [0, 0] => {
            let [low, high] = crc(&[0x08]);
            vec![0x08, low, high]
        }
        _ => Vec::new(),
    }
}

/// Returns CRC_A (ISO/IEC 14443-3, section 6.2.4).
fn crc(bytes: &[u8]) -> [u8; 2] {
    let crc = bytes.iter().fold(0x6363_u16, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte), |crc, _| {
            (crc >> 1) ^ ((crc & 1) * 0x8408)
        })
    });
    crc.to_le_bytes()
}

/// The memory of an SSD1306 of 128 by 64 pixels, and the commands that address it (its data
/// sheet, section 10.1.3).
struct Display {
    data: bool,
    memory: Vec<u8>,
    command: Vec<u8>,
    /// First, last and next column; then pages.
    columns: [usize; 3],
    pages: [usize; 3],
}

impl Default for Display {
    fn default() -> Self {
        Self {
            data: false,
            memory: vec![0; 1024],
            command: Vec::new(),
            columns: [0, 127, 0],
            pages: [0, 7, 0],
        }
    }
}

impl Target for Display {
    fn select(&mut self) {}
    fn exchange(&mut self, byte: u8) -> u8 {
        if !self.data {
            self.command.push(byte);
            self.run();
            return 0xff;
        }
        self.memory[self.pages[2] * 128 + self.columns[2]] = byte;
        if advance(&mut self.columns) {
            advance(&mut self.pages);
        }
        0xff
    }
    fn release(&mut self) {}
}

impl Display {
    fn run(&mut self) {
        match self.command[..] {
            [0x21, first, last] => self.columns = [first, last, first].map(|it| it.into()),
            [0x22, first, last] => self.pages = [first, last, first].map(|it| it.into()),
            // Not complete yet.
            [0x21 | 0x22] | [0x21 | 0x22, _] => return,
            [0x20 | 0x81 | 0x8d | 0xa8 | 0xd3 | 0xd5 | 0xd9 | 0xda | 0xdb] => return,
            _ => {}
        }
        self.command.clear();
    }
}

/// Steps to the next position. Returns whether that is the first one.
fn advance(range: &mut [usize; 3]) -> bool {
    let wraps = range[2] == range[1];
    range[2] = if wraps { range[0] } else { range[2] + 1 };
    wraps
}

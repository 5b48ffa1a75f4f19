//! A driver for a flash chip from crates.io on the crate's devices, with a model of the chip.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use embedded_hal::digital::{ErrorType as PinError, OutputPin};
use embedded_hal::spi::{ErrorType, SpiBus};
use nostall_devices::VirtualClock;
use nostall_spi::controllers::{AsyncHal, Hal};
use nostall_spi::{Bare, Bus, Controller, Mode, Settings, Slots};
use w25q32jv::W25q32jv;

/// The functions of a W25Q32JV that a driver needs (its data sheet, section "Instructions").
struct Chip {
    memory: Vec<u8>,
    writable: bool,
    /// Number of status reads until the current operation is done.
    busy: u32,
    selected: bool,
    /// Bytes of the command since the chip was selected.
    received: Vec<u8>,
    selections: u32,
}

impl Chip {
    const SIZE: usize = 4 << 20;

    fn clock(&mut self, byte: u8) -> u8 {
        assert!(self.selected, "a transfer without a selected chip");
        let at = self.received.len();
        self.received.push(byte);
        match (self.received[0], at) {
            (0x05, 1..) => {
                let busy = self.busy > 0;
                self.busy = self.busy.saturating_sub(1);
                u8::from(self.writable) << 1 | u8::from(busy)
            }
            (0x03, 4..) => self.memory[(self.address() + at - 4) % Self::SIZE],
            (0x4b, 5..=12) => at as u8,
            _ => 0xff,
        }
    }

    fn address(&self) -> usize {
        let bytes = &self.received[1..4];
        bytes
            .iter()
            .fold(0, |address, &byte| address << 8 | usize::from(byte))
            % Self::SIZE
    }

    /// A command takes effect when the chip is released.
    fn release(&mut self) {
        let command = std::mem::take(&mut self.received);
        self.received.clone_from(&command);
        let change = |chip: &mut Self, change: &mut dyn FnMut(&mut Self)| {
            if std::mem::take(&mut chip.writable) && chip.busy == 0 {
                change(chip);
                chip.busy = 3;
            }
        };
        let erase = |size: usize| {
            move |chip: &mut Self| {
                let start = chip.address() / size * size;
                chip.memory[start..start + size].fill(0xff);
            }
        };
        match command.first() {
            Some(0x06) => self.writable = true,
            Some(0x02) => change(self, &mut |chip| {
                let (page, within) = (chip.address() & !0xff, chip.address() & 0xff);
                for (index, &byte) in command[4..].iter().enumerate() {
                    // Writing only clears bits, and wraps at the end of a page.
                    chip.memory[page + (within + index) % 256] &= byte;
                }
            }),
            Some(0x20) => change(self, &mut erase(4 << 10)),
            Some(0x52) => change(self, &mut erase(32 << 10)),
            Some(0xd8) => change(self, &mut erase(64 << 10)),
            _ => {}
        }
        self.received.clear();
    }
}

#[derive(Clone)]
struct Shared(Rc<RefCell<Chip>>);

impl ErrorType for Shared {
    type Error = Infallible;
}

impl SpiBus for Shared {
    fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        words.fill(0);
        self.transfer_in_place(words)
    }
    fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        self.transfer_in_place(&mut words.to_vec())
    }
    fn transfer(&mut self, read: &mut [u8], write: &[u8]) -> Result<(), Infallible> {
        for index in 0..read.len().max(write.len()) {
            let byte = write.get(index).copied().unwrap_or(0);
            let came = self.0.borrow_mut().clock(byte);
            if let Some(into) = read.get_mut(index) {
                *into = came;
            }
        }
        Ok(())
    }
    fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        for word in words {
            *word = self.0.borrow_mut().clock(*word);
        }
        Ok(())
    }
    fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// An asynchronous transfer takes one more poll than necessary.
impl embedded_hal_async::spi::SpiBus for Shared {
    async fn read(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        later().await;
        SpiBus::read(self, words)
    }
    async fn write(&mut self, words: &[u8]) -> Result<(), Infallible> {
        later().await;
        SpiBus::write(self, words)
    }
    async fn transfer(&mut self, read: &mut [u8], write: &[u8]) -> Result<(), Infallible> {
        later().await;
        SpiBus::transfer(self, read, write)
    }
    async fn transfer_in_place(&mut self, words: &mut [u8]) -> Result<(), Infallible> {
        later().await;
        SpiBus::transfer_in_place(self, words)
    }
    async fn flush(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

async fn later() {
    let mut polled = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        match std::mem::replace(&mut polled, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

/// The chip's select line.
struct Line(Shared);

impl PinError for Line {
    type Error = Infallible;
}

impl OutputPin for Line {
    fn set_low(&mut self) -> Result<(), Infallible> {
        let mut chip = self.0.0.borrow_mut();
        chip.selected = true;
        chip.selections += 1;
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        let mut chip = self.0.0.borrow_mut();
        chip.selected = false;
        chip.release();
        Ok(())
    }
}

/// A pin of the driver that is not connected.
struct Unwired;

impl PinError for Unwired {
    type Error = Infallible;
}

impl OutputPin for Unwired {
    fn set_low(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
    fn set_high(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

type FlashBus<C> = Bus<C, Bare<VirtualClock>, Slots<4, 0, 0>>;

fn chip<C: Controller>(
    controller: fn(Shared, [Line; 1], (u32, Mode)) -> C,
) -> (FlashBus<C>, Shared) {
    let chip = Shared(Rc::new(RefCell::new(Chip {
        memory: vec![0x55; Chip::SIZE],
        writable: false,
        busy: 0,
        selected: false,
        received: Vec::new(),
        selections: 0,
    })));
    let fixed = (SETTINGS.clock, SETTINGS.mode);
    let hal = controller(chip.clone(), [Line(chip.clone())], fixed);
    let bus = Bus::sized(hal, Bare(VirtualClock::new()));
    (bus, chip)
}

const SETTINGS: Settings = Settings::new(20_000_000, 0);

fn text() -> Vec<u8> {
    (0..1_000_u32)
        .map(|index| (index * 7 % 251) as u8)
        .collect()
}

#[test]
fn a_flash_driver_erases_writes_and_reads_back() {
    let (bus, chip) = chip(Hal::new);
    let device = bus.device(SETTINGS).unwrap();
    let mut flash = W25q32jv::new(device, Unwired, Unwired).unwrap();
    assert_eq!(flash.device_id().unwrap(), [5, 6, 7, 8, 9, 10, 11, 12]);
    let mut before = [0; 4096];
    flash.read(0x1000, &mut before).unwrap();
    assert!(before.iter().all(|&byte| byte == 0x55));
    flash.erase_sector(1).unwrap();
    flash.write_blocking(0x1080, &text()).unwrap();
    let mut after = [0; 4096];
    flash.read(0x1000, &mut after).unwrap();
    assert_eq!(&after[0x80..0x80 + 1000], text());
    assert!(after[0x80 + 1000..].iter().all(|&byte| byte == 0xff));
    let chip = chip.0.borrow();
    assert_eq!((chip.memory[0xfff], chip.memory[0x2000]), (0x55, 0x55));
    assert!(!chip.selected);
    let statistics = bus.statistics();
    assert_eq!(statistics.messages, chip.selections);
    assert_eq!((statistics.errors, statistics.asynchronous), (0, 0));
}

#[test]
fn the_asynchronous_flash_driver_does_the_same() {
    let (bus, chip) = chip(AsyncHal::new);
    let device = bus.device(SETTINGS).unwrap();
    let mut flash = W25q32jv::new(device, Unwired, Unwired).unwrap();
    block_on(async {
        flash.erase_sector_async(1).await.unwrap();
        flash.write_async(0x1080, &text()).await.unwrap();
        // A message of any length: it stays in its caller's memory.
        let mut back = vec![0; text().len()];
        flash.read_async(0x1080, &mut back).await.unwrap();
        assert_eq!(back, text());
    });
    let statistics = bus.statistics();
    assert_eq!(statistics.messages, chip.0.borrow().selections);
    assert_eq!((statistics.errors, statistics.asynchronous), (0, 0));
}

/// A minimal executor.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}

//! Models of other crates with our driver, and another driver with our model.

use std::cell::RefCell;
use std::convert::Infallible;

use nostall_devices::VirtualClock;
use nostall_devices::uart::{Profile, Uart};
use nostall_io::{Counting, Registers};
use nostall_uart::registers::{LSR, lsr};
use nostall_uart::{Console, LineSettings, Model, Strategy};
use uart_16550::backend::Backend;
use uart_16550::spec::registers::LSR as PeerLsr;
use uart_16550::{Config, Uart16550};
use vm_superio::serial::{NoEvents, Serial};

const TEXT: &[u8] = include_bytes!("../../../../lab/nostall-lab/fixtures/console/linux-boot.log");

struct NoInterrupt;

impl vm_superio::Trigger for NoInterrupt {
    type E = Infallible;

    fn trigger(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// rust-vmm's model behind a window.
struct Superio(RefCell<Serial<NoInterrupt, NoEvents, Vec<u8>>>);

impl Registers for Superio {
    fn read8(&self, offset: usize) -> u8 {
        self.0.borrow_mut().read(offset as u8)
    }

    fn write8(&self, offset: usize, value: u8) {
        self.0.borrow_mut().write(offset as u8, value).unwrap();
    }
}

#[test]
fn every_byte_arrives_in_vm_superio_with_every_strategy() {
    let expected = String::from_utf8_lossy(TEXT).replace('\n', "\r\n");
    for strategy in Strategy::ALL {
        let port = Superio(RefCell::new(Serial::new(NoInterrupt, Vec::new())));
        let line = LineSettings::baud(115_200);
        let mut console = Console::open(port, VirtualClock::new(), line).unwrap();
        console.set_strategy(strategy);
        assert!(console.write(TEXT).is_complete(), "{strategy}");
        console.flush().unwrap();
        let serial = console.registers().0.borrow();
        assert!(*serial.writer() == expected.as_bytes(), "{strategy}");
    }
}

/// A window as the backend of the `uart_16550` crate.
struct Window<R>(R);

impl<R: Registers> Backend for Window<R> {
    unsafe fn read(&mut self, offset: u8) -> u8 {
        self.0.read8(offset.into())
    }

    unsafe fn write(&mut self, offset: u8, value: u8) {
        self.0.write8(offset.into(), value);
    }
}

#[test]
fn the_uart_16550_crate_passes_its_loopback_test_and_delivers_every_byte() {
    // The `uart_16550` crate detects a port with its scratch register, which the 8250 does not
    // have.
    for model in Model::ALL.into_iter().filter(|model| model.has_scratch()) {
        let (port, _clock) = Uart::in_virtual_time_as(model, Profile::PC_16550A, Vec::new());
        // SAFETY: the registers are those of a model, which accesses no memory.
        let mut driver = unsafe { Uart16550::new_with_backend(Window(&port)) };
        driver.init(Config::default()).unwrap();
        if matches!(model, Model::Bcm2835Mini | Model::Uart16650) {
            // These models take one byte at a time, and that driver sends 16.
            continue;
        }
        driver.test_loopback().unwrap();
        assert!(port.with(|uart| uart.sink_mut().is_empty()), "{model}");
        let text = &TEXT[..2_500];
        driver.send_bytes_exact(text);
        while port.read8(LSR) & lsr::TEMT == 0 {}
        assert_eq!(port.with(|uart| uart.lost()), 0, "{model}");
        assert!(port.with(|uart| *uart.sink_mut() == text), "{model}");
    }
}

/// Returns the bus accesses of the `uart_16550` crate's driver for a write of `len` bytes, until
/// the last bit has left.
fn accesses_of_uart_16550(len: usize) -> u64 {
    let (port, _clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let port = Counting::new(port);
    // SAFETY: the registers are those of a model, which accesses no memory.
    let mut driver = unsafe { Uart16550::new_with_backend(Window(&port)) };
    driver.init(Config::default()).unwrap();
    let before = port.counts();
    driver.send_bytes_exact(&vec![b'x'; len]);
    while !driver.lsr().contains(PeerLsr::TRANSMITTER_EMPTY) {}
    (port.counts() - before).bus_accesses()
}

/// Returns the bus accesses of our driver for the same write.
fn accesses_of_ours(strategy: Strategy, len: usize, receives: bool) -> u64 {
    let (port, clock) = Uart::in_virtual_time(Profile::VM, Vec::new());
    let line = LineSettings::baud(115_200);
    let mut console = Console::open(Counting::new(port), clock, line).unwrap();
    console.set_strategy(strategy);
    if receives {
        console.enable_receive();
    }
    let before = console.registers().counts();
    assert!(console.write(&vec![b'x'; len]).is_complete());
    console.flush().unwrap();
    (console.registers().counts() - before).bus_accesses()
}

#[test]
fn a_write_of_1_4_16_or_64_bytes_costs_the_accesses_that_the_uart_16550_crate_needs() {
    for (len, accesses) in [(1, 3), (4, 6), (16, 18), (64, 69)] {
        assert_eq!(accesses_of_uart_16550(len), accesses, "{len} bytes");
        for strategy in [
            Strategy::FifoPolled,
            Strategy::FifoBurst,
            Strategy::FifoPaced,
        ] {
            let ours = |receives| accesses_of_ours(strategy, len, receives);
            assert_eq!(ours(false), accesses, "{strategy}, {len} bytes");
            // The receive interrupt is masked before the write, and enabled after it.
            assert_eq!(ours(true), accesses + 2, "{strategy}, {len} bytes");
        }
    }
}

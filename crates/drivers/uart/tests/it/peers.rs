//! Models of other crates with our driver, and another driver with our model.

use std::cell::RefCell;
use std::convert::Infallible;

use nostall_devices::VirtualClock;
use nostall_devices::uart::{Profile, Uart};
use nostall_io::{Counting, Registers};
use nostall_uart::registers::{self as ours, LSR, fcr, ier, lcr, lsr, mcr, msr};
use nostall_uart::{Console, LineSettings, Model, Strategy};
use uart_16550::backend::Backend;
use uart_16550::spec::registers as theirs;
use uart_16550::spec::registers::offsets;
use uart_16550::{Config, Uart16550};
use vm_superio::serial::{NoEvents, Serial};

const TEXT: &[u8] = include_bytes!("../../../../lab/nostall-lab/fixtures/console/linux-boot.log");

/// Our models have our driver's constants, so a wrong one would be wrong on both sides.
#[test]
fn registers_and_their_bits_are_those_of_another_crate() {
    let bits = [
        (ier::RECEIVED_DATA, theirs::IER::DATA_READY.bits()),
        (ier::TRANSMITTER_EMPTY, theirs::IER::THR_EMPTY.bits()),
        (ier::LINE_STATUS, theirs::IER::RECEIVER_LINE_STATUS.bits()),
        (ier::MODEM_STATUS, theirs::IER::MODEM_STATUS.bits()),
        (ours::iir::NONE, theirs::ISR::INTERRUPT_STATUS.bits()),
        (fcr::ENABLE, theirs::FCR::FIFO_ENABLE.bits()),
        (fcr::CLEAR_RECEIVE, theirs::FCR::RX_FIFO_RESET.bits()),
        (fcr::CLEAR_TRANSMIT, theirs::FCR::TX_FIFO_RESET.bits()),
        (fcr::DMA_MODE, theirs::FCR::DMA_MODE.bits()),
        (lcr::STOP, theirs::LCR::MORE_STOP_BITS.bits()),
        (lcr::PARITY, theirs::LCR::PARITY0.bits()),
        (lcr::EVEN, theirs::LCR::PARITY1.bits()),
        (lcr::STICK, theirs::LCR::PARITY2.bits()),
        (lcr::BREAK, theirs::LCR::SET_BREAK.bits()),
        (lcr::DLAB, theirs::LCR::DLAB.bits()),
        (mcr::DTR, theirs::MCR::DTR.bits()),
        (mcr::RTS, theirs::MCR::RTS.bits()),
        (mcr::OUT1, theirs::MCR::OUT_1.bits()),
        (mcr::OUT2, theirs::MCR::OUT_2_INT_ENABLE.bits()),
        (mcr::LOOP, theirs::MCR::LOOP_BACK.bits()),
        (lsr::DATA_READY, theirs::LSR::DATA_READY.bits()),
        (lsr::OVERRUN, theirs::LSR::OVERRUN_ERROR.bits()),
        (lsr::PARITY, theirs::LSR::PARITY_ERROR.bits()),
        (lsr::FRAMING, theirs::LSR::FRAMING_ERROR.bits()),
        (lsr::BREAK, theirs::LSR::BREAK_INTERRUPT.bits()),
        (lsr::THRE, theirs::LSR::THR_EMPTY.bits()),
        (lsr::TEMT, theirs::LSR::TRANSMITTER_EMPTY.bits()),
        (lsr::FIFO_ERROR, theirs::LSR::FIFO_DATA_ERROR.bits()),
        (msr::DELTA_CTS, theirs::MSR::DELTA_CTS.bits()),
        (msr::DELTA_DSR, theirs::MSR::DELTA_DSR.bits()),
        (msr::TRAILING_RI, theirs::MSR::TRAILING_EDGE_RI.bits()),
        (msr::DELTA_DCD, theirs::MSR::DELTA_CD.bits()),
        (msr::CTS, theirs::MSR::CTS.bits()),
        (msr::DSR, theirs::MSR::DSR.bits()),
        (msr::RI, theirs::MSR::RI.bits()),
        (msr::DCD, theirs::MSR::CD.bits()),
    ];
    for (nth, (ours, theirs)) in bits.into_iter().enumerate() {
        assert_eq!(ours, theirs, "bit {nth} of the list");
    }
    let registers = [
        [ours::THR, ours::IER, ours::IIR, ours::FCR, ours::LCR],
        [ours::MCR, LSR, ours::MSR, ours::SCR, ours::DLM],
    ];
    let others = [
        [
            offsets::DATA,
            offsets::IER,
            offsets::ISR,
            offsets::FCR,
            offsets::LCR,
        ],
        [
            offsets::MCR,
            offsets::LSR,
            offsets::MSR,
            offsets::SPR,
            offsets::DLM,
        ],
    ];
    assert_eq!(registers, others);
}

/// Polls until the last bit has left; a line that never ends is an error, not a test without an end.
fn await_end(is_over: impl FnMut() -> bool) {
    let polls = std::iter::repeat_with(is_over).take(10_000_000);
    assert!(
        polls.into_iter().any(|is_over| is_over),
        "the line does not end"
    );
}

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
        await_end(|| port.read8(LSR) & lsr::TEMT != 0);
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
    await_end(|| driver.lsr().contains(theirs::LSR::TRANSMITTER_EMPTY));
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

//! Measures another crate's driver on a serial port in virtual time: no hardware, and the same
//! figures on every machine.
//!
//! ```text
//! cargo run -p nostall-devices --example virtual_time
//! ```

use std::error::Error;

use nostall_devices::uart::{Profile, Uart};
use nostall_io::{Clock, Counting, Nanos, Registers};
use nostall_uart::{Console, LineSettings, Strategy};
use uart_16550::backend::Backend;
use uart_16550::spec::registers::LSR;
use uart_16550::{BaudRate, Config, Uart16550};

/// Register window as the backend of the crate `uart_16550`.
struct Window<R>(R);

impl<R: Registers> Backend for Window<R> {
    unsafe fn read(&mut self, offset: u8) -> u8 {
        self.0.read8(offset.into())
    }

    unsafe fn write(&mut self, offset: u8, value: u8) {
        self.0.write8(offset.into(), value);
    }
}

const TEXT: [u8; 1000] = [b'x'; 1000];
/// Time at which the line of 115,200 baud must have sent the text, generously.
const LONGEST: Nanos = Nanos::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    theirs()?;
    ours()
}

fn theirs() -> Result<(), Box<dyn Error>> {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let window = Counting::new(&port);
    // SAFETY: a model takes every access, at any offset.
    let mut uart = unsafe { Uart16550::new_with_backend(Window(&window)) };
    uart.init(Config {
        baud_rate: BaudRate::Baud115200,
        ..Config::DEFAULT
    })?;
    let (begin, before) = (clock.now(), window.counts());
    let mut sent = 0;
    while sent < TEXT.len() && clock.now() < begin + LONGEST {
        sent += uart.send_bytes(&TEXT[sent..]);
    }
    while !uart.lsr().contains(LSR::TRANSMITTER_EMPTY) && clock.now() < begin + LONGEST {}
    let accesses = (window.counts() - before).bus_accesses();
    println!(
        "uart_16550:   {accesses} bus accesses, {}",
        clock.now() - begin
    );
    assert_eq!(port.with(|uart| uart.sink_mut().len()), TEXT.len());
    Ok(())
}

fn ours() -> Result<(), Box<dyn Error>> {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let window = Counting::new(&port);
    let mut console = Console::open(&window, &clock, LineSettings::baud(115_200))?;
    let (begin, before) = (clock.now(), window.counts());
    console.set_strategy(Strategy::FifoPaced);
    console.write(&TEXT);
    console.flush()?;
    let accesses = (window.counts() - before).bus_accesses();
    println!(
        "nostall-uart: {accesses} bus accesses, {}",
        clock.now() - begin
    );
    assert_eq!(port.with(|uart| uart.sink_mut().len()), TEXT.len());
    Ok(())
}

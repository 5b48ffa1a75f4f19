//! Counts the register accesses of a driver, before and after its improvement.
//!
//! ```text
//! cargo run -p nostall-io --example count
//! ```

use std::cell::Cell;

use nostall_io::{Counting, Counts, Registers};

const DATA: usize = 0;
const STATUS: usize = 5;
const FIFO_IS_EMPTY: u8 = 0x20;
const FIFO_BYTES: usize = 16;

/// Stand-in for a device: its FIFO is empty at every tenth read of the status.
///
/// For a real device, pass an `Mmio`, a `Ports` or a `DevPort` window to the same driver.
struct Device {
    reads: Cell<u32>,
}

impl Registers for Device {
    fn read8(&self, offset: usize) -> u8 {
        let reads = self.reads.get() + 1;
        self.reads.set(reads);
        match offset {
            STATUS if reads.is_multiple_of(10) => FIFO_IS_EMPTY,
            _ => 0,
        }
    }

    fn write8(&self, _offset: usize, _value: u8) {}

    // The ports of a PC are like this: `rep outsb` moves a whole burst.
    fn burst_instructions(&self, _values: usize) -> usize {
        1
    }
}

/// Waits for an empty FIFO, for a bounded number of polls.
fn wait(device: &impl Registers) -> Result<(), &'static str> {
    let is_empty = |_: &u32| device.read8(STATUS) & FIFO_IS_EMPTY != 0;
    let found = (0..1000).find(is_empty);
    found.map(drop).ok_or("the device does not answer")
}

/// Waits before each byte.
fn send_bytes(device: &impl Registers, bytes: &[u8]) -> Result<(), &'static str> {
    for &byte in bytes {
        wait(device)?;
        device.write8(DATA, byte);
    }
    Ok(())
}

/// Waits once for each FIFO, and fills it with one burst.
fn send_bursts(device: &impl Registers, bytes: &[u8]) -> Result<(), &'static str> {
    for burst in bytes.chunks(FIFO_BYTES) {
        wait(device)?;
        device.write_burst(DATA, burst);
    }
    Ok(())
}

fn main() -> Result<(), &'static str> {
    let device = Counting::new(Device {
        reads: Cell::new(0),
    });
    let text = [b'x'; 160];

    send_bytes(&device, &text)?;
    let bytes = device.counts();
    report("byte by byte", bytes);
    send_bursts(&device, &text)?;
    let bursts = device.counts() - bytes;
    report("FIFO by FIFO", bursts);

    assert_eq!((bytes.reads, bytes.writes), (1600, 160));
    assert_eq!((bursts.reads, bursts.burst_values), (100, 160));
    Ok(())
}

fn report(name: &str, counts: Counts) {
    let (instructions, accesses) = (counts.register_instructions(), counts.bus_accesses());
    println!("{name}: {instructions} register instructions, {accesses} bus accesses");
}

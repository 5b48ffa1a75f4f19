//! Cost of a guest's accesses to the serial port model, compared with vm-superio and a bare store.
//!
//! In a VMM, an exit adds some microseconds to each access. These tables show the models' share.

use std::convert::Infallible;
use std::hint::black_box;
use std::io;

use nostall_bench::{Effort, Limit, Table, Unit, main as bench};
use nostall_devices::VirtualClock;
use nostall_devices::uart::{Line, Serial, Uart};
use nostall_io::{Clock, HostClock};
use nostall_uart::registers::{DLL, DLM, FCR, IIR, LCR, LSR, MSR, SCR, THR, fcr, lcr};

/// A sink that accepts every byte at once.
struct Terminal;

impl io::Write for Terminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(black_box(bytes).len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An unconnected interrupt line.
struct NoInterrupt;

impl vm_superio::Trigger for NoInterrupt {
    type E = Infallible;

    fn trigger(&self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Register accesses of a guest.
trait Port {
    fn read(&mut self, offset: usize) -> u8;
    fn write(&mut self, offset: usize, value: u8);
}

impl<C: Clock> Port for Serial<(), C, Terminal> {
    fn read(&mut self, offset: usize) -> u8 {
        Serial::read(self, offset)
    }
    fn write(&mut self, offset: usize, value: u8) {
        Serial::write(self, offset, value).expect("it cannot fail");
    }
}

type Superio = vm_superio::Serial<NoInterrupt, vm_superio::serial::NoEvents, Terminal>;

impl Port for Superio {
    fn read(&mut self, offset: usize) -> u8 {
        vm_superio::Serial::read(self, offset as u8)
    }
    fn write(&mut self, offset: usize, value: u8) {
        vm_superio::Serial::write(self, offset as u8, value).expect("it cannot fail");
    }
}

/// A register file without a device, as the lower limit.
struct Bare([u8; 8]);

impl Port for Bare {
    fn read(&mut self, offset: usize) -> u8 {
        self.0[offset]
    }
    fn write(&mut self, offset: usize, value: u8) {
        self.0[offset] = value;
    }
}

/// Adds a row for each port, with FIFOs enabled. With a rate, nostall's ports send all the time.
fn rows(
    table: &mut Table<'_>,
    line: Line,
    goal: Option<Limit>,
    act: impl Fn(&mut dyn Port) + Copy + 'static,
) {
    let superio = Superio::new(NoInterrupt, Terminal);
    let host = Uart::new(HostClock::new(), line, Terminal);
    let virtual_time = Uart::new(VirtualClock::new(), line, Terminal);
    let virtual_time = Serial::new(virtual_time, ());
    let ports: [(&str, Option<Limit>, Box<dyn Port>); 4] = [
        ("vm-superio 0.8.2", None, Box::new(superio)),
        (
            "a bare register file: the limit",
            None,
            Box::new(Bare([0; 8])),
        ),
        (
            "nostall, host's clock",
            goal,
            Box::new(Serial::new(host, ())),
        ),
        ("nostall, virtual time", None, Box::new(virtual_time)),
    ];
    for (name, goal, mut port) in ports {
        port.write(FCR, fcr::ENABLE);
        if line == Line::Baud {
            // The lowest rate: a full FIFO takes 91 s.
            for (register, value) in [(LCR, lcr::DLAB), (DLL, 0xff), (DLM, 0xff), (LCR, 3)] {
                port.write(register, value);
            }
            (0..16).for_each(|_| port.write(THR, b'x'));
        }
        table.row(name, goal, move |times| {
            for _ in 0..times {
                act(&mut *port);
            }
        });
    }
}

fn read_status(port: &mut dyn Port) {
    black_box(port.read(black_box(LSR)));
}

fn tables(effort: Effort) {
    let peer = Some(Limit::RatioAtMost(1.3));
    let mut table = Table::new("One read of the line status", Unit::Nanoseconds);
    rows(&mut table, Line::AtOnce, peer, read_status);
    table.print(effort);

    let mut table = Table::new("One read each of IIR, MSR and SCR", Unit::Nanoseconds);
    rows(&mut table, Line::AtOnce, None, |port| {
        for register in black_box([IIR, MSR, SCR]) {
            black_box(port.read(register));
        }
    });
    table.print(effort);

    let mut table = Table::new("One byte: status read and write", Unit::Nanoseconds);
    rows(&mut table, Line::AtOnce, None, |port| {
        read_status(port);
        port.write(black_box(THR), b'x');
    });
    table.print(effort);

    let mut table = Table::new(
        "A FIFO of 16 bytes: status read and writes",
        Unit::Nanoseconds,
    );
    rows(&mut table, Line::AtOnce, peer, |port| {
        read_status(port);
        for byte in black_box(b"sixteen letters!") {
            port.write(THR, *byte);
        }
    });
    table.print(effort);

    let mut table = Table::new(
        "One read of the line status, while a line with a rate sends",
        Unit::Nanoseconds,
    );
    let clock = HostClock::new();
    table.row(
        "one read of the host's clock: the limit",
        None,
        move |times| {
            for _ in 0..times {
                black_box(clock.now());
            }
        },
    );
    rows(
        &mut table,
        Line::Baud,
        Some(Limit::RatioAtMost(1.2)),
        read_status,
    );
    table.print(effort);
}

fn main() {
    bench(&[("uart", tables)]);
}

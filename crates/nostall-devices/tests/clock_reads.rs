//! How often the serial port model reads its clock: only where the time decides what an access does.

use std::cell::Cell;

use nostall_devices::VirtualClock;
use nostall_devices::uart::{Line, Serial, Uart};
use nostall_io::{Clock, Nanos};
use nostall_uart::registers::*;

/// A virtual clock that counts its readings.
#[derive(Debug, Default)]
struct Counting {
    time: VirtualClock,
    readings: Cell<u64>,
}

impl Clock for &Counting {
    fn now(&self) -> Nanos {
        self.readings.set(self.readings.get() + 1);
        self.time.now()
    }
}

impl Counting {
    /// Returns the number of readings during `act`.
    fn during(&self, act: impl FnOnce()) -> u64 {
        let before = self.readings.get();
        act();
        self.readings.get() - before
    }
}

type Port<'c> = Serial<(), &'c Counting, Vec<u8>>;

/// Duration of a frame at 115,200 baud, 8N1.
const FRAME: Nanos = Nanos(86_805);

/// Returns a port at 115,200 baud, 8N1, with FIFOs on.
fn port(clock: &Counting, line: Line) -> Port<'_> {
    let mut port = Serial::new(Uart::new(clock, line, Vec::new()), ());
    for (register, value) in [(LCR, lcr::DLAB), (DLL, 1), (LCR, 3), (FCR, fcr::ENABLE)] {
        write(&mut port, register, value);
    }
    port
}

fn write(port: &mut Port<'_>, register: usize, value: u8) {
    port.write(register, value).expect("it cannot fail");
}

/// Returns the number of clock readings of one register read.
fn reading(clock: &Counting, port: &mut Port<'_>, register: usize) -> u64 {
    clock.during(|| _ = port.read(register))
}

#[test]
fn a_guest_that_prints_on_a_line_without_a_rate_causes_no_reading_of_the_clock() {
    let clock = Counting::default();
    let mut port = port(&clock, Line::AtOnce);
    for enabled in [0, ier::TRANSMITTER_EMPTY, 0x0f] {
        write(&mut port, IER, enabled);
        for _ in 0..3 {
            for register in 0..8 {
                port.read(register);
            }
            (0..16).for_each(|_| write(&mut port, THR, b'x'));
        }
        for (register, value) in [(MCR, mcr::OUT2), (SCR, 1), (LCR, 3), (FCR, fcr::ENABLE)] {
            write(&mut port, register, value);
        }
        port.tend().expect("it cannot fail");
    }
    assert_eq!(clock.readings.get(), 0);
    assert_eq!(port.uart_mut().sink_mut().len(), 3 * 3 * 16);
}

#[test]
fn a_burst_on_a_line_with_a_rate_reads_the_clock_once_an_access_until_the_last_bit_has_left() {
    let clock = Counting::default();
    let mut port = port(&clock, Line::Baud);
    write(&mut port, IER, ier::TRANSMITTER_EMPTY);
    port.read(IIR);
    port.read(LSR);
    assert_eq!(clock.readings.get(), 0, "the transmitter is idle");
    let burst = clock.during(|| (0..16).for_each(|_| write(&mut port, THR, b'x')));
    assert_eq!(burst, 16);
    for _ in 0..16 {
        clock.time.advance(FRAME);
        assert_eq!(reading(&clock, &mut port, LSR), 1);
    }
    assert_eq!(port.read(LSR), lsr::THRE | lsr::TEMT);
    assert_eq!(reading(&clock, &mut port, LSR), 0);
    assert_eq!(reading(&clock, &mut port, IIR), 0);
    assert_eq!(port.uart_mut().sink_mut().len(), 16);
}

#[test]
fn a_write_that_finds_the_last_frame_sent_and_starts_the_next_reads_the_clock_once() {
    let clock = Counting::default();
    let mut port = port(&clock, Line::Baud);
    write(&mut port, THR, b'x');
    clock.time.advance(FRAME);
    assert_eq!(clock.during(|| write(&mut port, THR, b'y')), 1);
    assert_eq!(port.uart_mut().next_event(), Some(FRAME * 2));
}

#[test]
fn input_reads_the_clock_once_an_access_until_its_timeout_has_occurred() {
    let clock = Counting::default();
    let mut port = port(&clock, Line::AtOnce);
    write(&mut port, FCR, fcr::ENABLE | 0x80);
    write(&mut port, IER, ier::RECEIVED_DATA);
    let input = clock.during(|| assert_eq!(port.receive(b"three"), Ok(5)));
    assert_eq!(input, 1);
    assert_eq!(reading(&clock, &mut port, LSR), 1);
    clock.time.advance(FRAME * 4);
    assert_eq!(port.read(IIR) & iir::ID, iir::TIMEOUT);
    assert_eq!(reading(&clock, &mut port, LSR), 0);
    assert_eq!(reading(&clock, &mut port, RBR), 1, "a new timeout");
    let rest = clock.during(|| (0..4).for_each(|_| _ = port.read(RBR)));
    assert_eq!(rest, 4);
    assert_eq!(reading(&clock, &mut port, LSR), 0, "nothing is stored");
}

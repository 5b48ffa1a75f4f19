//! A virtual machine's port whose reader takes bytes in batches: timer interrupts and rate.
#![cfg(not(miri))] // Long runs in virtual time.

use std::cell::{Cell, RefCell};
use std::sync::Mutex;

use crate::common::META;
use nostall_console::{Caller, Drain, Offered, Priority, Ring, Sink, SinkOptions, Slot};
use nostall_devices::VirtualClock;
use nostall_io::{Clock, Nanos, Registers};
use nostall_uart::registers::{FCR, IIR, LCR, LSR, THR, iir, lcr, lsr};
use nostall_uart::{Console, ConsoleSettings, LineSettings, Model};

/// Rate of the reader in bytes per second.
const RATE: u64 = 11_520;

const FIFO: usize = 16;

/// Behavior of the reader at the other end of the port.
#[derive(Clone, Copy, Debug)]
struct Reader {
    /// Mean time between two visits. Each visit is early or late by up to half of it.
    period: Nanos,
    /// Maximum number of bytes that it takes in a visit. An unused allowance above this is lost.
    credit: u64,
    /// Bytes that fit between the FIFO and the reader.
    pipe: u64,
}

/// A port with a FIFO of 16 bytes, a pipe behind it, and a reader that takes batches from the pipe.
struct Port {
    clock: VirtualClock,
    reader: Reader,
    random: Cell<u64>,
    next_visit: Cell<Nanos>,
    last_visit: Cell<Nanos>,
    /// The reader's allowance in billionths of a byte; see [`BYTE`].
    credit: Cell<u64>,
    in_fifo: Cell<u64>,
    in_pipe: Cell<u64>,
    taken: Cell<u64>,
    latches: RefCell<[u8; 8]>,
}

const BYTE: u64 = 1_000_000_000;

impl Port {
    fn new(clock: &VirtualClock, reader: Reader, seed: u64) -> Self {
        Self {
            clock: clock.clone(),
            reader,
            random: Cell::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            next_visit: Cell::new(Nanos::ZERO),
            last_visit: Cell::new(Nanos::ZERO),
            credit: Cell::new(0),
            in_fifo: Cell::new(0),
            in_pipe: Cell::new(0),
            taken: Cell::new(0),
            latches: RefCell::default(),
        }
    }

    fn random(&self) -> u64 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.set(x);
        x
    }

    fn fill_pipe(&self) {
        let moved = self
            .in_fifo
            .get()
            .min(self.reader.pipe - self.in_pipe.get());
        self.in_fifo.set(self.in_fifo.get() - moved);
        self.in_pipe.set(self.in_pipe.get() + moved);
    }

    /// Runs the visits that are due.
    fn visit(&self) {
        while self.next_visit.get() <= self.clock.now() {
            let at = self.next_visit.get();
            let earned = (at - self.last_visit.get()).0 * RATE;
            let most = self.reader.credit * BYTE;
            let mut credit = (self.credit.get() + earned).min(most);
            // Each byte that leaves the pipe makes room for one from the FIFO.
            while credit >= BYTE && self.in_pipe.get() > 0 {
                self.in_pipe.set(self.in_pipe.get() - 1);
                self.taken.set(self.taken.get() + 1);
                credit -= BYTE;
                self.fill_pipe();
            }
            self.credit.set(credit);
            self.last_visit.set(at);
            let period = self.reader.period.0;
            let next = at + Nanos(period / 2 + self.random() % period);
            self.next_visit.set(next);
        }
    }

    fn access(&self) {
        self.clock.advance(Nanos::from_micros(1));
        self.visit();
    }
}

impl Registers for Port {
    fn read8(&self, offset: usize) -> u8 {
        self.access();
        match offset {
            LSR if self.in_fifo.get() == 0 => lsr::THRE | lsr::TEMT,
            LSR => 0,
            IIR => iir::FIFOS | iir::NONE,
            _ => self.latches.borrow()[offset],
        }
    }

    fn write8(&self, offset: usize, value: u8) {
        self.access();
        match offset {
            THR if self.latches.borrow()[LCR] & lcr::DLAB == 0 => {
                self.in_fifo.set(self.in_fifo.get() + 1);
                assert!(self.in_fifo.get() <= FIFO as u64, "the FIFO is full");
                self.fill_pipe();
            }
            THR | FCR => {}
            _ => self.latches.borrow_mut()[offset] = value,
        }
    }
}

struct Serial<'p>(Mutex<Console<&'p Port, VirtualClock>>);

impl Sink for Serial<'_> {
    fn offer(&self, text: &[u8], _: Caller) -> Offered {
        self.0.lock().unwrap().offer(text)
    }
}

/// Duration of a run.
const RUN: Nanos = Nanos::from_secs(1);

/// Returns the number of bytes that the reader gets from a driver that polls the port continuously.
fn best(reader: Reader, seed: u64) -> u64 {
    let clock = VirtualClock::new();
    let port = Port::new(&clock, reader, seed);
    while clock.now() < RUN {
        if port.read8(LSR) & lsr::THRE != 0 {
            (0..FIFO).for_each(|_| port.write8(THR, b'x'));
        } else {
            clock.advance(Nanos::from_micros(4));
        }
    }
    port.taken.get()
}

/// Sends with a slice at each timer interrupt. Returns the number of bytes that the reader got, and
/// the number of timer interrupts.
fn drained(reader: Reader, seed: u64) -> (u64, u64) {
    let clock = VirtualClock::new();
    let port = Port::new(&clock, reader, seed);
    let settings = ConsoleSettings {
        model: Some(Model::Uart16550A),
        ..LineSettings::baud(115_200).into()
    };
    let console = Console::open(&port, clock.clone(), settings).unwrap();
    let ring = Ring::<[Slot; 512]>::new();
    let drain = Drain::new(&ring, Serial(Mutex::new(console)), SinkOptions::DEFAULT);
    for n in 0..400 {
        ring.format(&META, format_args!("{n} {}", "x".repeat(40)));
    }
    let start = port.taken.get();
    let until = clock.now() + RUN;
    let mut interrupts = 0;
    while clock.now() < until {
        let next = drain.drain_bounded(0, Priority::Normal, &clock);
        clock.sleep_until(next.time().expect("there is always more"));
        // The duration of the interrupt itself.
        clock.advance(Nanos::from_micros(2));
        interrupts += 1;
    }
    (port.taken.get() - start, interrupts)
}

#[test]
fn a_reader_that_takes_batches_costs_at_most_four_timer_interrupts_a_fifo_at_full_rate() {
    let us = Nanos::from_micros;
    for (period, credit, pipes) in [
        (us(100), 16, &[1, 5, 16, 64][..]),
        (us(150), 16, &[1, 5, 16, 64]),
        (us(500), 16, &[1, 5, 16, 64]),
        (us(500), 64, &[1, 16]),
        // This reader empties the FIFO and the pipe between two visits.
        (us(1_400), 64, &[16, 64]),
    ] {
        for &pipe in pipes {
            let reader = Reader {
                period,
                credit,
                pipe,
            };
            for seed in 1..=20 {
                let (bytes, interrupts) = drained(reader, seed);
                let fifos = bytes / FIFO as u64;
                assert!(
                    interrupts <= 4 * fifos,
                    "{reader:?}, run {seed}: {interrupts} interrupts, {fifos} FIFOs"
                );
                let best = best(reader, seed);
                assert!(
                    bytes * 100 >= best * 97,
                    "{reader:?}, run {seed}: {bytes} bytes of {best}"
                );
            }
        }
    }
}

//! The cost of a log console on the port under test.

use core::fmt;

use nostall_console::layout::PAYLOAD;
use nostall_console::{Drain, Level, Meta, Priority, Ring, SinkOptions, Slot, UartSink};
use nostall_io::{Clock, Processor, Registers};
use nostall_uart::Console;
use nostall_work::ConsoleCost;

use crate::arch::{self, Cpu};

/// Lines of each measurement.
const LINES: u64 = 12;

/// Bytes of a line's text.
const TEXT: usize = 100;

/// Bytes of the port's FIFO.
const FIFO: usize = 16;

/// Number of line lengths whose slices are measured. With this many, a FIFO ends at nearly any
/// position of a line.
const LENGTHS: usize = 16;

/// Bytes before a line's text: its timestamp.
const PREFIX: u64 = 15;

/// Position of the first byte of a line's second record.
const SECOND: u64 = PREFIX + PAYLOAD as u64;

/// A line's text of this length, printed in pieces.
struct Text(usize);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const PIECE: &str = "a text of 25 bytes, a log";
        for _ in 0..self.0 / PIECE.len() {
            f.write_str(PIECE)?;
        }
        f.write_str(&PIECE[..self.0 % PIECE.len()])
    }
}

/// Measures slices of one FIFO, and whole lines.
// Not inlined: its drains need kilobytes of stack, which would reduce the stack of other work.
#[inline(never)]
pub fn measure<C: Clock>(clock: &C) -> ConsoleCost {
    static RING: Ring<[Slot; 256]> = Ring::new();
    let port = arch::serial_port();
    let console = match Console::open(&port, clock, arch::line_settings()) {
        Ok(console) => console,
        Err(error) => panic!("serial port: {error}"),
    };
    let options = SinkOptions::DEFAULT;
    let drain = Drain::new(&RING, UartSink::new(console), options.slice(1));
    let mut cost = ConsoleCost::default();
    for text in TEXT..TEXT + LENGTHS {
        for _ in 0..LINES {
            log(&RING, clock, format_args!("{}", Text(text)));
        }
        slices(&drain, clock, text, &mut cost);
    }
    let drain = Drain::new(&RING, drain.sink(), options);
    drain.start_at(RING.newest() + 1);
    let line = |text| {
        let took = |_| {
            let ((), took) = without_interrupts(clock, || {
                log(&RING, clock, format_args!("{}", Text(text)));
                while let Some(time) = drain.drain_bounded(0, Priority::Normal, clock).time() {
                    clock.wait_until(time);
                }
            });
            took
        };
        (0..LINES).map(took).max().unwrap_or(0)
    };
    // The drain learns that the port is ready at once.
    line(TEXT);
    cost.line = line(TEXT);
    cost.further_fifo = line(TEXT + FIFO).saturating_sub(cost.line);
    cost
}

/// Measures the slices that send lines with texts of this size.
fn slices<C: Clock>(
    drain: &Drain<'_, UartSink<impl Registers, impl Clock>>,
    clock: &C,
    text: usize,
    cost: &mut ConsoleCost,
) {
    let start = drain.bytes();
    let line = PREFIX + text as u64 + 1;
    loop {
        let first = drain.bytes();
        let (next, took) =
            without_interrupts(clock, || drain.drain_bounded(0, Priority::Normal, clock));
        // A line consists of two records.
        let is_first = |at: u64| matches!((at - start) % line, 0 | SECOND);
        let kind = match (first..drain.bytes()).any(is_first) {
            true => &mut cost.begins,
            false => &mut cost.within,
        };
        *kind = (*kind).max(took);
        let Some(time) = next.time() else { break };
        clock.wait_until(time);
    }
}

/// Returns the result of `act` and its duration in nanoseconds.
fn without_interrupts<T>(clock: &impl Clock, act: impl FnOnce() -> T) -> (T, u64) {
    Cpu.without_interrupts(|| {
        let start = clock.now();
        let result = act();
        (result, (clock.now() - start).0)
    })
}

fn log(ring: &Ring, clock: &impl Clock, text: fmt::Arguments<'_>) {
    let meta = Meta {
        time: clock.now(),
        cpu: 0,
        level: Level::Info,
        priority: Priority::Normal,
        target: "",
    };
    ring.format(&meta, text);
}

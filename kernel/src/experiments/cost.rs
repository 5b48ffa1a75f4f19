//! The cost of a log console on the port under test.

use core::fmt;

use nostall_console::layout::PAYLOAD;
use nostall_console::{Drain, Level, Meta, Priority, Ring, SinkOptions, Slot, UartSink};
use nostall_io::{Clock, Processor};
use nostall_uart::Console;
use nostall_work::ConsoleCost;

use crate::arch::{self, Cpu};

/// Lines of each measurement: their lengths are such that a FIFO ends at each of their bytes.
const LINES: u64 = 60;

/// Bytes of a FIFO.
const FIFO: u64 = 16;

/// Bytes before a line's text: its time.
const PREFIX: u64 = 15;

/// First byte of a line's second record.
const SECOND: u64 = PREFIX + PAYLOAD as u64;

/// Bytes of a line without its carriage return.
const LINE: u64 = PREFIX + 101;

/// The text of a line, 100 bytes.
struct Text;

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for _ in 0..4 {
            f.write_str("a text of 25 bytes, a log")?;
        }
        Ok(())
    }
}

/// Measures slices of a FIFO, and whole lines.
#[inline(never)] // Its locals are not to be on the stack of other work.
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
    for _ in 0..LINES {
        log(&RING, clock, format_args!("{Text}"));
    }
    loop {
        let first = drain.bytes();
        let (next, took) =
            without_interrupts(clock, || drain.drain_bounded(0, Priority::Normal, clock));
        // A carriage return takes a byte of the FIFO.
        let is_full = drain.bytes() - first + 1 >= FIFO;
        // A line is two records.
        let is_first = |at: u64| matches!(at % LINE, 0 | SECOND);
        let kind = match (first..drain.bytes()).any(is_first) {
            true => &mut cost.begins,
            false => &mut cost.within,
        };
        if is_full {
            *kind = (*kind).max(took);
        }
        let Some(time) = next.time() else { break };
        clock.wait_until(time);
    }
    let drain = Drain::new(&RING, drain.sink(), options);
    drain.start_at(RING.newest() + 1);
    for _ in 0..LINES {
        let ((), took) = without_interrupts(clock, || {
            log(&RING, clock, format_args!("{Text}"));
            while let Some(time) = drain.drain_bounded(0, Priority::Normal, clock).time() {
                clock.wait_until(time);
            }
        });
        cost.line = cost.line.max(took);
    }
    cost
}

/// Returns the result of `act` and the nanoseconds that it takes.
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

//! The cost of a log console on the port under test.

use core::fmt;

use nostall_console::{Drain, Level, Meta, Priority, Ring, SinkOptions, Slot, UartSink};
use nostall_io::Clock;
use nostall_uart::Console;
use nostall_work::ConsoleCost;

use crate::arch;

/// Lines of each measurement: their lengths are such that a FIFO ends at each of their bytes.
const LINES: u64 = 60;

/// Bytes of a FIFO.
const FIFO: u64 = 16;

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
        let (record, bytes) = (drain.position(), drain.bytes());
        let start = clock.now();
        let next = drain.drain_bounded(0, Priority::Normal, clock);
        let took = (clock.now() - start).0;
        let is_full = drain.bytes() - bytes + FIFO / 8 >= FIFO;
        let is_within = record == drain.position() && record != 0;
        match is_within {
            true if is_full => cost.within = cost.within.max(took),
            false if is_full => cost.begins = cost.begins.max(took),
            _ => {}
        }
        let Some(time) = next.time() else { break };
        clock.wait_until(time);
    }
    let drain = Drain::new(&RING, drain.sink(), options);
    drain.start_at(RING.newest() + 1);
    for _ in 0..LINES {
        let start = clock.now();
        log(&RING, clock, format_args!("{Text}"));
        while let Some(time) = drain.drain_bounded(0, Priority::Normal, clock).time() {
            clock.wait_until(time);
        }
        cost.line = cost.line.max((clock.now() - start).0);
    }
    cost
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

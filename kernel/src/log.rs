//! The kernel's log: what it leaves behind when it dies.

use core::fmt;

use nostall_console::{Level, Meta, Priority, Ring, Slot};
use nostall_io::{Clock, Nanos, Processor};
use nostall_work::console::SLOTS;
use spin::Once;

use crate::arch::{Cpu, MachineClock};

/// Bytes that are shown, the newest.
const SHOWN: usize = 4096;

static CLOCK: Once<MachineClock> = Once::new();

/// All that was logged. A dead kernel's is found in its RAM by its signature.
pub static RING: Ring<[Slot; SLOTS]> = Ring::new();

/// From now on lines have a time.
pub fn start(clock: MachineClock) {
    CLOCK.call_once(|| clock);
}

fn now() -> Nanos {
    CLOCK.get().map_or(Nanos::ZERO, Clock::now)
}

/// Logs a line.
pub fn line(text: fmt::Arguments<'_>) {
    let meta = Meta {
        time: now(),
        cpu: Cpu.id() as u16,
        level: Level::Info,
        priority: Priority::Normal,
        target: "",
    };
    RING.format(&meta, text);
}

/// Shows the time and the newest lines, as Linux has them: `[    1.234567] text`.
pub fn with(look: impl FnOnce(Nanos, &[u8])) {
    look(now(), RING.tail(&mut [0; SHOWN]));
}

//! The kernel's log: what it leaves behind when it dies.

use core::fmt;

use nostall_console::{Level, Meta, Priority, Ring, Slot};
use nostall_io::{Clock, Nanos, Processor};
use nostall_work::console::SLOTS;
use spin::Mutex;

use crate::arch::Cpu;
use crate::cpu;

/// Bytes that are shown, the newest: what a zone of 64 KiB has room for, with its headers.
const SHOWN: usize = 63 << 10;

/// Too much for a stack.
static SHOWN_HERE: Mutex<[u8; SHOWN]> = Mutex::new([0; SHOWN]);

/// All that was logged. A dead kernel's is found in its RAM by its signature.
pub static RING: Ring<[Slot; SLOTS]> = Ring::new();

fn now() -> Nanos {
    cpu::clock().map_or(Nanos::ZERO, Clock::now)
}

/// Logs a line.
pub fn line(text: fmt::Arguments<'_>) {
    add(Level::Info, Priority::Normal, text);
}

/// Logs why the kernel dies.
pub fn last_line(text: fmt::Arguments<'_>) {
    add(Level::Emergency, Priority::Panic, text);
}

fn add(level: Level, priority: Priority, text: fmt::Arguments<'_>) {
    let meta = Meta {
        time: now(),
        cpu: Cpu.id() as u16,
        level,
        priority,
        target: "",
    };
    RING.format(&meta, text);
}

/// Shows the time and the newest lines, as Linux has them: `[    1.234567] text`. To one
/// at a time; nothing to others.
pub fn with(look: impl FnOnce(Nanos, &[u8])) {
    if let Some(mut room) = SHOWN_HERE.try_lock() {
        look(now(), RING.tail(&mut *room));
    }
}

//! The kernel's log: what it leaves behind when it dies.

use core::fmt::{self, Write};

use nostall_io::{Clock, Nanos, Processor};
use spin::{Mutex, MutexGuard, Once};

use crate::arch::{Cpu, MachineClock};

/// Bytes that are kept, the newest.
const SIZE: usize = 4096;

static CLOCK: Once<MachineClock> = Once::new();

static LOG: Mutex<Log> = Mutex::new(Log {
    bytes: [0; SIZE],
    len: 0,
});

/// Whole lines, oldest first.
struct Log {
    bytes: [u8; SIZE],
    len: usize,
}

/// From now on lines have a time.
pub fn start(clock: MachineClock) {
    CLOCK.call_once(|| clock);
}

fn now() -> Nanos {
    CLOCK.get().map_or(Nanos::ZERO, Clock::now)
}

/// Logs a line, as Linux does: `[    1.234567] text`.
pub fn line(text: fmt::Arguments<'_>) {
    let now = now();
    let (s, us) = (now.0 / 1_000_000_000, now.0 / 1_000 % 1_000_000);
    Cpu.without_interrupts(|| {
        if let Some(mut log) = lock() {
            let _ = writeln!(log, "[{s:5}.{us:06}] {text}");
        }
    });
}

/// Shows the time and all of the log, unless its writer does not come to an end.
pub fn with(look: impl FnOnce(Nanos, &[u8])) {
    Cpu.without_interrupts(|| {
        if let Some(log) = lock() {
            look(now(), &log.bytes[..log.len]);
        }
    });
}

/// After a bounded wait: whoever has it may have died.
fn lock() -> Option<MutexGuard<'static, Log>> {
    (0..1_000_000).find_map(|_| {
        Cpu.relax();
        LOG.try_lock()
    })
}

impl Write for Log {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let text = text.as_bytes();
        let text = &text[text.len().saturating_sub(SIZE)..];
        if text.len() > SIZE - self.len {
            self.forget(text.len());
        }
        self.bytes[self.len..][..text.len()].copy_from_slice(text);
        self.len += text.len();
        Ok(())
    }
}

impl Log {
    /// Makes room for `len` bytes, by whole lines where there are such.
    fn forget(&mut self, len: usize) {
        let least = len - (SIZE - self.len);
        let old = &self.bytes[least..self.len];
        let end_of_line = old.iter().position(|&byte| byte == b'\n');
        let gone = least + end_of_line.map_or(0, |at| at + 1);
        self.bytes.copy_within(gone..self.len, 0);
        self.len -= gone;
    }
}

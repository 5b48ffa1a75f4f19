//! A text of 60 bytes, and the queues that take it.

use std::hint::black_box;
use std::io;

use nostall_console::{Level, Meta, Priority};
use nostall_io::Nanos;

/// A typical line of a kernel's log, without its time.
pub const TEXT: &[u8; 60] = b"sd 2:0:1:3: [sdq] Attached SCSI disk, write cache: enabled.\n";

/// Returns metadata with a fixed time, because the cost of a clock is not the ring's.
pub fn meta() -> Meta<'static> {
    Meta {
        time: black_box(Nanos(1_234_567_890)),
        cpu: 1,
        level: Level::Info,
        priority: Priority::Normal,
        target: "",
    }
}

/// A record in the other queues: its time and its text.
#[derive(Clone)]
pub struct Entry {
    pub time: u64,
    pub len: usize,
    pub text: [u8; 96],
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            time: 0,
            len: 0,
            text: [0; 96],
        }
    }
}

impl Entry {
    pub fn fill(&mut self) {
        self.time = black_box(1_234_567_890);
        self.len = TEXT.len();
        self.text[..TEXT.len()].copy_from_slice(black_box(TEXT));
    }
}

/// A file that accepts every write at once.
pub struct Nowhere;

impl io::Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

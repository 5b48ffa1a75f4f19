//! A text of 60 bytes, and the queues that take it.

use std::hint::black_box;
use std::io;

use nostall_console::{Level, Meta, Priority};
use nostall_io::Nanos;

/// A typical line of a kernel's log, without its time.
const TEXT: &[u8; 60] = b"sd 2:0:1:3: [sdq] Attached SCSI disk, write cache: enabled.\n";

/// Number of records in a ring of 1 MiB.
pub const RECORDS: usize = 9360;

/// Returns the text. The compiler does not know its size, as for a formatted text.
#[inline]
pub fn text() -> &'static [u8] {
    black_box(&TEXT[..])
}

/// Returns metadata with a fixed time, because the cost of a clock is not the ring's.
#[inline]
pub fn meta() -> Meta<'static> {
    Meta {
        time: black_box(Nanos(1_234_567_890)),
        cpu: 1,
        level: Level::Info,
        priority: Priority::Normal,
        target: "",
    }
}

/// A record in the other queues: the metadata and the text of a slot of the ring.
#[derive(Clone)]
pub struct Entry {
    time: u64,
    cpu: u16,
    level: u8,
    priority: u8,
    len: usize,
    text: [u8; 88],
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            time: 0,
            cpu: 0,
            level: 0,
            priority: 0,
            len: 0,
            text: [0; 88],
        }
    }
}

impl Entry {
    #[inline]
    pub fn fill(&mut self, meta: &Meta<'_>, text: &[u8]) {
        self.time = meta.time.0;
        self.cpu = meta.cpu;
        self.level = meta.level as u8;
        self.priority = meta.priority as u8;
        self.len = text.len().min(self.text.len());
        self.text[..self.len].copy_from_slice(&text[..self.len]);
    }
}

/// A queue of [`RECORDS`] records, whose push overwrites the oldest one. Its users share it behind
/// a mutex.
///
/// That mutex cannot be used in an NMI or a panic, and a crashed producer keeps it locked.
pub struct Overwriting {
    entries: Vec<Entry>,
    /// Index of the next record to push.
    next: usize,
    unread: usize,
    pub overwritten: u64,
}

impl Default for Overwriting {
    fn default() -> Self {
        Self {
            entries: vec![Entry::default(); RECORDS],
            next: 0,
            unread: 0,
            overwritten: 0,
        }
    }
}

impl Overwriting {
    #[inline]
    pub fn push(&mut self, meta: &Meta<'_>, text: &[u8]) {
        self.entries[self.next].fill(meta, text);
        self.next += 1;
        if self.next == self.entries.len() {
            self.next = 0;
        }
        if self.unread == self.entries.len() {
            self.overwritten += 1;
        } else {
            self.unread += 1;
        }
    }

    /// Removes the oldest record, and copies it.
    #[inline]
    pub fn pop(&mut self) -> Option<Entry> {
        let at = match self.next.checked_sub(self.unread) {
            Some(at) => at,
            None => self.next + self.entries.len() - self.unread,
        };
        self.unread = self.unread.checked_sub(1)?;
        Some(self.entries[at].clone())
    }
}

/// A file that accepts every write immediately.
pub struct Nowhere;

impl io::Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

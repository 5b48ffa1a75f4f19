//! The newest lines as text, for a record in persistent memory.

use core::fmt;

use crate::line::LineState;
use crate::render::{LineBuffer, Style};
use crate::sequence::{after, is_up_to};
use crate::{Cursor, Read, Record, Ring};

impl Ring {
    /// The newest whole records that fit `room`, as lines of text, from the oldest of
    /// them: what is left behind when a kernel dies.
    ///
    /// Looks at as many records as the ring has, three times; those in mid-write are left out.
    pub fn tail<'a>(&self, room: &'a mut [u8]) -> &'a [u8] {
        let end = self.newest() as usize;
        // In the first turn these are sequences without a record.
        let oldest = end.wrapping_sub(self.slots() - 1).max(1);
        let mut cursor = Cursor {
            next: oldest as u64,
            lost: 0,
        };
        let mut total = 0;
        self.each(cursor, end, |line, record| total += len(line, record));
        // It starts with a line, and not with the rest of one.
        let mut over = total.saturating_sub(room.len());
        let mut first = None;
        self.each(cursor, end, |line, record| {
            if over > 0 {
                over = over.saturating_sub(len(line, record));
            } else if first.is_none() && !record.adjoins {
                first = Some(record.sequence);
            }
        });
        cursor.next = first.unwrap_or(after(end) as u64);
        let mut window = LineBuffer::new(room);
        self.each(cursor, end, |line, record| {
            line.render(record, 0, Style::default(), &mut window);
        });
        window.into_bytes()
    }

    /// Calls `act` with every complete record up to `end`.
    fn each(&self, mut cursor: Cursor, end: usize, mut act: impl FnMut(LineState, &Record)) {
        let mut line = LineState::default();
        while is_up_to(cursor.next as usize, end) {
            match cursor.read(self) {
                Read::Record(record) => {
                    line.begin(&record, 0, Style::default());
                    act(line, &record);
                    line = LineState::after(&record);
                }
                Read::Pending => cursor.skip(),
                Read::Empty => break,
            }
        }
    }
}

fn len(line: LineState, record: &Record) -> usize {
    line.render(record, 0, Style::default(), &mut LineBuffer::new(&mut []))
}

/// Writes the record as a drain with default options sends it, with a line feed at the end of its
/// line. Raw text is escaped except for its line feeds.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [0; 1024];
        let mut window = LineBuffer::new(&mut bytes);
        let style = Style::default();
        LineState::of(self, style).render(self, 0, style, &mut window);
        f.write_str(str::from_utf8(window.into_bytes()).map_err(|_| fmt::Error)?)
    }
}

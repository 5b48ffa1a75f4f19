//! Newest lines as text, for a record in persistent memory.

use core::fmt;

use crate::lane::Position;
use crate::line::LineState;
use crate::render::{LineBuffer, Rendered, Style};
use crate::sequence::{after, is_up_to};
use crate::{Cursor, Read, Record, Ring};

impl Ring {
    /// Renders the newest whole records that fit into `room`, oldest first. For a crash record in
    /// persistent memory.
    ///
    /// Reads every record of the ring three times. Skips incomplete ones.
    pub fn tail<'a>(&self, room: &'a mut [u8]) -> &'a [u8] {
        let end = self.newest() as usize;
        // In the first turn, this sequence is before the first record. The cursor skips it.
        let oldest = end.wrapping_sub(self.slots() - 1).max(1);
        let mut cursor = Cursor {
            next: oldest as u64,
            lost: 0,
        };
        let mut total = 0;
        self.each(cursor, end, |line, text, _| {
            total += line.total(text.shape.len)
        });
        // The text starts with a line, not with the rest of one.
        let mut over = total.saturating_sub(room.len());
        let mut first = None;
        self.each(cursor, end, |line, text, sequence| {
            if over > 0 {
                over = over.saturating_sub(line.total(text.shape.len));
            } else if first.is_none() && !text.shape.adjoins {
                first = Some(sequence);
            }
        });
        cursor.next = first.unwrap_or(after(end) as u64);
        let mut window = LineBuffer::new(room);
        self.each(cursor, end, |line, text, _| {
            line.put(text.text(), 0, &mut window);
        });
        window.into_bytes()
    }

    /// Calls `act` with every complete record up to `end`.
    fn each(&self, mut cursor: Cursor, end: usize, mut act: impl FnMut(LineState, &Rendered, u64)) {
        let mut at = Position {
            next: cursor.next as usize,
            line: LineState::default(),
        };
        let mut text = Rendered::new();
        while is_up_to(cursor.next as usize, end) {
            match cursor.read(self) {
                Read::Record(record) => {
                    // Records before it may be missing.
                    at.skip_to(record.sequence as usize);
                    text.render(&record, 0, Style::default());
                    at.line.begin(text.shape, 0);
                    act(at.line, &text, record.sequence);
                    at = Position {
                        next: after(at.next),
                        line: LineState::after(text.shape),
                    };
                }
                Read::Pending => cursor.skip(),
                Read::Empty => break,
            }
        }
    }
}

/// Writes the record as a drain with default options sends it, with a line feed at the end of its
/// line. Escapes raw text except for its line feeds.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [0; 1024];
        let mut window = LineBuffer::new(&mut bytes);
        let mut text = Rendered::new();
        text.render(self, 0, Style::default());
        LineState::of(text.shape).put(text.text(), 0, &mut window);
        f.write_str(str::from_utf8(window.into_bytes()).map_err(|_| fmt::Error)?)
    }
}

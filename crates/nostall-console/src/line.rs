//! How far a line is out, and what is done about one that is cut.
//!
//! What is sent of a record is, in this order: a *lead*, which closes what another left
//! open; a *mark*, if it is the rest of a line that was cut; and its *body*, from some
//! byte on. All of it follows from the record and one word, so whoever takes a sink
//! over, from the living or the dead, goes on exactly where the other was.

use crate::Record;
use crate::render::{self, Window};

/// Where a text was cut off.
pub(crate) const CUT: &[u8] = b"[cut]";
/// Where a line was cut.
const CUT_AND_CLOSED: &[u8] = b"[cut]\n";
/// Where its rest begins.
const REST: &[u8] = b"[rest]";

/// How far a record is out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    /// Bytes taken of lead, mark and rest of the body.
    pub(crate) offset: usize,
    /// The first byte of the body that is to be sent.
    from: usize,
    /// The rest is settled: it does not depend on what came before any more.
    pub(crate) begun: bool,
    /// Lead: closes another's line, which is cut by this one.
    closes: bool,
    /// Lead: ends the line before, whose rest never came.
    breaks: bool,
    /// It is the rest of a line that was cut.
    mark: bool,
    /// Until it is begun: the record before did not end its line.
    midline: bool,
}

impl Line {
    /// For the record after one that is out.
    pub(crate) fn after(record: &Record) -> Self {
        Self {
            midline: record.continues,
            ..Self::default()
        }
    }

    /// Of a record by itself; of the rest of a line only that.
    pub(crate) fn of(record: &Record) -> Self {
        let mut line = Self {
            midline: record.adjoins,
            ..Self::default()
        };
        line.begin(record, 0);
        line
    }

    /// Settles what is sent of `record`.
    pub(crate) fn begin(&mut self, record: &Record, gap: u64) {
        if self.begun {
            return;
        }
        self.begun = true;
        let joins = record.adjoins && gap == 0 && (self.midline || self.mark);
        if joins {
            self.from = render::prefix_len(record);
        } else {
            self.mark = false;
            self.breaks = self.midline && !self.closes;
        }
        self.midline = false;
    }

    /// Puts what is not out yet into `window`; how long all of it is.
    pub(crate) fn render(&self, record: &Record, gap: u64, window: &mut Window<'_>) -> usize {
        let start = window.start(self.offset);
        window.put(self.lead());
        if self.mark {
            window.put(REST);
        }
        window.leave_out(self.from);
        render::body(record, gap, window);
        window.total() - start
    }

    /// The line on the wire is not at its beginning, as far as this record is the cause.
    pub(crate) fn is_open(&self) -> bool {
        if self.offset == 0 {
            self.closes || self.midline
        } else {
            self.offset != self.lead().len()
        }
    }

    /// Another line goes before the rest of this one.
    pub(crate) fn cut(&mut self) {
        if self.offset > 0 {
            let before = self.lead().len() + if self.mark { REST.len() } else { 0 };
            self.from += self.offset.saturating_sub(before);
            self.mark = self.from > 0;
        } else {
            self.mark |= self.midline;
        }
        self.offset = 0;
        self.closes = false;
        self.breaks = false;
        self.midline = false;
    }

    /// This line has to close one that it cuts.
    pub(crate) fn close_other(&mut self) {
        debug_assert_eq!(self.offset, 0);
        self.closes = true;
        self.breaks = false;
    }

    fn lead(&self) -> &'static [u8] {
        if self.closes {
            CUT_AND_CLOSED
        } else if self.breaks {
            b"\n"
        } else {
            b""
        }
    }
}

/// Bits of `offset` and `from` each; a line is shorter (`render.rs`).
const OFFSET_BITS: u32 = 10;
const FLAGS: u32 = 2 * OFFSET_BITS;
const TAG: u32 = FLAGS + 5;

impl Line {
    /// As a word, which says of what record it is.
    pub(crate) fn pack(self, sequence: usize) -> usize {
        let flags = [
            self.begun,
            self.closes,
            self.breaks,
            self.mark,
            self.midline,
        ];
        let bits = (FLAGS..).zip(flags).map(|(bit, is)| usize::from(is) << bit);
        self.offset | self.from << OFFSET_BITS | bits.sum::<usize>() | sequence << TAG
    }

    /// From a word, if it is of this record.
    pub(crate) fn unpack(word: usize, sequence: usize) -> Option<Self> {
        let is = |flag: u32| word >> (FLAGS + flag) & 1 != 0;
        (word >> TAG == sequence << TAG >> TAG).then(|| Self {
            offset: word & ((1 << OFFSET_BITS) - 1),
            from: word >> OFFSET_BITS & ((1 << OFFSET_BITS) - 1),
            begun: is(0),
            closes: is(1),
            breaks: is(2),
            mark: is(3),
            midline: is(4),
        })
    }
}

//! Progress of a line on the wire, and the handling of cut lines.
//!
//! A record is sent in this order: a *lead*, a *mark*, and its *body* from some byte on. The lead
//! closes another line's open rest. The mark is there if the record is the rest of a cut line. All
//! of them follow from the record and one word. So the next owner of a sink continues exactly where
//! the last one stopped, even after a crash.
//!
//! Leads and marks start a line, after a line feed if needed, with a brace. Lines of the log start
//! with their prefix, so with the default prefix none of them starts with a brace. A part that does
//! not follow its line's previous part has a mark before the prefix (`render.rs`). So no logged text
//! can imitate a line or a lead. A carriage return before a lead does no harm, and a cut one is
//! recognized by its first byte. Raw output, and lines without a prefix, may start with a brace.

use crate::render::{LineBuffer, Shape};

/// Marks of the rest of a cut line, by lane.
const REST: [&[u8]; 3] = [b"{rest 0}", b"{rest 1}", b"{rest 2}"];

/// Text before a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Lead {
    #[default]
    Nothing,
    /// Ends the previous line, whose rest never came.
    Break,
    /// Closes the cut line of this lane, which continues later.
    Cut0,
    Cut1,
    Cut2,
    /// Closes all open lines, which are then sent again from their beginnings.
    Again,
}

impl Lead {
    const fn cut(lane: usize) -> Self {
        match lane {
            0 => Self::Cut0,
            1 => Self::Cut1,
            _ => Self::Cut2,
        }
    }

    const fn bytes(self) -> &'static [u8] {
        match self {
            Self::Nothing => b"",
            Self::Break => b"\n",
            Self::Cut0 => b"\n{cut 0}\n",
            Self::Cut1 => b"\n{cut 1}\n",
            Self::Cut2 => b"\n{cut 2}\n",
            Self::Again => b"\n{again}\n",
        }
    }

    const fn from_number(number: usize) -> Self {
        match number & 7 {
            1 => Self::Break,
            2 => Self::Cut0,
            3 => Self::Cut1,
            4 => Self::Cut2,
            5 => Self::Again,
            _ => Self::Nothing,
        }
    }
}

/// Progress of a record on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineState {
    /// Number of bytes sent, of lead, mark and the body from `from` on.
    pub(crate) offset: u16,
    /// First byte of the body to send.
    from: u16,
    /// Lead, mark and `from` are final, independent of earlier records.
    pub(crate) begun: bool,
    lead: Lead,
    /// The record is the rest of a cut line.
    mark: bool,
    /// The previous record did not end its line, and this one has not begun.
    midline: bool,
    /// The previous record is raw and did not end its line.
    after_raw: bool,
}

impl LineState {
    /// Creates the state of the record that follows one of this shape.
    pub(crate) fn after(shape: Shape) -> Self {
        Self {
            midline: shape.continues,
            after_raw: shape.continues && shape.raw,
            ..Self::default()
        }
    }

    /// Creates the state of a single record. One that continues a line has no prefix.
    pub(crate) fn of(shape: Shape) -> Self {
        let mut line = Self {
            midline: shape.adjoins,
            after_raw: shape.adjoins && shape.raw,
            ..Self::default()
        };
        line.begin(shape, 0);
        line
    }

    /// Fixes which bytes of the record are sent. Does nothing if that was done before.
    pub(crate) fn begin(&mut self, shape: Shape, gap: u64) {
        if self.begun {
            return;
        }
        self.begun = true;
        let goes_on = self.mark || self.midline && self.lead != Lead::Break;
        let adjoins = if shape.raw {
            self.after_raw
        } else {
            shape.adjoins
        };
        if adjoins && gap == 0 && goes_on {
            self.from = shape.prefix as u16;
        } else {
            self.mark = false;
            if self.midline && self.lead == Lead::Nothing {
                self.lead = Lead::Break;
            }
        }
        self.midline = false;
        self.after_raw = false;
    }

    /// Returns the number of bytes of lead, mark and the rest of a body of `len` bytes.
    pub(crate) fn total(&self, len: usize) -> usize {
        self.head() + len.saturating_sub(self.from.into())
    }

    /// Returns the offset of the first unsent byte of the body.
    pub(crate) fn body_at(&self) -> usize {
        usize::from(self.from) + self.out()
    }

    /// Appends the unsent bytes of lead and mark.
    pub(crate) fn put_head(&self, lane: usize, window: &mut LineBuffer<'_>) {
        if self.head() == 0 {
            return;
        }
        let lead = self.lead.bytes();
        let offset = usize::from(self.offset);
        window.put(lead.get(offset..).unwrap_or_default());
        if self.mark {
            let out = offset.saturating_sub(lead.len());
            window.put(REST[lane].get(out..).unwrap_or_default());
        }
    }

    /// Appends the unsent bytes of lead, mark and body.
    pub(crate) fn put(&self, body: &[u8], lane: usize, window: &mut LineBuffer<'_>) {
        self.put_head(lane, window);
        window.put(body.get(self.body_at()..).unwrap_or_default());
    }

    /// Returns the number of bytes of the body sent from `from` on.
    fn out(&self) -> usize {
        usize::from(self.offset).saturating_sub(self.head())
    }

    /// Returns the number of bytes of lead and mark.
    fn head(&self) -> usize {
        let mark = if self.mark { REST[0].len() } else { 0 };
        self.lead.bytes().len() + mark
    }

    /// Returns whether this record leaves the line on the wire unfinished.
    pub(crate) fn is_open(&self) -> bool {
        if self.offset == 0 {
            self.midline || self.closes()
        } else {
            usize::from(self.offset) != self.lead.bytes().len()
        }
    }

    /// Returns whether this record still has to close another line.
    fn closes(&self) -> bool {
        !matches!(self.lead, Lead::Nothing | Lead::Break)
            && usize::from(self.offset) < self.lead.bytes().len()
    }

    /// Interrupts this line: another line goes before its rest.
    pub(crate) fn cut(&mut self) {
        if self.offset > 0 {
            let out = self.out();
            self.from += out as u16;
            self.mark |= out > 0;
        } else {
            self.mark |= self.midline && self.lead != Lead::Break;
        }
        self.offset = 0;
        self.lead = Lead::Nothing;
        self.midline = false;
    }

    /// Inserts this line before the rest of `other`, the open line of `lane`. If `other` was
    /// about to close a third line, this line does so from the same byte on.
    pub(crate) fn close(&mut self, other: &Self, lane: usize) {
        debug_assert_eq!(self.offset, 0);
        (self.lead, self.offset) = if other.closes() {
            (other.lead, other.offset)
        } else {
            (Lead::cut(lane), 0)
        };
    }

    /// Starts a new line, because the record that would continue this one is not sent. A program's
    /// output continues with its next record, even if others are between.
    pub(crate) fn break_off(&mut self) {
        if self.begun || self.after_raw {
            return;
        }
        self.mark = false;
        if self.midline {
            self.lead = Lead::Break;
        }
    }

    /// Sends this line again from the start of its record.
    pub(crate) fn restart(&mut self) {
        *self = Self {
            begun: self.begun,
            ..Self::default()
        };
    }

    /// Closes all lines, because it is unknown which one is open.
    pub(crate) fn close_all(&mut self) {
        self.lead = Lead::Again;
    }

    /// Discards the rest of this line of `lane`. The next line closes it if it is open.
    pub(crate) fn lose(&mut self, lane: usize) {
        let open = *self;
        *self = Self::default();
        if open.is_open() {
            self.close(&open, lane);
        }
    }
}

/// Number of bits for each of `offset` and `from`. Every line is shorter (`render.rs`).
const OFFSET_BITS: u32 = 9;
const FLAGS: u32 = 2 * OFFSET_BITS;
const LEAD: u32 = FLAGS + 4;
const TAG: u32 = LEAD + 3;

impl LineState {
    /// Encodes the state and the low bits of its record's sequence in a word.
    pub(crate) fn pack(self, sequence: usize) -> usize {
        let flag = |bit: u32, is: bool| usize::from(is) << (FLAGS + bit);
        usize::from(self.offset)
            | usize::from(self.from) << OFFSET_BITS
            | flag(0, self.begun)
            | flag(1, self.mark)
            | flag(2, self.midline)
            | flag(3, self.after_raw)
            | (self.lead as usize) << LEAD
            | sequence << TAG
    }

    /// Decodes a word if it belongs to this record.
    #[inline]
    pub(crate) fn unpack(word: usize, sequence: usize) -> Option<Self> {
        let is = |flag: u32| word >> (FLAGS + flag) & 1 != 0;
        ((word ^ sequence << TAG) >> TAG == 0).then(|| Self {
            offset: (word & ((1 << OFFSET_BITS) - 1)) as u16,
            from: (word >> OFFSET_BITS & ((1 << OFFSET_BITS) - 1)) as u16,
            begun: is(0),
            lead: Lead::from_number(word >> LEAD),
            mark: is(1),
            midline: is(2),
            after_raw: is(3),
        })
    }
}

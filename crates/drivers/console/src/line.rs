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

    const fn from_number(number: u32) -> Self {
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

/// Number of bits for each of `offset` and `from`. Every line is shorter (`render.rs`).
const OFFSET_BITS: u32 = 9;
const OFFSET: u32 = (1 << OFFSET_BITS) - 1;
const FLAGS: u32 = 2 * OFFSET_BITS;

/// Lead, mark and `from` are final, independent of earlier records.
const BEGUN: u32 = 1 << FLAGS;
/// The record is the rest of a cut line.
const MARK: u32 = 1 << (FLAGS + 1);
/// The previous record did not end its line, and this one has not begun.
const MIDLINE: u32 = 1 << (FLAGS + 2);
/// The previous record is raw and did not end its line.
const AFTER_RAW: u32 = 1 << (FLAGS + 3);

const LEAD_AT: u32 = FLAGS + 4;
const LEAD: u32 = 7 << LEAD_AT;
const TAG: u32 = LEAD_AT + 3;

/// Progress of a record on the wire, in one word. It has the number of bytes sent, the first byte of
/// the body to send, flags and the lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineState(u32);

impl LineState {
    /// Returns the number of bytes sent, of lead, mark and the body from `from` on.
    pub(crate) fn offset(self) -> usize {
        (self.0 & OFFSET) as usize
    }

    pub(crate) fn set_offset(&mut self, offset: usize) {
        self.0 = self.0 & !OFFSET | offset as u32 & OFFSET;
    }

    /// Returns the first byte of the body to send.
    fn from(self) -> usize {
        (self.0 >> OFFSET_BITS & OFFSET) as usize
    }

    fn set_from(&mut self, from: usize) {
        self.0 = self.0 & !(OFFSET << OFFSET_BITS) | (from as u32 & OFFSET) << OFFSET_BITS;
    }

    fn has(self, flags: u32) -> bool {
        self.0 & flags != 0
    }

    fn set(&mut self, flag: u32, is: bool) {
        self.0 = self.0 & !flag | if is { flag } else { 0 };
    }

    fn lead(self) -> Lead {
        Lead::from_number(self.0 >> LEAD_AT)
    }

    fn set_lead(&mut self, lead: Lead) {
        self.0 = self.0 & !LEAD | (lead as u32) << LEAD_AT;
    }

    /// Returns whether lead, mark and the first byte of the body are final.
    pub(crate) fn is_begun(self) -> bool {
        self.has(BEGUN)
    }

    /// Encodes the state and the low bits of its record's sequence in a word.
    pub(crate) fn pack(self, sequence: usize) -> usize {
        self.0 as usize | sequence << TAG
    }

    /// Decodes a word if it belongs to this record.
    #[inline]
    pub(crate) fn unpack(word: usize, sequence: usize) -> Option<Self> {
        let state = word ^ sequence << TAG;
        (state >> TAG == 0).then_some(Self(state as u32))
    }
}

impl LineState {
    /// Creates the state of the record that follows one of this shape.
    pub(crate) fn after(shape: Shape) -> Self {
        Self::midline(shape.continues, shape.raw)
    }

    fn midline(is: bool, raw: bool) -> Self {
        let mut line = Self::default();
        line.set(MIDLINE, is);
        line.set(AFTER_RAW, is && raw);
        line
    }

    /// Creates the state of a single record. One that continues a line has no prefix.
    pub(crate) fn of(shape: Shape) -> Self {
        let mut line = Self::midline(shape.adjoins, shape.raw);
        line.begin(shape, 0);
        line
    }

    /// Fixes which bytes of the record are sent. Does nothing if that was done before.
    pub(crate) fn begin(&mut self, shape: Shape, gap: u64) {
        if self.is_begun() {
            return;
        }
        let is_midline = self.has(MIDLINE);
        let goes_on = self.has(MARK) || is_midline && self.lead() != Lead::Break;
        let adjoins = match shape.raw {
            true => self.has(AFTER_RAW),
            false => shape.adjoins,
        };
        if adjoins && gap == 0 && goes_on {
            self.set_from(shape.prefix);
        } else {
            self.set(MARK, false);
            if is_midline && self.lead() == Lead::Nothing {
                self.set_lead(Lead::Break);
            }
        }
        self.set(MIDLINE | AFTER_RAW, false);
        self.set(BEGUN, true);
    }

    /// Returns the number of bytes of lead, mark and the rest of a body of `len` bytes.
    pub(crate) fn total(&self, len: usize) -> usize {
        self.head() + len.saturating_sub(self.from())
    }

    /// Returns the offset of the first unsent byte of the body.
    pub(crate) fn body_at(&self) -> usize {
        self.from() + self.out()
    }

    /// Appends the unsent bytes of lead and mark.
    #[inline]
    pub(crate) fn put_head(&self, lane: usize, window: &mut LineBuffer<'_>) {
        if self.head() > 0 {
            self.put_some_head(lane, window);
        }
    }

    #[cold]
    fn put_some_head(&self, lane: usize, window: &mut LineBuffer<'_>) {
        let (lead, offset) = (self.lead().bytes(), self.offset());
        window.put(lead.get(offset..).unwrap_or_default());
        if self.has(MARK) {
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
        self.offset().saturating_sub(self.head())
    }

    /// Returns the number of bytes of lead and mark.
    fn head(&self) -> usize {
        if !self.has(MARK | LEAD) {
            return 0;
        }
        let mark = if self.has(MARK) { REST[0].len() } else { 0 };
        self.lead().bytes().len() + mark
    }

    /// Returns whether this record leaves the line on the wire unfinished.
    pub(crate) fn is_open(&self) -> bool {
        if self.offset() == 0 {
            self.has(MIDLINE) || self.closes()
        } else {
            self.offset() != self.lead().bytes().len()
        }
    }

    /// Returns whether this record still has to close another line.
    fn closes(&self) -> bool {
        let lead = self.lead();
        !matches!(lead, Lead::Nothing | Lead::Break) && self.offset() < lead.bytes().len()
    }

    /// Interrupts this line: another line goes before its rest.
    pub(crate) fn cut(&mut self) {
        let is_rest = if self.offset() > 0 {
            let out = self.out();
            self.set_from(self.from() + out);
            out > 0
        } else {
            self.has(MIDLINE) && self.lead() != Lead::Break
        };
        self.set(MARK, self.has(MARK) || is_rest);
        self.set_offset(0);
        self.set_lead(Lead::Nothing);
        self.set(MIDLINE, false);
    }

    /// Inserts this line before the rest of `other`, the open line of `lane`. If `other` was
    /// about to close a third line, this line does so from the same byte on.
    pub(crate) fn close(&mut self, other: &Self, lane: usize) {
        debug_assert_eq!(self.offset(), 0);
        if other.closes() {
            self.set_lead(other.lead());
            self.set_offset(other.offset());
        } else {
            self.set_lead(Lead::cut(lane));
        }
    }

    /// Starts a new line, because the record that would continue this one is not sent. A program's
    /// output continues with its next record, even if others are between.
    pub(crate) fn break_off(&mut self) {
        if self.has(BEGUN | AFTER_RAW) {
            return;
        }
        self.set(MARK, false);
        if self.has(MIDLINE) {
            self.set_lead(Lead::Break);
        }
    }

    /// Sends this line again from the start of its record.
    pub(crate) fn restart(&mut self) {
        self.0 &= BEGUN;
    }

    /// Closes all lines, because it is unknown which one is open.
    pub(crate) fn close_all(&mut self) {
        self.set_lead(Lead::Again);
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

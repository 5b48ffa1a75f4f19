//! Logging of a text in parts, as formatting produces them.

use core::fmt::{self, Write as _};

use arrayvec::ArrayVec;

use crate::ring::Part;
use crate::{Logged, Meta, Ring};

/// Size of the formatting buffer on the stack, in bytes. Small, because an NMI's stack is.
const ROOM: usize = 256;

impl Ring {
    /// Formats `text` and logs it, 256 bytes at a time, in a buffer on the stack. Records of other
    /// producers may come between the parts of a longer text. A sink gets a part that they separate
    /// from its line as a line with the mark `(cont.)`.
    pub fn format(&self, meta: &Meta<'_>, text: fmt::Arguments<'_>) -> Logged {
        if let Some(text) = text.as_str() {
            return self.log(meta, text.as_bytes());
        }
        let mut whole = Parts::new(self, meta);
        // An error comes from a caller's `Display`; the text written so far counts.
        let _ = fmt::write(&mut whole, text);
        whole.finish()
    }
}

/// A text that is being formatted.
pub(crate) struct Parts<'a> {
    ring: &'a Ring,
    meta: &'a Meta<'a>,
    text: ArrayVec<u8, ROOM>,
    /// Sequence of the previous record, if `text` continues a line.
    after: Option<usize>,
    logged: Logged,
    is_over: bool,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(ring: &'a Ring, meta: &'a Meta<'a>) -> Self {
        Self {
            ring,
            meta,
            text: ArrayVec::new(),
            after: None,
            logged: Logged::default(),
            is_over: false,
        }
    }

    /// Logs the remaining text as the last part.
    pub(crate) fn finish(&mut self) -> Logged {
        self.end(false)
    }

    fn end(&mut self, is_cut: bool) -> Logged {
        // If only a line feed came last, it is logged already.
        if !self.text.is_empty() || self.after.is_some() || self.logged == Logged::default() {
            self.log(false, is_cut);
        }
        self.is_over = true;
        self.logged
    }

    fn log(&mut self, more: bool, is_cut: bool) {
        let text = &self.text[..];
        let ends = text.ends_with(b"\n");
        let continues = more && !ends;
        let part = Part {
            after: self.after,
            continues,
            is_cut,
            more,
            longest_run: self.ring.longest_run().saturating_sub(self.logged.records),
        };
        let parted = self.ring.log_part(self.meta, text, part);
        self.logged.records += parted.logged.records;
        self.logged.cut += parted.logged.cut;
        // A line continues even if nothing of it found room.
        self.after = continues.then(|| parted.last.unwrap_or(0));
        self.text.clear();
    }
}

/// If a caller's `Display` unwinds, the text written so far is logged, and marked as cut.
impl Drop for Parts<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.end(true);
        }
    }
}

impl fmt::Write for Parts<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.text.try_extend_from_slice(text.as_bytes()).is_err() {
            self.write_in_parts(text);
        }
        Ok(())
    }

    /// Stores a character at once, because padding comes as single characters.
    fn write_char(&mut self, character: char) -> fmt::Result {
        if character.is_ascii() && self.text.try_push(character as u8).is_ok() {
            return Ok(());
        }
        self.write_long_char(character)
    }
}

impl Parts<'_> {
    #[cold]
    #[inline(never)]
    fn write_long_char(&mut self, character: char) -> fmt::Result {
        self.write_str(character.encode_utf8(&mut [0; 4]))
    }

    /// Adds text that may not fit.
    #[cold]
    #[inline(never)]
    fn write_in_parts(&mut self, mut text: &str) {
        while !text.is_empty() {
            let fits = text.floor_char_boundary(self.text.remaining_capacity());
            let (now, later) = text.split_at(fits);
            if fits == 0 || self.text.try_extend_from_slice(now.as_bytes()).is_err() {
                self.log(true, false);
                continue;
            }
            text = later;
        }
    }
}

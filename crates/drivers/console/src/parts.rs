//! Logging of a text in parts, as formatting produces them.

use core::fmt;

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
    bytes: [u8; ROOM],
    len: usize,
    /// Sequence of the previous record, if `bytes` continues a line.
    after: Option<usize>,
    logged: Logged,
    is_over: bool,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(ring: &'a Ring, meta: &'a Meta<'a>) -> Self {
        Self {
            ring,
            meta,
            bytes: [0; ROOM],
            len: 0,
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
        if self.len > 0 || self.after.is_some() || self.logged == Logged::default() {
            self.log(false, is_cut);
        }
        self.is_over = true;
        self.logged
    }

    fn log(&mut self, more: bool, is_cut: bool) {
        let text = &self.bytes[..self.len];
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
        self.len = 0;
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
        match self.bytes[self.len..].get_mut(..text.len()) {
            Some(room) => {
                room.copy_from_slice(text.as_bytes());
                self.len += text.len();
            }
            None => self.write_in_parts(text),
        }
        Ok(())
    }

    /// Stores a character at once, because padding comes as single characters.
    fn write_char(&mut self, character: char) -> fmt::Result {
        if character.is_ascii()
            && let Some(room) = self.bytes.get_mut(self.len)
        {
            *room = character as u8;
            self.len += 1;
        } else {
            self.write_in_parts(character.encode_utf8(&mut [0; 4]));
        }
        Ok(())
    }
}

impl Parts<'_> {
    /// Adds text that may not fit.
    #[cold]
    #[inline(never)]
    fn write_in_parts(&mut self, mut text: &str) {
        while !text.is_empty() {
            let fits = text.floor_char_boundary(ROOM - self.len);
            if fits == 0 {
                self.log(true, false);
                continue;
            }
            let (now, later) = text.split_at(fits);
            self.bytes[self.len..][..fits].copy_from_slice(now.as_bytes());
            self.len += fits;
            text = later;
        }
    }
}

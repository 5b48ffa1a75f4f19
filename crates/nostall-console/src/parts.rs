//! A text that comes in parts, as formatting gives it.

use core::fmt;

use crate::ring::Part;
use crate::{Logged, Meta, Ring};

/// Put together on the stack, which in an NMI is small.
const ROOM: usize = 256;

impl Ring {
    /// Formats `text` and logs it. The text is formatted on the stack, 256 bytes at a time.
    /// Other producers' records may be between the parts of a longer text.
    pub fn format(&self, meta: &Meta<'_>, text: fmt::Arguments<'_>) -> Logged {
        if let Some(text) = text.as_str() {
            return self.log(meta, text.as_bytes());
        }
        let mut whole = Parts::new(self, meta);
        // An error is one of a caller's `Display`; the text that it has written counts.
        let _ = fmt::write(&mut whole, text);
        whole.finish()
    }
}

/// A text that is being put together.
pub(crate) struct Parts<'a> {
    ring: &'a Ring,
    meta: &'a Meta<'a>,
    bytes: [u8; ROOM],
    len: usize,
    /// Set if `bytes` is the rest of a line: the sequence of the record before.
    after: Option<usize>,
    logged: Logged,
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
        }
    }

    /// Logs what there is, to its end.
    pub(crate) fn finish(mut self) -> Logged {
        // A line feed was all that came last, and is logged already.
        if self.len > 0 || self.after.is_some() || self.logged == Logged::default() {
            self.log(false);
        }
        self.logged
    }

    fn log(&mut self, more: bool) {
        let text = &self.bytes[..self.len];
        let ends = text.ends_with(b"\n");
        let continues = more && !ends;
        let part = Part {
            after: self.after,
            continues,
            more,
            longest_run: self.ring.longest_run().saturating_sub(self.logged.records),
        };
        let parted = self.ring.log_part(self.meta, text, part);
        self.logged.records += parted.logged.records;
        self.logged.cut += parted.logged.cut;
        // A line of which nothing found room is still continued.
        self.after = continues.then(|| parted.last.unwrap_or(0));
        self.len = 0;
    }
}

impl fmt::Write for Parts<'_> {
    fn write_str(&mut self, mut text: &str) -> fmt::Result {
        while !text.is_empty() {
            let fits = text.floor_char_boundary(ROOM - self.len);
            if fits == 0 {
                self.log(true);
                continue;
            }
            let (now, later) = text.split_at(fits);
            self.bytes[self.len..][..fits].copy_from_slice(now.as_bytes());
            self.len += fits;
            text = later;
        }
        Ok(())
    }
}

//! A line that was cut by one that is more urgent, and its rest.
//!
//! Who is stopped in the middle of a FIFO-full has not noted how many of its bytes are
//! out. Whoever goes on sends all of them, so that some come again.

/// Bytes that may come again: a FIFO-full.
pub(super) const FIFO: usize = 16;

/// Where a line was cut.
pub(super) struct Cut {
    /// The line before.
    pub(super) before: Vec<u8>,
    /// As far as it had come.
    pub(super) begun: Vec<u8>,
}

impl Cut {
    /// The line that goes on with `rest`, if what had arrived goes back by so many bytes
    /// first, which come again; and whether all of it had arrived.
    pub(super) fn resume(&self, rest: &[u8], again: usize) -> Option<(Vec<u8>, bool)> {
        let arrived = [&self.before, &b"\n"[..], &self.begun].concat();
        let (kept, repeated) = arrived.split_at_checked(arrived.len().checked_sub(again)?)?;
        let mut comes = rest.iter().chain(b"\n");
        if !repeated
            .iter()
            .all(|byte| comes.next().is_none_or(|comes| comes == byte))
        {
            return None;
        }
        let from = kept.iter().rposition(|&byte| byte == b'\n');
        let begun = &kept[from.map_or(0, |at| at + 1)..];
        Some(([begun, rest].concat(), repeated.contains(&b'\n')))
    }
}

//! Results of an architecture's boot code.

use core::fmt;
use core::ops::Range;

/// Command line and input that the boot protocol passed.
pub struct Boot {
    pub command_line: &'static str,
    /// Input of the work list, for example the text to send.
    pub input: &'static [u8],
}

/// Reason why no RAM can keep records.
pub struct NoRam {
    /// Address range of the region.
    pub region: Range<u64>,
    /// Address range of another user that overlaps with it.
    pub in_use: Option<Range<u64>>,
}

/// Returns whether two address ranges have a common byte.
pub fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start.max(other.start) < one.end.min(other.end)
}

impl fmt::Display for NoRam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let region = &self.region;
        match &self.in_use {
            None => write!(f, "no RAM at {region:#x?} to keep records in"),
            Some(other) => write!(f, "persistent RAM, at {region:#x?}, is in use: {other:#x?}"),
        }
    }
}

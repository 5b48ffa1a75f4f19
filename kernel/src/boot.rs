//! Results of an architecture's boot code.

use core::fmt;
use core::ops::Range;

/// Command line and input that the boot protocol passed.
pub struct Boot {
    pub command_line: &'static str,
    /// The text to send, or another input of the work.
    pub input: &'static [u8],
}

/// Reason why there is no RAM to keep records in.
pub struct NoRam {
    /// Place that the RAM should have.
    pub region: Range<u64>,
    /// Range of something else that lies there.
    pub in_use: Option<Range<u64>>,
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

//! Names of dump formats.

use std::fmt;

/// Maximum number of segments. The largest real dumps have thousands: QEMU's with `-p` has one for
/// each range of pages with the same mapping. An open dump needs 48 bytes for each.
pub const MAX_SEGMENTS: usize = 1 << 18;

/// Size limit for an unpacked file.
pub const MAX_UNPACKED: usize = 1 << 30;

/// Format of a file from which a [`Memory`](super::Memory) is read. Each format's module has its
/// constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DumpFormat {
    /// Name for people.
    pub name: &'static str,
    /// Word for programs.
    pub word: &'static str,
}

impl fmt::Display for DumpFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

//! Layouts of the persistent ring buffer, by the version of Linux.

/// First word of a buffer's description.
pub(super) const MAGIC: u32 = 0x0BAD_FEED;

/// Layout of a persistent ring buffer. The word at offset 4 selects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Version {
    /// Linux 6.12 to 6.14.
    V6_12,
    /// Linux 6.14.9: the KASLR offset in place of two addresses.
    V6_14_9,
    /// Linux 6.15 and later: one header for all CPUs.
    V6_15,
    /// A later Linux: two more words for each CPU.
    Later,
}

impl Version {
    /// All versions.
    pub(super) const ALL: [Self; 4] = [Self::V6_12, Self::V6_14_9, Self::V6_15, Self::Later];

    /// Returns the word at offset 4.
    pub(super) const fn word(self) -> u32 {
        match self {
            Self::V6_12 => 56,
            Self::V6_14_9 => 48,
            Self::V6_15 => 0x0018_0020,
            Self::Later => 0x0018_0028,
        }
    }

    /// Returns the bytes of a CPU's description, without its table.
    pub(super) const fn meta(self) -> u64 {
        (self.word() & 0xffff) as u64
    }

    /// Returns the offset of the addresses in a CPU's description.
    pub(super) const fn addresses(self) -> usize {
        match self {
            Self::V6_12 => 24,
            Self::V6_14_9 => 16,
            Self::V6_15 | Self::Later => 0,
        }
    }

    /// Returns whether one header describes all CPUs.
    pub(super) const fn has_header(self) -> bool {
        matches!(self, Self::V6_15 | Self::Later)
    }

    /// Returns the versions of Linux as text.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V6_12 => "Linux 6.12",
            Self::V6_14_9 => "Linux 6.14.9",
            Self::V6_15 => "Linux 6.15",
            Self::Later => "Linux after 6.15",
        }
    }

    /// Returns whether the decoder was compared with the output of a kernel with this layout.
    pub const fn is_compared(self) -> bool {
        matches!(self, Self::V6_12)
    }

    /// Returns the number of an event type of 6.12 in this version.
    ///
    /// Linux 6.13 inserted a type after 11.
    pub(super) const fn event_type(self, of_6_12: u16) -> u16 {
        match self {
            Self::V6_12 => of_6_12,
            _ => of_6_12 + (of_6_12 > 11) as u16,
        }
    }
}

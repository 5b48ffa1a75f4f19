//! A record of printk's ring.

use std::fmt;

use nostall_pstore::Trust;

/// A record of Linux's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelMessage {
    /// Sequence number, from 0 at the boot.
    pub sequence: u64,
    /// Nanoseconds since the boot.
    pub time_ns: u64,
    /// Syslog facility; 0 is the kernel.
    pub facility: u8,
    /// Syslog level, 0 (emergency) to 7 (debug).
    pub level: u8,
    /// The context that logged it.
    pub caller: Caller,
    /// Subsystem of the device that it is about, such as `pci`.
    pub subsystem: Option<String>,
    /// The device, such as `+pci:0000:00:01.0`.
    pub device: Option<String>,
    /// The text, without a line feed at its end. It may have several lines.
    pub text: Vec<u8>,
    /// State at the crash.
    pub state: MessageState,
}

impl KernelMessage {
    /// Returns the trust level: printk has no checksum.
    pub const fn trust(&self) -> Trust {
        match self.state {
            MessageState::Complete | MessageState::Reopened => Trust::Unchecked,
            MessageState::Unfinished | MessageState::Lost(_) => Trust::Unverified,
        }
    }

    /// Returns whether the kernel wrote it, and its text is there. Linux refuses the kernel's facility
    /// to programs that write to the log.
    pub fn is_of_kernel(&self) -> bool {
        self.facility == 0 && self.state.has_text()
    }

    /// Returns the facility and the level as one number, as in syslog's `<6>`.
    pub const fn priority(&self) -> u32 {
        (self.facility as u32) << 3 | self.level as u32
    }
}

/// State of a record at the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// The text is complete.
    Complete,
    /// The text is complete, but a caller was about to continue it.
    Reopened,
    /// A caller was about to write the record.
    Unfinished,
    /// The record was written, but its text is lost.
    Lost(LostText),
}

impl MessageState {
    /// Returns whether the record has a text: complete, or complete so far.
    pub const fn has_text(self) -> bool {
        matches!(self, Self::Complete | Self::Reopened)
    }

    /// Returns a word for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Reopened => "reopened",
            Self::Unfinished => "unfinished",
            Self::Lost(LostText::NoRoom) => "no_room",
            Self::Lost(LostText::Overwritten) => "overwritten",
            Self::Lost(LostText::Inconsistent) => "inconsistent",
            Self::Lost(LostText::Missing) => "missing",
        }
    }
}

/// Reason why a text is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostText {
    /// It found no room, because an older record was incomplete.
    NoRoom,
    /// Newer texts are at its place.
    Overwritten,
    /// Its place or its length is impossible.
    Inconsistent,
    /// The dump lacks it.
    Missing,
}

impl fmt::Display for LostText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRoom => "the text found no room in the ring",
            Self::Overwritten => "the text was overwritten",
            Self::Inconsistent => "the place of the text is impossible",
            Self::Missing => "the dump lacks the text",
        })
    }
}

/// Context of a record. It is displayed as in Linux's log: `T12` or `C3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A thread, by its ID.
    Thread(u32),
    /// A CPU outside any thread: an interrupt, for example.
    Cpu(u32),
}

impl Caller {
    /// Reads Linux's word: bit 31 is set for a CPU.
    pub(super) const fn from_word(word: u32) -> Self {
        const CPU: u32 = 1 << 31;
        match word & CPU {
            0 => Self::Thread(word),
            _ => Self::Cpu(word & !CPU),
        }
    }
}

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(id) => write!(f, "T{id}"),
            Self::Cpu(number) => write!(f, "C{number}"),
        }
    }
}

//! Strategies to fill the transmitter.

use core::fmt;
use core::str::FromStr;

/// Strategy to fill the transmitter.
///
/// The first two are what others do, for comparison; the last two are ours.
/// Where the port has no FIFO that works, or flow control is on, all of them send
/// byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The line status is asked before every byte, as Linux's 8250 console did
    /// before 2022 and most small kernels do.
    BytePolled,
    /// The line status is asked once for each FIFO-full, which is then written
    /// byte by byte, as Linux's 8250 console has done since 2022.
    FifoPolled,
    /// The same, with each FIFO-full written as one burst: one instruction where
    /// the bus has one. For a crash, when no task can use the CPU.
    FifoBurst,
    /// Bursts, and between them the CPU is given away until the line should be
    /// ready for the next, as learned from the line itself. A write returns when
    /// its last bytes are in the FIFO.
    FifoPaced,
}

impl Strategy {
    /// All strategies, in their historical order.
    pub const ALL: [Self; 4] = [
        Self::BytePolled,
        Self::FifoPolled,
        Self::FifoBurst,
        Self::FifoPaced,
    ];

    /// The stable word for it in reports and file names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BytePolled => "byte-polled",
            Self::FifoPolled => "fifo-polled",
            Self::FifoBurst => "fifo-burst",
            Self::FifoPaced => "fifo-paced",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Strategy {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|s| s.name() == name).ok_or(())
    }
}

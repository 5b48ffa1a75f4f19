//! Strategies to fill the transmitter.

use core::fmt;
use core::str::FromStr;

/// Strategy to fill the transmitter.
///
/// The first two are those of other drivers, for comparison; the last two are nostall's. Without a
/// working FIFO, or with flow control, all of them send byte by byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// The line status is read before every byte, as in Linux's 8250 console before 2022 and in
    /// most small kernels.
    BytePolled,
    /// The line status is read once for each FIFO load, which is then written byte by byte, as in
    /// Linux's 8250 console since 2022.
    FifoPolled,
    /// Like `FifoPolled`, but each load is written as one burst: one instruction if the bus has
    /// one. For a crash, in which no task can use the CPU.
    FifoBurst,
    /// Loads are bursts, and between them the CPU is yielded until the predicted time of the next
    /// one, learned from the line. A write returns when its last bytes are in the FIFO.
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

    /// Returns the stable name for reports and file names.
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

//! The costs of serial ports, as data.
//!
//! Each number says where it is from: *measured* (by whom), *fitted* (to what) or
//! *assumed*. A fitted profile shows how a way of writing behaves on such a port;
//! it proves nothing about the machine that it is named after.

use core::str::FromStr;

use nostall_io::Nanos;
use nostall_uart::Strategy;

use super::Controller;

/// What the transmitter empties into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// Everything at once, whatever rate is set: a virtual machine's.
    AtOnce,
    /// A line at the rate that is set, frame by frame.
    Baud,
    /// A management controller, whatever rate is set.
    Controller(Controller),
}

/// Accesses that now and then take longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlowAccess {
    /// Every how many accesses; 0 for never.
    pub every: u64,
    /// What such an access takes.
    pub takes: Nanos,
}

/// A figure that somebody published for such a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Published {
    /// How the bytes were brought to the transmitter.
    pub strategy: Strategy,
    /// How many in one write.
    pub bytes: u64,
    /// What the write took.
    pub time: Nanos,
    /// Where it is written.
    pub source: &'static str,
}

/// What a serial port costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Profile {
    /// The stable word for it.
    pub name: &'static str,
    /// What one access to a register takes on the bus.
    pub access: Nanos,
    /// Accesses that take longer.
    pub slow_access: SlowAccess,
    /// How fast it empties.
    pub line: Line,
    /// What others have measured on such a port, to be printed beside what the
    /// model gives.
    pub published: &'static [Published],
}

/// "[PATCH v4 1/5] serial/8250: Use fifo in 8250 console driver".
const PATCH: &str = "Costa, \"serial/8250: Use fifo in 8250 console driver\", 2022";

/// The article about the same work.
const ARTICLE: &str = "Costa, \"Improving the Kernel TTY throughput\"";

const NO_SLOW_ACCESS: SlowAccess = SlowAccess {
    every: 0,
    takes: Nanos::ZERO,
};

impl Profile {
    /// A virtual machine's port: it empties at once.
    ///
    /// The cost of an access is *assumed*, the same as `pc-16550a`'s, so that
    /// the two profiles differ in the line alone.
    pub const VM: Self = Self {
        name: "vm",
        access: Nanos(1_700),
        slow_access: NO_SLOW_ACCESS,
        line: Line::AtOnce,
        published: &[],
    };

    /// A PC's port.
    ///
    /// 1.7 us an access, *measured* by others: the function trace in "Improving
    /// the Kernel TTY throughput" (Costa), `io_serial_in` and `io_serial_out`.
    pub const PC_16550A: Self = Self {
        name: "pc-16550a",
        access: Nanos(1_700),
        slow_access: NO_SLOW_ACCESS,
        line: Line::Baud,
        published: &[],
    };

    /// The other machine of the same article, on which nothing was wrong: 80 to
    /// 90 us a byte, *measured* by its author, which is what 115,200 baud take.
    ///
    /// The cost of an access is *assumed*, the same as `pc-16550a`'s.
    pub const FAST_16550A: Self = Self {
        name: "fast-16550a",
        published: &[Published {
            strategy: Strategy::BytePolled,
            bytes: 11_500,
            time: Nanos::from_secs(1),
            source: PATCH,
        }],
        ..Self::PC_16550A
    };

    /// The port of an HP ProLiant DL380 Gen9, behind its management controller.
    ///
    /// Accesses of 1.7 us, and some of 12.8 us: *measured* by the article's
    /// author; how often, he does not say: one in 200 is *assumed*. The
    /// controller's four numbers are *fitted* to the figures in `published`: 399
    /// us for a byte alone and 717 us for a FIFO of 16 give latency and time per
    /// byte; 2,500 bytes in 0.112 s and 11,500 in 3.142 s give buffer and drain
    /// (2.97 KB/s). The published times are taken as the bytes' way into the
    /// controller: what they do there the host cannot see.
    pub const HP_DL380_GEN9: Self = Self {
        name: "hp-dl380-gen9",
        access: Nanos(1_700),
        slow_access: SlowAccess {
            every: 200,
            takes: Nanos(12_800),
        },
        line: Line::Controller(Controller {
            latency: Nanos(375_000),
            per_byte: Nanos(21_000),
            buffer: 2_170,
            drain: Nanos(336_700),
        }),
        published: &[
            Published {
                strategy: Strategy::BytePolled,
                bytes: 1,
                time: Nanos(411_342),
                source: ARTICLE,
            },
            Published {
                strategy: Strategy::BytePolled,
                bytes: 2_500,
                time: Nanos::from_millis(997),
                source: PATCH,
            },
            Published {
                strategy: Strategy::FifoPolled,
                bytes: 2_500,
                time: Nanos::from_millis(112),
                source: ARTICLE,
            },
            Published {
                strategy: Strategy::FifoPolled,
                bytes: 11_500,
                time: Nanos::from_millis(3_142),
                source: ARTICLE,
            },
        ],
    };

    /// Every profile.
    pub const ALL: [Self; 4] = [
        Self::VM,
        Self::PC_16550A,
        Self::FAST_16550A,
        Self::HP_DL380_GEN9,
    ];

    /// Returns the time that the access of this number takes, counted from 1.
    pub const fn access_time(&self, number: u64) -> Nanos {
        // An `every` of 0 divides no number.
        if number.is_multiple_of(self.slow_access.every) {
            self.slow_access.takes
        } else {
            self.access
        }
    }

    /// How long a port that nobody writes to takes to be as it was at the start.
    ///
    /// A controller's buffer outlives a write: measurements without this pause
    /// between them measure what the one before left behind.
    pub fn settling_time(&self) -> Nanos {
        match self.line {
            Line::AtOnce | Line::Baud => Nanos::ZERO,
            Line::Controller(by) => by.drain * by.buffer as u64,
        }
    }
}

impl FromStr for Profile {
    type Err = ();

    /// The profile of this name.
    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.name == name)
            .ok_or(())
    }
}

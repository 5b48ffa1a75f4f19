//! Timing of serial ports, as data.
//!
//! The source of each number is stated: *measured* (with the author), *fitted* (with the figures)
//! or *assumed*. A fitted profile shows how a write strategy behaves on such a port. It proves
//! nothing about the real machine of that name.

use core::str::FromStr;

use nostall_io::Nanos;
use nostall_uart::Strategy;

use super::Controller;

/// Destination of the transmitter's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// A virtual machine's line: takes everything at once, at any baud rate.
    AtOnce,
    /// A line at the configured baud rate, frame by frame.
    Baud,
    /// A management controller, independent of the baud rate.
    Controller(Controller),
}

/// Accesses that are slower than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlowAccess {
    /// Interval between slow accesses, in accesses; 0 for no slow accesses.
    pub every: u64,
    /// Duration of a slow access.
    pub takes: Nanos,
}

/// A published figure for such a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Published {
    /// Write strategy.
    pub strategy: Strategy,
    /// Number of bytes in one write.
    pub bytes: u64,
    /// Duration of the write.
    pub time: Nanos,
    /// Publication.
    pub source: &'static str,
}

/// Costs of a serial port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Profile {
    /// Stable name, for command lines and reports.
    pub name: &'static str,
    /// Duration of one register access.
    pub access: Nanos,
    /// Slower accesses.
    pub slow_access: SlowAccess,
    /// Destination of the bytes, and its timing.
    pub line: Line,
    /// Published figures for such a port, to print beside the model's.
    pub published: &'static [Published],
}

/// Cover letter of the patch series "serial/8250: Use fifo in 8250 console driver", version 4.
const PATCH: &str = "Costa, \"serial/8250: Use fifo in 8250 console driver\", 2022";

/// Article about the same patch series.
const ARTICLE: &str = "Costa, \"Improving the Kernel TTY throughput\"";

const NO_SLOW_ACCESS: SlowAccess = SlowAccess {
    every: 0,
    takes: Nanos::ZERO,
};

impl Profile {
    /// A virtual machine's port: sends at once.
    ///
    /// The access time is *assumed*, the same as `pc-16550a`'s, so that the two profiles differ
    /// in the line alone.
    pub const VM: Self = Self {
        name: "vm",
        access: Nanos(1_700),
        slow_access: NO_SLOW_ACCESS,
        line: Line::AtOnce,
        published: &[],
    };

    /// A PC's port at its configured baud rate.
    ///
    /// Accesses take 1.7 us, *measured* by Costa: `io_serial_in` and `io_serial_out` in the
    /// function trace of "Improving the Kernel TTY throughput".
    pub const PC_16550A: Self = Self {
        name: "pc-16550a",
        access: Nanos(1_700),
        slow_access: NO_SLOW_ACCESS,
        line: Line::Baud,
        published: &[],
    };

    /// The unaffected machine of the same article: 80 to 90 us per byte, *measured* by its author.
    /// This is the byte time at 115,200 baud.
    ///
    /// The access time is *assumed*, the same as `pc-16550a`'s.
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
    /// Access times of 1.7 us, with some of 12.8 us, were *measured* by the article's author. Their
    /// frequency is not published: one in 200 is *assumed*.
    ///
    /// The controller's four numbers are *fitted* to the figures in `published`. 399 us for a
    /// single byte and 717 us for a FIFO of 16 give latency and time per byte. 2,500 bytes in 0.112
    /// s and 11,500 in 3.142 s give buffer size and drain rate (2.97 KB/s).
    ///
    /// A published time is taken to end when the controller has the bytes: the host cannot observe
    /// them inside the controller.
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

    /// All profiles.
    pub const ALL: [Self; 4] = [
        Self::VM,
        Self::PC_16550A,
        Self::FAST_16550A,
        Self::HP_DL380_GEN9,
    ];

    /// Returns the duration of access number `number`, counted from 1.
    pub const fn access_time(&self, number: u64) -> Nanos {
        // No number is a multiple of an `every` of 0.
        if number.is_multiple_of(self.slow_access.every) {
            self.slow_access.takes
        } else {
            self.access
        }
    }

    /// Returns the time that an idle port needs to return to its initial state.
    ///
    /// A controller's buffer stays filled after a write. Without this pause, the next measurement
    /// includes the backlog.
    pub fn settling_time(&self) -> Nanos {
        match self.line {
            Line::AtOnce | Line::Baud => Nanos::ZERO,
            Line::Controller(by) => by.drain * by.buffer as u64,
        }
    }
}

impl FromStr for Profile {
    type Err = ();

    /// Parses a profile's name. The error has no details.
    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|profile| profile.name == name)
            .ok_or(())
    }
}

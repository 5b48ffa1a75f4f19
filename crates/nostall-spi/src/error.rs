//! Errors, and the caller's options after each.

use core::fmt;

use embedded_hal::spi::ErrorKind;

use crate::settings::{Mode, WordSize};

/// Why a message was not run, or not to its end.
///
/// Transfers are counted from 0. After any error, the device is deselected and the bus goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A message without transfers does nothing: there is a mistake somewhere.
    NoTransfers,
    /// This transfer cannot be run on this controller, or not at all. Nothing was
    /// moved.
    Invalid {
        /// Index of the transfer.
        transfer: usize,
        /// Reason of the refusal.
        why: Invalid,
    },
    /// The bus is busy, and the caller must not wait. Try later, or submit.
    WouldBlock,
    /// Every place in the line is taken. Try later, or give the bus more places.
    LineFull,
    /// The message does not fit into the bus's memory for a submitted message, which has
    /// room for this many bytes. Run it with `sync`, or give the bus more memory.
    TooLongToStore {
        /// Bytes of the bus's memory for one message.
        room: usize,
    },
    /// The message has more transfers than a submitted message may have. Run it with
    /// `sync`.
    TooManyToStore {
        /// Transfers.
        room: usize,
    },
    /// Other callers kept the bus busy for [`lock_timeout`](crate::Config::lock_timeout).
    /// Nothing was moved.
    BusHeld,
    /// The owner of the bus has not moved for
    /// [`lock_timeout`](crate::Config::lock_timeout): its future was leaked, or it keeps
    /// the bus [locked](crate::Device::lock). Nothing was moved, and nothing is until the
    /// owner lets go or the bus is [reset](crate::Bus::reset).
    Abandoned,
    /// The bus has a worker already.
    AlreadyServed,
    /// The message, or its device, was dropped before its turn. Nothing was moved.
    Cancelled,
    /// The transfer took more than twice its time and a grace. The controller was
    /// reset.
    Timeout {
        /// Index of the transfer.
        transfer: usize,
    },
    /// The controller failed in this transfer. It was reset.
    Failed {
        /// Index of the transfer.
        transfer: usize,
        /// Fault of the controller.
        fault: Fault,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTransfers => f.write_str("the message has no transfers"),
            Self::Invalid { transfer, why } => write!(f, "transfer {transfer}: {why}"),
            Self::WouldBlock => {
                f.write_str("the bus is busy and the caller must not wait: submit the message")
            }
            Self::LineFull => f.write_str("every place in the line is taken: try later"),
            Self::TooLongToStore { room } => write!(
                f,
                "longer than the {room} bytes of a submitted message: run it with sync"
            ),
            Self::TooManyToStore { room } => write!(
                f,
                "more transfers than the {room} of a submitted message: run it with sync"
            ),
            Self::BusHeld => f.write_str("other callers have kept the bus busy for too long"),
            Self::Abandoned => f.write_str("the owner of the bus is gone: reset the bus"),
            Self::AlreadyServed => f.write_str("the bus has a worker already"),
            Self::Cancelled => f.write_str("cancelled before its turn"),
            Self::Timeout { transfer } => {
                write!(f, "transfer {transfer}: the controller did not complete it")
            }
            Self::Failed { transfer, fault } => write!(f, "transfer {transfer}: {fault}"),
        }
    }
}

impl core::error::Error for Error {}

impl embedded_hal::spi::Error for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Failed { fault, .. } => fault.kind(),
            _ => ErrorKind::Other,
        }
    }
}

/// Property of a device or a transfer that the controller does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Invalid {
    /// The controller does not have this mode.
    Mode(Mode),
    /// The controller sends the most significant bit first, always.
    LsbFirst,
    /// The controller has a wire for each direction, always.
    ThreeWire,
    /// There is no such chip-select line.
    Line(u8),
    /// The controller's chip-select lines are active low, always.
    ActiveHigh,
    /// The controller does not have words of this size.
    Word(WordSize),
    /// A clock of 0 Hz never ends.
    ClockZero,
    /// The controller's slowest clock is faster: this many hertz.
    TooSlow(u32),
    /// The bytes are no whole number of words of this size.
    PartOfWord(WordSize),
    /// Three wires go one way at a time.
    BothOnThreeWires,
    /// The controller's longest transfer is of this many bytes.
    TooLong(usize),
    /// A message ends deselected anyway.
    CsChangeAtEnd,
    /// The bus was in use when its first device was made.
    Busy,
    /// The bus has 64 devices. Drop one of them first.
    TooManyDevices,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode(mode) => write!(f, "the controller has no mode {}", mode.number()),
            Self::LsbFirst => f.write_str("the controller cannot send the lowest bit first"),
            Self::ThreeWire => f.write_str("the controller cannot share a wire for data"),
            Self::Line(number) => write!(f, "the controller has no chip-select line {number}"),
            Self::ActiveHigh => f.write_str("the controller's chip-select lines are active low"),
            Self::Word(word) => write!(f, "the controller has no words of {word}"),
            Self::ClockZero => f.write_str("a clock of 0 Hz never ends"),
            Self::TooSlow(hertz) => write!(f, "the controller's slowest clock is {hertz} Hz"),
            Self::PartOfWord(word) => write!(f, "no whole number of words of {word}"),
            Self::BothOnThreeWires => f.write_str("three wires go one way at a time"),
            Self::TooLong(bytes) => write!(f, "the controller's longest transfer is {bytes} bytes"),
            Self::Busy => f.write_str("the bus is in use before it has a device"),
            Self::TooManyDevices => f.write_str("the bus has 64 devices: drop one of them first"),
            Self::CsChangeAtEnd => f.write_str("the last transfer ends deselected anyway"),
        }
    }
}

impl core::error::Error for Invalid {}

/// How a controller failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing answers any more.
    Gone,
    /// The transfer needs settings that the controller does not have.
    Refused,
    /// It said that it had finished, and had not.
    Short,
    /// The driver underneath gave this error.
    Bus(ErrorKind),
    /// The operating system gave this error number.
    System(i32),
    /// Its driver panicked, or the future that ran it was dropped half-way.
    Dropped,
}

impl Fault {
    const fn kind(self) -> ErrorKind {
        match self {
            Self::Bus(kind) => kind,
            _ => ErrorKind::Other,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("the controller does not answer any more"),
            Self::Refused => f.write_str("the controller refused its settings"),
            Self::Short => f.write_str("the controller stopped before the end"),
            Self::Bus(kind) => write!(f, "{kind}"),
            Self::System(number) => write!(f, "error {number} of the operating system"),
            Self::Dropped => f.write_str("it was given up half-way"),
        }
    }
}

impl core::error::Error for Fault {}

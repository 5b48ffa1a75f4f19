//! Errors, and the caller's options after each.

use core::fmt;

use embedded_hal::spi::{ErrorKind, Mode};

use crate::settings::{WordSize, mode_number};

/// Reason for which a message was not run, or not completely.
///
/// Transfers are counted from 0. The error decides whether the message can be sent again:
///
/// - [`Unfinished`](Self::Unfinished): no. The bus still has it, and may send all of it.
/// - [`Timeout`](Self::Timeout) and [`Failed`](Self::Failed): a part may have been sent. The rest
///   is not sent.
/// - All others: nothing was sent, and nothing is sent later.
///
/// After [`Abandoned`](Self::Abandoned) or [`StillSelected`](Self::StillSelected), the bus is not
/// usable yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The message has no transfers, which is probably a mistake.
    NoTransfers,
    /// The controller cannot run this transfer.
    Invalid {
        /// Index of the transfer.
        transfer: usize,
        /// Reason of the refusal.
        why: Invalid,
    },
    /// The bus is busy, and the caller must not wait. Try later, or submit the message.
    WouldBlock,
    /// Every place in the line is taken. Try later, or give the bus more places.
    LineFull,
    /// The message does not fit into the bus's memory for a submitted message. Run it with `sync`,
    /// or give the bus more memory.
    TooLongToStore {
        /// Size of the bus's memory for one message, in bytes.
        room: usize,
    },
    /// The message has more transfers than a submitted message may have. Run it with `sync`.
    TooManyToStore {
        /// Largest number of transfers of a submitted message.
        room: usize,
    },
    /// Other callers kept the bus busy for [`lock_timeout`](crate::Config::lock_timeout).
    BusHeld,
    /// The owner of the bus has made no progress for [`lock_timeout`](crate::Config::lock_timeout),
    /// nor for the time limit of its transfer. Its future was leaked, or it keeps the bus
    /// [locked](crate::Device::lock). Callers get this error until the owner releases the bus or the
    /// bus is [reset](crate::Bus::reset).
    Abandoned,
    /// The submitted message is not complete: it waits in line, or a part of it was sent and the
    /// rest may follow. Do not send it again. Wait again, or drop the handle.
    Unfinished,
    /// The chip-select line of an earlier message is still asserted, because it could not be
    /// released. Another attempt has just failed; each message makes one.
    StillSelected,
    /// The bus already has a worker.
    AlreadyServed,
    /// The message, or its device, was dropped before its turn.
    Cancelled,
    /// The transfer took longer than twice its time plus 200 ms. The controller was stopped.
    Timeout {
        /// Index of the transfer.
        transfer: usize,
    },
    /// The controller failed in this transfer, and was stopped.
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
            Self::Abandoned => {
                f.write_str("the owner of the bus makes no progress: if it is gone, reset the bus")
            }
            Self::Unfinished => f.write_str("not complete yet: do not send it again"),
            Self::StillSelected => {
                f.write_str("the chip select of an earlier message cannot be released")
            }
            Self::AlreadyServed => f.write_str("the bus already has a worker"),
            Self::Cancelled => f.write_str("the message or its device was dropped before its turn"),
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
            Self::StillSelected => ErrorKind::ChipSelectFault,
            _ => ErrorKind::Other,
        }
    }
}

/// Property of a device or a transfer that the controller does not support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Invalid {
    /// The controller does not support this mode.
    Mode(Mode),
    /// The controller always sends the most significant bit first.
    LsbFirst,
    /// The controller always has one data wire for each direction.
    ThreeWire,
    /// The controller has no such chip-select line.
    Line(u8),
    /// The controller's chip-select lines are always active low.
    ActiveHigh,
    /// The controller does not support this word size.
    Word(WordSize),
    /// The clock is 0 Hz.
    ClockZero,
    /// The device or the transfer allows only clocks below the controller's slowest one.
    TooSlow {
        /// Fastest clock that is allowed, in hertz.
        asked: u32,
        /// Slowest clock of the controller, in hertz.
        slowest: u32,
    },
    /// The bytes are not a whole number of words of this size.
    PartOfWord(WordSize),
    /// A transfer on three wires sends and receives at the same time.
    BothOnThreeWires,
    /// The transfer is longer than the controller's longest, in bytes.
    TooLong(usize),
    /// `cs_change` is set for the last transfer, after which the device is always deselected.
    CsChangeAtEnd,
    /// The bus was in use when its first device was created.
    Busy,
    /// The bus has 64 devices. Drop one of them first.
    TooManyDevices,
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mode(mode) => {
                write!(f, "the controller has no mode {}", mode_number(*mode))
            }
            Self::LsbFirst => f.write_str("the controller cannot send the lowest bit first"),
            Self::ThreeWire => f.write_str("the controller cannot share a wire for data"),
            Self::Line(number) => write!(f, "the controller has no chip-select line {number}"),
            Self::ActiveHigh => f.write_str("the controller's chip-select lines are active low"),
            Self::Word(word) => write!(f, "the controller has no words of {word}"),
            Self::ClockZero => f.write_str("the clock must not be 0 Hz"),
            Self::TooSlow { asked, slowest } => write!(
                f,
                "{asked} Hz was asked for, and the controller's slowest clock is {slowest} Hz"
            ),
            Self::PartOfWord(word) => {
                write!(f, "the bytes are not a whole number of words of {word}")
            }
            Self::BothOnThreeWires => f.write_str("three wires carry one direction at a time"),
            Self::TooLong(bytes) => write!(f, "the controller's longest transfer is {bytes} bytes"),
            Self::Busy => f.write_str("the bus was in use when its first device was created"),
            Self::TooManyDevices => f.write_str("the bus has 64 devices: drop one of them first"),
            Self::CsChangeAtEnd => {
                f.write_str("the last transfer always ends deselected: remove its cs_change")
            }
        }
    }
}

impl core::error::Error for Invalid {}

/// Fault of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The controller no longer answers.
    Gone,
    /// The transfer needs settings that the controller does not support.
    Refused,
    /// The controller reported the end of the transfer too early, or stopped before the end.
    Short,
    /// The underlying driver returned this error.
    Bus(ErrorKind),
    /// The operating system returned this error number.
    System(i32),
    /// The controller's driver panicked, or the future that ran it was dropped during the message.
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
            Self::Gone => f.write_str("the controller no longer answers"),
            Self::Refused => f.write_str("the controller refused its settings"),
            Self::Short => f.write_str("the controller stopped before the end"),
            Self::Bus(kind) => write!(f, "{kind}"),
            Self::System(number) => write!(f, "error {number} of the operating system"),
            Self::Dropped => f.write_str("the message was abandoned before its end"),
        }
    }
}

impl core::error::Error for Fault {}

//! Faults that are found while addresses are given out.

use core::fmt;

use crate::{AccessError, Address, Bar, BarFault, BarKind, ScanFault};

/// A part of the machine that got nothing, or a fault on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssignFault {
    /// No bus number is left for the bus below this bridge, or that bus cannot be reached.
    /// Nothing below it can be used.
    NoBus(Address),
    /// No slot was left for the BARs of this function: lend [`assign`](super::assign()) more. It has no place,
    /// and nothing below it can be used.
    NoSlot(Address),
    /// This is a bridge to CardBus, which has windows of another kind. Nothing below it can
    /// be used.
    CardBus(Address),
    /// There is no room for this BAR where it could go.
    NoRoom {
        /// Whose it is.
        address: Address,
        /// Its register and size.
        bar: Bar,
    },
    /// This BAR cannot be given a place.
    Bar {
        /// Whose it is.
        address: Address,
        /// Why not.
        fault: BarFault,
    },
    /// An access to this function could not be made; it may be set up by half.
    Access {
        /// Which.
        address: Address,
        /// Why not.
        error: AccessError,
    },
    /// A fault that a scan would report.
    Scan(ScanFault),
}

impl fmt::Display for AssignFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBus(address) => write!(
                f,
                "{address}: bridge not entered: no bus number is left that can be reached"
            ),
            Self::NoSlot(address) => {
                write!(
                    f,
                    "{address}: no slot is left for its BARs: lend more of them"
                )
            }
            Self::CardBus(address) => {
                write!(f, "{address}: bridge to CardBus not entered: not supported")
            }
            Self::NoRoom { address, bar } => {
                let range = match bar.kind {
                    BarKind::Io => "I/O",
                    BarKind::Prefetchable if bar.bits > 32 => "prefetchable memory or memory",
                    _ => "memory",
                };
                write!(
                    f,
                    "{address}: there is no room for the {:#x} bytes of BAR {:#x}: enlarge the \
                     range of {range}, unless a bridge above cannot pass it on",
                    bar.size.unwrap_or(0),
                    bar.register
                )
            }
            Self::Bar { address, fault } => write!(f, "{address}: {fault}"),
            Self::Access { address, error } => write!(f, "{address}: {error}"),
            Self::Scan(fault) => fault.fmt(f),
        }
    }
}

impl core::error::Error for AssignFault {}

/// Why nothing was given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadRanges {
    /// There is not even a root bus.
    NoBus,
    /// The ranges of I/O and of memory must end below 4 GiB.
    Above4Gib,
    /// Memory and prefetchable memory overlap.
    Overlapping,
}

impl fmt::Display for BadRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoBus => "there is no bus to assign from",
            Self::Above4Gib => "the ranges of I/O and 32-bit memory must end below 4 GiB",
            Self::Overlapping => "the ranges of memory and prefetchable memory overlap",
        })
    }
}

impl core::error::Error for BadRanges {}

//! Faults of an assignment.

use thiserror::Error;

use crate::{AccessError, Address, Bar, BarFault, BarKind, ScanFault};

/// A part of the machine without a number or an address, or a failed access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AssignFault {
    /// The bus below this bridge has no free bus number, or cannot be reached. No function below
    /// the bridge can be used.
    #[error("{0}: bridge not entered: no bus number is left that can be reached")]
    NoBus(Address),
    /// The BARs of this function have no slot: pass more to [`assign`](super::assign()). The BARs
    /// have no address, and no function below this one can be used.
    #[error("{0}: no slot is left for its BARs: lend more of them")]
    NoSlot(Address),
    /// This is a CardBus bridge, whose windows differ. No function below it can be used.
    #[error("{0}: bridge to CardBus not entered: not supported")]
    CardBus(Address),
    /// There is no room for this BAR in any range that it may use.
    #[error(
        "{address}: there is no room for the {:#x} bytes of BAR {:#x}: enlarge the range of {}, \
         unless a bridge above cannot pass it on",
        .bar.size.unwrap_or(0), .bar.register, range_of(.bar)
    )]
    NoRoom {
        /// Address of the function.
        address: Address,
        /// Register and size of the BAR.
        bar: Bar,
    },
    /// This BAR cannot get an address.
    #[error("{address}: {fault}")]
    Bar {
        /// Address of the function.
        address: Address,
        /// Reason.
        fault: BarFault,
    },
    /// An access to this function could not be made. It may be partly set up.
    #[error("{address}: {error}")]
    Access {
        /// Address of the function.
        address: Address,
        /// Reason.
        error: AccessError,
    },
    /// A fault that a scan would report.
    #[error("{0}")]
    Scan(ScanFault),
}

/// Returns the name of the range in which a BAR found no room.
fn range_of(bar: &Bar) -> &'static str {
    match bar.kind {
        BarKind::Io => "I/O",
        BarKind::Prefetchable if bar.bits > 32 => "prefetchable memory or memory",
        _ => "memory",
    }
}

/// Reason for which nothing was assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BadRanges {
    /// The range of bus numbers is empty.
    #[error("there is no bus to assign from")]
    NoBus,
    /// A range of I/O or of 32-bit memory ends above 4 GiB.
    #[error("the ranges of I/O and 32-bit memory must end below 4 GiB")]
    Above4Gib,
    /// Memory and prefetchable memory overlap.
    #[error("the ranges of memory and prefetchable memory overlap")]
    Overlapping,
}

//! Faults of a scan.

use thiserror::Error;

use crate::{Address, Buses, CapabilityFault, Unread, WrongPort};

/// Fault during a scan, which continues without the faulty part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScanFault {
    /// A function may exist here, but its header could not be read.
    #[error("{address}: {why}")]
    Unread {
        /// Address of the function.
        address: Address,
        /// Reason.
        why: Unread,
    },
    /// This bridge was not entered, or not as far as it claims ([`BusFault::Beyond`]).
    #[error("{address}: bridge {buses} {}: {why}", .why.entered())]
    Buses {
        /// Address of the bridge.
        address: Address,
        /// Bus numbers in its registers.
        buses: Buses,
        /// Fault of the numbers.
        why: BusFault,
    },
    /// Buses from this one are below a bridge, but this method does not reach them.
    #[error("{0}: bus cannot be reached in this way")]
    OutOfReach(Address),
    /// A capability list cannot be followed, so it is unknown whether it has PCI Express or ARI.
    #[error("{address}: {why}")]
    Capabilities {
        /// Address of the function.
        address: Address,
        /// Fault of the list.
        why: CapabilityFault,
    },
    /// A port reports a type that is impossible at its place. The scan continued with the other
    /// type.
    #[error("{address}: {why}")]
    Port {
        /// Address of the port.
        address: Address,
        /// Reported and corrected type.
        why: WrongPort,
    },
    /// A function with ARI names a next function that is not after it. The rest of its device was
    /// not scanned.
    #[error("{address}: names {next} as its next function, which is not after it")]
    NextFunction {
        /// Address of the function.
        address: Address,
        /// Function number that it names.
        next: u8,
    },
}

/// Fault of a bridge's bus numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BusFault {
    /// The numbers were not assigned: the secondary bus is 0.
    #[error("it has no bus numbers yet")]
    NotAssigned,
    /// The subordinate bus is before the secondary bus.
    #[error("its bus numbers run backwards")]
    Backwards,
    /// The secondary bus is not below the bridge's own bus.
    #[error("its buses are not below its own bus")]
    OutsideParent,
    /// The subordinate bus is beyond this one, the last bus below the bridge's own bus or the last
    /// scanned one. Some firmware writes 255 as an open end. The bridge was entered, and scanned up
    /// to this bus.
    #[error("no bus after {0:02x} can be below it or is scanned")]
    Beyond(u8),
    /// Another bridge has some of the buses.
    #[error("another bridge has some of its buses")]
    Taken,
}

impl BusFault {
    const fn entered(self) -> &'static str {
        match self {
            Self::Beyond(_) => "entered in part",
            _ => "not entered",
        }
    }
}

//! Faults of a scan.

use thiserror::Error;

use crate::{Address, Buses, CapabilityFault, Unread, WrongPort};

/// What was wrong on the way; the scan has gone on without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScanFault {
    /// There is or was something here whose header is not known.
    #[error("{address}: {why}")]
    Unread {
        /// Where.
        address: Address,
        /// Why not.
        why: Unread,
    },
    /// This bridge was not entered, or not as far as it says ([`BusFault::Beyond`]).
    #[error("{address}: bridge {buses} {}: {why}", .why.entered())]
    Buses {
        /// Where it is.
        address: Address,
        /// What its registers say.
        buses: Buses,
        /// What is wrong with that.
        why: BusFault,
    },
    /// Buses from this one on are below a bridge but cannot be reached by this method.
    #[error("{0}: bus cannot be reached in this way")]
    OutOfReach(Address),
    /// A list of capabilities cannot be followed, so it is not known whether it has what a
    /// scan looks for there: PCI Express, ARI.
    #[error("{address}: {why}")]
    Capabilities {
        /// Whose.
        address: Address,
        /// Why.
        why: CapabilityFault,
    },
    /// A port says that it is of a type that it cannot be where it is. The scan has gone on as
    /// below a port of the other type.
    #[error("{address}: {why}")]
    Port {
        /// Where it is.
        address: Address,
        /// Both types.
        why: WrongPort,
    },
    /// A function with ARI names a next one that is not after it; the rest of its device
    /// was not looked for.
    #[error("{address}: names {next} as its next function, which is not after it")]
    NextFunction {
        /// Where it is.
        address: Address,
        /// The function number that it names.
        next: u8,
    },
}

/// Why a bridge's bus numbers cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BusFault {
    /// It has not been given any: its secondary bus is 0.
    #[error("it has no bus numbers yet")]
    NotAssigned,
    /// Its subordinate bus is before its secondary one.
    #[error("its bus numbers run backwards")]
    Backwards,
    /// Its secondary bus is not below the bus that it is on.
    #[error("its buses are not below its own bus")]
    OutsideParent,
    /// Its subordinate bus is beyond this one, the last below the bus that it is on or the
    /// last that is scanned: firmware writes 255 where it stops counting. It was entered;
    /// what is below it is scanned up to there.
    #[error("no bus after {0:02x} can be below it or is scanned")]
    Beyond(u8),
    /// Another bridge has some of them.
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

//! Reading of a crashed kernel's zones, without changes and without allocation.

mod alignment;
mod block;
pub(crate) mod header;
mod merge;
mod traces;
mod zone;

pub use alignment::Misaligned;
pub use merge::Merge;
pub use traces::{Trace, Traces};
pub use zone::{Damage, Ecc, PreviousBootZone, ZoneState};

use crate::code::Code;
use crate::format::ByteOrder;

/// Options for reading a region.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// Code of the parity bytes. Without a code, or with another number of parity bytes than the
    /// zones have, nothing is checked or corrected.
    pub code: Option<&'a Code>,
    /// Byte order of the writer.
    pub order: ByteOrder,
    /// Policy of corrections.
    pub policy: CorrectionPolicy,
    /// Order of the writer's stores. A cut can leave some of them undone.
    pub writer: Writer,
}

impl<'a> Reader<'a> {
    /// Creates a careful reader, in this machine's byte order, for records of either writer.
    pub const fn careful(code: Option<&'a Code>) -> Self {
        Self {
            code,
            order: ByteOrder::NATIVE,
            policy: CorrectionPolicy::Careful,
            writer: Writer::HeaderFirst,
        }
    }
}

/// Policy of corrections, and of the interpretation of an inconsistent header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorrectionPolicy {
    /// Corrects only as many errors as the code guarantees, and not at positions where a cut may
    /// have separated data and parity.
    Careful,
    /// Linux's policy: corrects every error that the code can explain, counts it, and rotates a
    /// ring to its start even if it is not full.
    Faithful,
}

/// Order in which a zone was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// Header first, then data, as Linux does. Any part of the newest record may be missing. Also
    /// safe for nostall's zones, but too cautious.
    HeaderFirst,
    /// Data first, then header, as nostall does.
    DataFirst,
}

/// Trust in bytes that were read. The worst level compares greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Trust {
    /// The bytes agree with their parity.
    Verified,
    /// The bytes have no parity.
    Unchecked,
    /// This number of bytes in the block was wrong and has been corrected. The number of parity
    /// bytes gives the reliability ([`Code`]).
    Corrected(usize),
    /// The bytes do not agree with their parity, and may have any value.
    Unverified,
}

impl Trust {
    /// Returns the stable name of the level.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

//! Reading a crashed kernel's zones, without changes and without allocation.

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

/// Reader of a region.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The code of the parity bytes. Without it, or with one for another number of
    /// bytes than the zones have, nothing is checked or corrected.
    pub code: Option<&'a Code>,
    /// The writer's byte order.
    pub order: ByteOrder,
    /// Trust in corrections.
    pub policy: CorrectionPolicy,
    /// The writer's order of stores: a cut can leave some of them undone.
    pub writer: Writer,
}

impl<'a> Reader<'a> {
    /// Reads with care, in this machine's byte order, the records of either writer.
    pub const fn careful(code: Option<&'a Code>) -> Self {
        Self {
            code,
            order: ByteOrder::NATIVE,
            policy: CorrectionPolicy::Careful,
            writer: Writer::HeaderFirst,
        }
    }
}

/// Trust in corrections, and the interpretation of an inconsistent header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorrectionPolicy {
    /// Repairs only what the code promises to, and not where the cut can have left
    /// data and parity apart.
    Careful,
    /// Linux's policy: repairs every error that the code can explain, counts it, and turns a
    /// ring that is not full around its start.
    Faithful,
}

/// Order in which a zone was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The header, then the data, as Linux does: of the newest record, any part may
    /// be missing. Right for nostall's zones too, only too cautious.
    HeaderFirst,
    /// The data, then the header, as nostall does.
    DataFirst,
}

/// Trust in bytes that were read. The worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Trust {
    /// The bytes agree with their parity.
    Verified,
    /// The bytes have no parity.
    Unchecked,
    /// This number of bytes in the block was wrong and has been corrected, with the probability
    /// that the number of parity bytes gives ([`Code`]).
    Corrected(usize),
    /// The bytes do not agree with their parity, and may have any value.
    Unverified,
}

impl Trust {
    /// Stable word for the level.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

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

/// How to read a region.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    /// The code of the parity bytes. Without it, or with one for another number of
    /// bytes than the zones have, nothing is checked or corrected.
    pub code: Option<&'a Code>,
    /// The writer's byte order.
    pub order: ByteOrder,
    /// How far corrections are trusted.
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

/// How far corrections are trusted, and the meaning of an odd header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CorrectionPolicy {
    /// Repairs only what the code promises to, and not where the cut can have left
    /// data and parity apart.
    Careful,
    /// As Linux: repairs whatever the code finds an explanation for, counts it, and
    /// turns a ring that is not full yet around its start.
    Faithful,
}

/// In what order a zone was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The header, then the data, as Linux does: of the newest record, any part may
    /// be missing. Right for nostall's zones too, only too cautious.
    HeaderFirst,
    /// The data, then the header, as nostall does.
    DataFirst,
}

/// What is known of bytes that were read. The worst is the greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Trust {
    /// They agree with their parity.
    Verified,
    /// They have no parity.
    Unchecked,
    /// So many bytes of their block did not, and were corrected: to what was
    /// written, as far as the number of parity bytes makes that likely
    /// ([`Code`]).
    Corrected(usize),
    /// They do not agree with their parity, and may be anything.
    Unverified,
}

impl Trust {
    /// Stable word for the level.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

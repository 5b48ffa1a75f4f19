//! Results of a detection.

use nostall_pstore::{LinuxVersion, Params};

use crate::geometry::Geometry;

/// Result of a detection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detection {
    /// Candidates: convincing ones first, sorted by likelihood. Two of them overlap only if both have
    /// evidence outside of the common part.
    pub found: Vec<FoundRegion>,
    /// Whether everything was searched. If not, the data has more headers, or similar bytes, than
    /// any machine leaves; weaker candidates were then dropped.
    pub is_complete: bool,
    /// Number of bytes searched, without holes and repeated parts.
    pub searched: u64,
}

impl Detection {
    /// Sentence about an image that was not searched completely.
    pub const CUT_SHORT: &'static str =
        "more places look like regions than are examined, so records may be missing";

    /// Returns the regions with evidence that ordinary data does not have.
    pub fn convincing(&self) -> &[FoundRegion] {
        &self.found[..self.number_convincing()]
    }

    /// Returns the candidates with evidence that ordinary data may have by chance.
    pub fn doubtful(&self) -> &[FoundRegion] {
        &self.found[self.number_convincing()..]
    }

    fn number_convincing(&self) -> usize {
        let is_convincing = |found: &FoundRegion| found.grade == Grade::Convincing;
        self.found.partition_point(is_convincing)
    }
}

/// Strength of the evidence for a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Grade {
    /// Ordinary data has such evidence by chance. An empty region may have no more.
    Doubtful,
    /// Ordinary data does not have such evidence.
    Convincing,
}

/// A detected region and the evidence for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRegion {
    /// Address of the first byte, or its offset if the bytes have no addresses.
    pub start: u64,
    /// Number of available bytes: the region's size, or fewer if the dump ends before.
    pub len: usize,
    /// Parameters for decoding.
    pub geometry: Geometry,
    /// Parameters with which Linux divides the region like this.
    pub params: Params,
    /// Kernel version that wrote the trace zones, if there are any.
    pub version: Option<LinuxVersion>,
    /// Strength of the evidence.
    pub grade: Grade,
    /// Likelihood in bits, for comparison with other candidates.
    pub bits: i32,
    /// Evidence for each finding, one line each.
    pub why: Vec<String>,
    /// Open questions, one line each.
    pub doubts: Vec<String>,
}

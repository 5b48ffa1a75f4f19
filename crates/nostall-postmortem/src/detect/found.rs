//! Results of a search.

use nostall_pstore::{LinuxVersion, Params};

use crate::geometry::Geometry;

/// Result of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detection {
    /// The candidates: convincing ones first, the likeliest first among these. None
    /// overlaps another.
    pub found: Vec<FoundRegion>,
    /// Whether all was searched. If not, the data has more headers, or more that look
    /// like it, than any machine leaves, and weaker candidates were left out.
    pub is_complete: bool,
    /// Bytes that were searched: holes of a file and repeated parts are not.
    pub searched: u64,
}

impl Detection {
    /// The regions whose evidence ordinary data does not have.
    pub fn convincing(&self) -> &[FoundRegion] {
        &self.found[..self.number_convincing()]
    }

    /// The candidates whose evidence ordinary data has by chance.
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

/// A region, and how it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundRegion {
    /// Address of its first byte; an offset where the bytes have no address.
    pub start: u64,
    /// Number of its bytes that are there: its size, or fewer if the dump ends before.
    pub len: usize,
    /// How to read it.
    pub geometry: Geometry,
    /// The parameters that would make Linux divide it so.
    pub params: Params,
    /// The kernel that wrote it, if there are trace zones.
    pub version: Option<LinuxVersion>,
    /// Strength of the evidence.
    pub grade: Grade,
    /// How likely it is to be one: to compare with others.
    pub bits: i32,
    /// How each thing was found out, a line each.
    pub why: Vec<String>,
    /// Open questions, a line each.
    pub doubts: Vec<String>,
}

//! Parameters for decoding a region.

use std::vec::Vec;

use nostall_pstore::RecordFormat;
use nostall_pstore::{ByteOrder, ZoneKind};
use nostall_pstore::{Layout, Place};

/// Locations of a region's zones, and the format of their contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Zones by address; offsets count from the start of the region.
    pub zones: Vec<Place>,
    /// Parity bytes per block; 0 means no error correction.
    pub parity: usize,
    /// Byte order of the writer.
    pub order: ByteOrder,
    /// Format of the trace records.
    pub record_format: RecordFormat,
    /// Whether trace zone n belongs to CPU n.
    pub traces_per_cpu: bool,
}

impl Geometry {
    /// Returns the geometry of a region with this layout.
    pub fn of(layout: &Layout, order: ByteOrder, record_format: RecordFormat) -> Self {
        Self {
            zones: layout.zones().collect(),
            parity: layout.params().ecc,
            order,
            record_format,
            traces_per_cpu: layout.traces_per_cpu(),
        }
    }

    /// Returns the zones of one kind.
    pub fn zones_of(&self, kind: ZoneKind) -> impl Iterator<Item = &Place> {
        self.zones.iter().filter(move |zone| zone.kind == kind)
    }

    /// Returns the number of bytes from the region's start to the end of its last zone.
    pub fn len(&self) -> usize {
        let ends = self
            .zones
            .iter()
            .map(|zone| zone.offset.saturating_add(zone.division.zone()));
        ends.max().unwrap_or(0)
    }

    /// Returns whether there is no zone.
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }
}

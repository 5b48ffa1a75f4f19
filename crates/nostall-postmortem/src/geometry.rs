//! All that must be known of a region to read it.

use std::vec::Vec;

use nostall_pstore::RecordFormat;
use nostall_pstore::{ByteOrder, ZoneKind};
use nostall_pstore::{Layout, Place};

/// Where a region's zones lie, and how to decode their contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The zones, in the order of their addresses; offsets count from the region's
    /// start.
    pub zones: Vec<Place>,
    /// Parity bytes for each block; 0: no error correction.
    pub parity: usize,
    /// The writer's byte order.
    pub order: ByteOrder,
    /// The trace records' format.
    pub record_format: RecordFormat,
    /// Whether trace zone n is CPU n's.
    pub traces_per_cpu: bool,
}

impl Geometry {
    /// Of a region that is divided like this.
    pub fn of(layout: &Layout, order: ByteOrder, record_format: RecordFormat) -> Self {
        Self {
            zones: layout.zones().collect(),
            parity: layout.params().ecc,
            order,
            record_format,
            traces_per_cpu: layout.traces_per_cpu(),
        }
    }

    /// The zones of one kind.
    pub fn zones_of(&self, kind: ZoneKind) -> impl Iterator<Item = &Place> {
        self.zones.iter().filter(move |zone| zone.kind == kind)
    }

    /// Bytes from the region's start to the last zone's end.
    pub fn len(&self) -> usize {
        let ends = self
            .zones
            .iter()
            .map(|zone| zone.offset.saturating_add(zone.division.zone()));
        ends.max().unwrap_or(0)
    }

    /// Whether there is no zone.
    pub fn is_empty(&self) -> bool {
        self.zones.is_empty()
    }
}

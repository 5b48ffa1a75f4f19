//! A region in this process's memory, and its zones.

use anyhow::{Context, Result, bail};
use nostall_pstore::{
    Code, Layout, LinuxVersion, Place, PreviousContents, Ram, SIGNATURE, Zone, ZoneHeader, ZoneKind,
};

/// A region in this process's memory.
pub(super) struct Region {
    pub(super) bytes: Vec<u8>,
    pub(super) layout: Layout,
    pub(super) version: Option<LinuxVersion>,
    pub(super) code: Option<Box<Code>>,
}

impl Region {
    /// Returns the region of a kernel in which nothing happened. Trace zones of no known
    /// version are left blank.
    pub(super) fn blank(
        layout: Layout,
        version: Option<LinuxVersion>,
        code: Option<Box<Code>>,
    ) -> Result<Self> {
        let mut region = Self {
            bytes: vec![0; layout.params().mem_size],
            layout,
            version,
            code,
        };
        for place in region.layout.zones() {
            if place.kind != ZoneKind::Ftrace || version.is_some() {
                region.zone(place)?;
            }
        }
        Ok(region)
    }

    /// Returns the zone that lies there, with its contents.
    pub(super) fn zone(&mut self, place: Place) -> Result<(Zone<'_, Ram<'_>>, PreviousContents)> {
        let bytes = &mut self.bytes[place.offset..][..place.division.zone()];
        attach(bytes, place, self.version, self.code.as_deref())
    }

    /// The first zone of a kind that there must be.
    pub(super) fn only(&self, kind: ZoneKind) -> Result<Place> {
        let mut zones = self.layout.zones_of(kind);
        zones
            .next()
            .with_context(|| format!("the region has no {kind} zone: give --{kind}-size"))
    }
}

/// Returns the zone in these bytes. A blank one is made; bytes that are neither are an error.
pub(super) fn attach<'a>(
    bytes: &'a mut [u8],
    place: Place,
    version: Option<LinuxVersion>,
    code: Option<&'a Code>,
) -> Result<(Zone<'a, Ram<'a>>, PreviousContents)> {
    let version = version.unwrap_or_default();
    let (zone, found) = Zone::attach(Ram::of(bytes), place.kind, version, code)?;
    const BLANK: ZoneHeader = ZoneHeader {
        signature: 0,
        start: 0,
        size: 0,
    };
    let PreviousContents::Nothing { header } = found else {
        return Ok((zone, found));
    };
    if header == BLANK {
        return Ok((zone, found));
    }
    let other = LinuxVersion(header.signature ^ SIGNATURE);
    if place.kind == ZoneKind::Ftrace
        && other.0 >> 24 == 0
        && header.is_valid(place.division.data())
    {
        bail!(
            "ftrace zone {} at {:#x} is of Linux {other}, not {version}: give --linux-version {other}",
            place.index,
            place.offset
        );
    }
    bail!(
        "there is no {} zone {} at {:#x} of the region: are --offset and the sizes those of the image?",
        place.kind,
        place.index,
        place.offset
    );
}

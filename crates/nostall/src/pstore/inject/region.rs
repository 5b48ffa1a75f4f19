//! A region in this process's memory, and its zones.

use anyhow::{Context, Result, bail};
use nostall_pstore::{
    ByteOrder, Code, HEADER, Layout, LinuxVersion, Place, PreviousContents, Ram, SIGNATURE, Zone,
    ZoneKind,
};

/// A region in this process's memory.
pub(super) struct Region {
    pub(super) bytes: Vec<u8>,
    pub(super) layout: Layout,
    pub(super) version: Option<LinuxVersion>,
    pub(super) code: Option<Box<Code>>,
}

impl Region {
    /// Makes all zones, as a kernel does in which nothing happened. Trace zones of no known version
    /// are left blank.
    pub(super) fn make_zones(&mut self) -> Result<()> {
        let kinds = [ZoneKind::Dmesg, ZoneKind::Console, ZoneKind::Pmsg];
        let traces = self.version.map(|_| ZoneKind::Ftrace);
        for kind in kinds.into_iter().chain(traces) {
            self.zones(kind).try_for_each(|zone| zone.map(|_| ()))?;
        }
        Ok(())
    }

    /// Returns the zones of one kind, with their contents. A blank one is made; bytes that are
    /// neither are an error.
    pub(super) fn zones(
        &mut self,
        kind: ZoneKind,
    ) -> impl Iterator<Item = Result<(Place, Zone<'_, Ram<'_>>)>> {
        let version = self.version.unwrap_or_default();
        let code = self.code.as_deref();
        let zones = self.layout.split(Ram::of(&mut self.bytes));
        zones
            .filter(move |(place, _)| place.kind == kind)
            .map(move |(place, memory)| Ok((place, attach(memory, place, version, code)?)))
    }

    /// Returns the first zone of a kind that there must be.
    pub(super) fn first_zone(&mut self, kind: ZoneKind) -> Result<(Place, Zone<'_, Ram<'_>>)> {
        let zone = self.zones(kind).next();
        zone.with_context(|| format!("the region has no {kind} zone: give --{kind}-size"))?
    }
}

fn attach<'a>(
    memory: Ram<'a>,
    place: Place,
    version: LinuxVersion,
    code: Option<&'a Code>,
) -> Result<Zone<'a, Ram<'a>>> {
    let Place {
        kind,
        index,
        offset,
        division,
    } = place;
    let (zone, found) = Zone::attach(memory, kind, version, code)?;
    match found {
        PreviousContents::Nothing { header } if header.encode(ByteOrder::NATIVE) != [0; HEADER] => {
            let other = LinuxVersion(header.signature ^ SIGNATURE);
            let is_trace = kind == ZoneKind::Ftrace && other.0 >> 24 == 0;
            if is_trace && header.is_valid(division.data()) {
                bail!(
                    "ftrace zone {index} at {offset:#x} is of Linux {other}, not {version}: \
                     give --linux-version {other}"
                );
            }
            bail!(
                "there is no {kind} zone {index} at {offset:#x} of the region: \
                 are --offset and the sizes those of the image?"
            );
        }
        _ => Ok(zone),
    }
}

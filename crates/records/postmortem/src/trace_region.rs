//! Decoder for nostall-trace's regions in the memory of a crashed machine, possibly damaged.
//!
//! A region is found by its header or its zones, because each zone has its own header with a
//! checksum. The records of a region with an overwritten header thus stay readable. Its clock rate,
//! load address and names are in the lost header, unless parts of that are intact.

use std::fmt;
use std::ops::Range;

use nostall_trace::layout::{
    HeaderFault, LINE, LONGEST_NAME, Order, REGION_HEADER, RegionHeader, Short, ZONE_HEADER,
    ZoneHeader,
};
use nostall_trace::{Recovered, recover};
use nostall_tracefile::ZoneEvents;
use nostall_tracefile::model::Source;

use crate::discovery::Discovery;
use crate::memory::container::{self, Container};
use crate::memory::{Memory, Partial};
use crate::scan::{Finder, Signature};
use crate::symbols::Symbols;

/// Maximum number of returned regions: an image may be filled with them on purpose.
pub const MOST: usize = 4_096;

/// Maximum number of zones that are compared with a damaged header.
const MOST_ZONES: u32 = 1_024;

/// Size limit for the names area that is searched for before the zones of a region without a
/// header.
const LONGEST_NAMES: usize = 64 << 10;

/// Region that was found.
#[derive(Clone, Debug)]
pub struct TraceRegion<'a> {
    /// Physical address of its header, or of its first zone if header and names are lost.
    pub start: u64,
    /// The region, starting with its header. Without header and names, only the zones. The image may
    /// lack a part of it.
    pub bytes: Partial<'a>,
    /// Header. A lost one is reconstructed from the zones' contents.
    pub header: RegionHeader,
    /// State of the header.
    pub state: HeaderState,
    /// Whether any zone agrees with the header.
    has_zone: bool,
}

/// State of a region's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeaderState {
    /// The checksum is correct, possibly after a lost magic, version or header length was restored.
    Sound,
    /// The checksum is wrong, but the lengths fit the zones. Other fields may be wrong.
    Damaged,
    /// The header is lost, but the names before the zones were found. Addresses and times are as
    /// recorded.
    Names,
    /// Header and names are lost.
    Lost,
}

impl HeaderState {
    /// Returns the state as one word, for programs.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::Damaged => "damaged",
            Self::Names => "names",
            Self::Lost => "lost",
        }
    }
}

impl fmt::Display for HeaderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sound => "whole header",
            Self::Damaged => "damaged header: clock rate and load address may be wrong",
            Self::Names => "no header: clock rate and load address are unknown",
            Self::Lost => "no header: clock rate, load address and names are unknown",
        })
    }
}

/// Finds regions and zones by the magics of their headers.
pub(crate) static FINDER: Finder = Finder {
    signatures: &[
        Signature::Line(*b"NOSTRACE"),
        Signature::Line(*b"ECARTSON"),
        Signature::Line(*b"NOSTZONE"),
        Signature::Line(*b"ENOZTSON"),
    ],
    is_start: |memory, at| is_region(memory, at) || zone_header(memory, at).is_some(),
    most: MOST * 64,
    on_request: false,
};

impl<'a> Discovery<'a> {
    /// Returns the traces of nostall-trace outside `besides`, by address. One inside another is
    /// skipped, because it may be a logged copy.
    pub fn traces(&self, besides: &[Range<u64>]) -> Vec<TraceRegion<'a>> {
        let image = self.memory;
        let headers = headers(image, self.addresses(&FINDER, besides));
        let mut found: Vec<TraceRegion<'a>> = Vec::new();
        // Ends of the regions, and of those with a zone that agrees. Addresses increase.
        let (mut reach, mut taken) = (0, 0);
        for at in headers.regions {
            if at < taken || found.len() == MOST {
                continue;
            }
            if let Some(header) = FoundHeader::read(image, at, &headers.zones)
                && (header.has_zone || at >= reach)
                && let Some(region) = TraceRegion::with_header(self, header)
            {
                reach = reach.max(region.range().end);
                taken = taken.max(region.taken().end);
                found.push(region);
            }
        }
        let known: Vec<_> = found.iter().map(TraceRegion::taken).collect();
        let mut zones = headers.zones;
        zones.retain(|zone| {
            let after = known.partition_point(|range| range.start <= zone.at);
            let before = after.checked_sub(1).map(|last| &known[last]);
            !before.is_some_and(|range| range.contains(&zone.at))
        });
        let mut rest = &zones[..];
        while !rest.is_empty() && found.len() < MOST {
            let mut len = 1;
            while let Some(next) = rest.get(len)
                && next.follows(&rest[len - 1])
            {
                len += 1;
            }
            let (row, others) = rest.split_at(len);
            let region = TraceRegion::of_zones(self, row);
            // A restored header may cover zones that follow a damaged one.
            let end = region.as_ref().map_or(0, |region| region.range().end);
            rest = &others[others.partition_point(|zone| zone.at < end)..];
            found.extend(region);
        }
        found.sort_by_key(|region| region.start);
        found
    }
}

/// Zone header with a correct checksum.
#[derive(Clone, Copy, Debug)]
struct Zone {
    at: u64,
    header: ZoneHeader,
}

impl Zone {
    /// Returns whether this is the next zone of the same region.
    fn follows(&self, before: &Self) -> bool {
        let (this, last) = (&self.header, &before.header);
        before.at.checked_add(last.zone_len()) == Some(self.at)
            && last.zone.checked_add(1) == Some(this.zone)
            && (this.order, this.boot, this.slots) == (last.order, last.boot, last.slots)
    }
}

/// Locations of headers, in the order of their addresses.
struct Headers {
    /// Addresses of region magics.
    regions: Vec<u64>,
    zones: Vec<Zone>,
}

fn headers(image: &Memory, addresses: impl Iterator<Item = u64>) -> Headers {
    let mut headers = Headers {
        regions: Vec::new(),
        zones: Vec::new(),
    };
    for at in addresses {
        if is_region(image.container(), at) {
            headers.regions.push(at);
        } else if let Some(header) = zone_header(image.container(), at) {
            headers.zones.push(Zone { at, header });
        }
        if headers.regions.len().max(headers.zones.len()) >= MOST * 16 {
            break;
        }
    }
    headers
}

fn is_region(memory: &dyn Container, at: u64) -> bool {
    let magic = container::read(memory, at, 8, 8);
    magic.is_some_and(|magic| [*b"NOSTRACE", *b"ECARTSON"].iter().any(|it| *it == *magic))
}

fn zone_header(memory: &dyn Container, at: u64) -> Option<ZoneHeader> {
    let bytes = container::read(memory, at, ZONE_HEADER, ZONE_HEADER)?;
    ZoneHeader::decode(bytes.first_chunk()?).ok()
}

/// Header at an address, and whether a zone agrees with it.
struct FoundHeader {
    at: u64,
    header: RegionHeader,
    state: HeaderState,
    has_zone: bool,
}

impl FoundHeader {
    /// Reads the header at `at`. One with a wrong checksum needs a zone that agrees.
    fn read(image: &Memory, at: u64, zones: &[Zone]) -> Option<Self> {
        let bytes = image.read(at, REGION_HEADER)?;
        let bytes = bytes.first_chunk()?;
        let (header, state) = match RegionHeader::decode(bytes) {
            Ok(header) => (header, HeaderState::Sound),
            Err(_) => (
                RegionHeader::decode_unchecked(bytes).ok()?,
                HeaderState::Damaged,
            ),
        };
        let agrees = |number: u32| {
            let place = u64::from(number).checked_mul(header.zone_len)?;
            let place = at.checked_add(header.first_zone())?.checked_add(place)?;
            let zone = zones.binary_search_by_key(&place, |zone| zone.at).ok()?;
            let zone = zones[zone].header;
            let is_same = zone.zone == number && zone.zone_len() == header.zone_len;
            (is_same && zone.order == header.order).then_some(())
        };
        let has_zone = (0..header.zones.min(MOST_ZONES)).find_map(agrees).is_some();
        (has_zone || state == HeaderState::Sound).then_some(Self {
            at,
            header,
            state,
            has_zone,
        })
    }
}

impl<'a> TraceRegion<'a> {
    /// Returns the physical addresses of the region, including missing bytes.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.bytes.len() as u64)
    }

    /// Returns the addresses at which no other record is: those of the region, or of its header
    /// alone if no zone agrees with it. A forged length then hides nothing.
    pub fn taken(&self) -> Range<u64> {
        match self.has_zone {
            true => self.range(),
            false => self.start..self.start.saturating_add(REGION_HEADER as u64),
        }
    }

    /// Returns the difference between the kernel's or program's load address and its linked
    /// address; `None` if it is unknown.
    pub fn load_offset(&self) -> Option<u64> {
        let RegionHeader {
            anchor_ran,
            anchor_linked,
            ..
        } = self.header;
        (anchor_ran != 0).then(|| anchor_ran.wrapping_sub(anchor_linked))
    }

    /// Returns the events, with names of addresses from `symbols`. Set the
    /// [offset](Symbols::with_offset) of the symbols to the load address, usually
    /// [`load_offset`](Self::load_offset).
    ///
    /// # Errors
    ///
    /// [`HeaderFault`] if no zone can be read.
    pub fn source<'s>(
        &'s self,
        symbols: Option<&'s Symbols>,
    ) -> Result<ZoneEvents<'s, &'s Partial<'a>>, HeaderFault> {
        self.source_named(move |address| name(symbols?, address))
    }

    /// Returns the events, with names of addresses from `lookup`. It gets them as the kernel or
    /// program ran, if the header has the load address, and as recorded otherwise.
    ///
    /// # Errors
    ///
    /// [`HeaderFault`], if no zone can be read.
    pub fn source_named<'s>(
        &'s self,
        lookup: impl Fn(u64) -> Option<String> + 's,
    ) -> Result<ZoneEvents<'s, &'s Partial<'a>>, HeaderFault> {
        Ok(events(recover(&self.bytes)?, lookup))
    }

    fn with_header(discovery: &Discovery<'a>, found: FoundHeader) -> Option<Self> {
        let FoundHeader {
            at,
            header,
            state,
            has_zone,
        } = found;
        Some(Self {
            start: at,
            bytes: whole(discovery, at, header.len)?,
            header,
            state,
            has_zone,
        })
    }

    /// Returns the region of adjacent zones whose header was not found.
    fn of_zones(discovery: &Discovery<'a>, row: &[Zone]) -> Option<Self> {
        let image = discovery.memory;
        let first = row.first()?;
        // The names precede zone 0.
        if first.header.zone == 0
            && let Some(region) = Self::with_lost_magic(discovery, first)
        {
            return Some(region);
        }
        let zone_len = first.header.zone_len();
        let zones = whole(discovery, first.at, zone_len * row.len() as u64)?;
        let names = (first.header.zone == 0)
            .then(|| names_before(image, first.at, first.header.order))
            .flatten();
        let names_len = names.as_ref().map_or(0, Vec::len);
        let header = RegionHeader {
            len: (REGION_HEADER + names_len + zones.len()) as u64,
            zones: row.len() as u32,
            zone_len,
            boot: first.header.boot,
            names_len: names_len as u32,
            ..blank(first.header.order)
        };
        let before = (REGION_HEADER + names_len) as u64;
        let (state, start, bytes) = match names {
            Some(names) => {
                let bytes = zones.after(&[&header.encode(), &*names].concat());
                let start = first.at.saturating_sub(before);
                (HeaderState::Names, start, bytes)
            }
            None => (HeaderState::Lost, first.at, zones),
        };
        Some(Self {
            start,
            bytes,
            header,
            state,
            has_zone: true,
        })
    }

    /// Returns a region whose header lost only its magic, version or length. With those restored,
    /// its checksum is correct.
    fn with_lost_magic(discovery: &Discovery<'a>, zone: &Zone) -> Option<Self> {
        let image = discovery.memory;
        const CONSTANT: usize = 16;
        let start = blank(zone.header.order).encode();
        let header = (0..=LONGEST_NAMES / LINE).find_map(|lines| {
            let at = zone.at.checked_sub((REGION_HEADER + lines * LINE) as u64)?;
            let mut bytes: [u8; REGION_HEADER] = *image.read(at, REGION_HEADER)?.first_chunk()?;
            bytes[..CONSTANT].copy_from_slice(&start[..CONSTANT]);
            let header = RegionHeader::decode(&bytes).ok()?;
            (header.first_zone() == zone.at - at).then_some((at, header, bytes))
        });
        let (at, header, sound) = header?;
        Some(Self {
            start: at,
            bytes: whole(discovery, at, header.len)?.starting_with(&sound),
            header,
            state: HeaderState::Sound,
            has_zone: true,
        })
    }
}

/// Returns the name of the function at an address.
fn name(symbols: &Symbols, address: u64) -> Option<String> {
    let symbol = symbols.lookup(address)?;
    Some(match symbol.module {
        Some(module) => format!("{} [{module}]", symbol.name),
        None => symbol.name.to_owned(),
    })
}

/// Returns the events of a region. `lookup` receives addresses as in the running program.
fn events<'s, I: nostall_trace::Image>(
    region: Recovered<I>,
    lookup: impl Fn(u64) -> Option<String> + 's,
) -> ZoneEvents<'s, I> {
    // The header's anchor converts linked addresses.
    let anchor = region.header().filter(|header| header.anchor_ran != 0);
    let moved = anchor.map_or(0, |it| it.anchor_ran.wrapping_sub(it.anchor_linked));
    ZoneEvents::new(
        region,
        Box::new(move |linked: u64| lookup(linked.wrapping_add(moved))),
    )
}

/// The first of several traces, without a borrow of the image.
#[derive(Debug)]
pub struct FirstTrace {
    start: u64,
    state: HeaderState,
    offset: Option<u64>,
    part: Part,
    others: usize,
}

impl FirstTrace {
    /// Returns the first of the traces in an image; `None` if there is none.
    pub fn of(mut found: Vec<TraceRegion<'_>>) -> Option<Self> {
        let others = found.len().checked_sub(1)?;
        let region = found.swap_remove(0);
        Some(Self {
            start: region.start,
            state: region.state,
            offset: region.load_offset(),
            part: match region.bytes {
                bytes if bytes.is_borrowed() => Part::InImage(region.start, bytes.len() as u64),
                bytes => Part::Copy(bytes.into_owned()),
            },
            others,
        })
    }

    /// Opens the trace for reports and exports. A note states the number of further traces. `None`
    /// if no zone can be read.
    pub fn open(self, image: Memory, symbols: Option<Symbols>) -> Option<Box<dyn Source>> {
        let offset = self.offset.unwrap_or(0);
        let symbols = symbols.map(|symbols| symbols.with_offset(offset));
        let part = self.part;
        let region = recover(Opened { image, part }).ok()?;
        let events = events(region, move |address| name(symbols.as_ref()?, address));
        let mut notes = vec![format!("a trace at {:#x}: {}", self.start, self.state)];
        if self.others > 0 {
            let others = self.others;
            let line = format!("{others} more traces in it: `nostall postmortem` shows all");
            notes.push(line);
        }
        Some(Box::new(events.with_notes(notes)))
    }
}

/// Memory of a region that is being read.
struct Opened {
    image: Memory,
    part: Part,
}

#[derive(Debug)]
enum Part {
    /// Address and length of a region that is contiguous in the image.
    InImage(u64, u64),
    Copy(Partial<'static>),
}

impl nostall_trace::Image for Opened {
    fn len(&self) -> u64 {
        match &self.part {
            Part::InImage(_, len) => *len,
            Part::Copy(bytes) => bytes.len() as u64,
        }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let (start, len) = match &self.part {
            Part::InImage(start, len) => (*start, *len),
            Part::Copy(bytes) => return bytes.read(at, into),
        };
        let is_inside = at
            .checked_add(into.len() as u64)
            .is_some_and(|end| end <= len);
        let bytes = is_inside.then(|| self.image.read(start + at, into.len()));
        bytes
            .flatten()
            .map(|bytes| into.copy_from_slice(&bytes))
            .is_some_and(|()| !self.image.has_lost())
    }
}

/// Returns a header with only the byte order known.
fn blank(order: Order) -> RegionHeader {
    RegionHeader {
        order,
        len: 0,
        zones: 0,
        flags: 0,
        zone_len: 0,
        ticks_per_second: 0,
        epoch_ticks: 0,
        epoch_nanos: 0,
        anchor_ran: 0,
        anchor_linked: 0,
        boot: 0,
        names_len: 0,
        build_id: Short::EMPTY,
        program: Short::EMPTY,
    }
}

/// Returns the bytes from `at` on, of which the image may lack a part. `None` if a copy would be too
/// large.
fn whole<'a>(discovery: &Discovery<'a>, at: u64, len: u64) -> Option<Partial<'a>> {
    discovery.read_partly(at, usize::try_from(len).ok()?)
}

/// Returns the names area that ends at `end`: the longest sequence of names followed only by zeros.
/// Names are numbered by their offset in the area, so the area must start with a name.
fn names_before(image: &Memory, end: u64, order: Order) -> Option<Vec<u8>> {
    let most = (LONGEST_NAMES as u64).min(end) as usize;
    let there = (1..=most / LINE).take_while(|lines| {
        let line = image.read(end - (lines * LINE) as u64, LINE);
        line.is_some_and(|line| !line.starts_with(b"NOSTRACE") && !line.starts_with(b"ECARTSON"))
    });
    let len = there.last()? * LINE;
    let area = image.read(end - len as u64, len)?;
    let start = (0..len)
        .step_by(LINE)
        .find(|start| are_names(&area[*start..], order))?;
    Some(area[start..].to_vec())
}

/// Returns whether the area consists of at least one name, followed by zeros.
fn are_names(area: &[u8], order: Order) -> bool {
    let mut rest = area;
    let mut names = 0;
    while let Some((head, text)) = rest.split_first_chunk()
        && let len @ 1.. = order.u32(*head) as usize
    {
        let end = (4 + len).next_multiple_of(8);
        let is_name = len <= LONGEST_NAME
            && rest.len() >= end
            && str::from_utf8(&text[..len]).is_ok()
            && text[len..end - 4].iter().all(|byte| *byte == 0);
        if !is_name {
            return false;
        }
        names += 1;
        rest = &rest[end..];
    }
    names > 0 && rest.iter().all(|byte| *byte == 0)
}

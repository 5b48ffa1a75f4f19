//! A whole region, decoded: what a person or a program wants of a dead machine.

use std::boxed::Box;
use std::ops::Range;
use std::vec::Vec;

use crate::code::Code;
use crate::decompress::{self, Compression};
use crate::dmesg_header::DmesgHeader;
use crate::format::{Header, Kind, LinuxVersion};
use crate::geometry::Geometry;
use crate::layout::Place;
use crate::read::{
    Ecc, Merge, Misaligned, OldZone, Policy, Reader, Trace, Trust, Writer, ZoneState,
};
use crate::trace::Shape;

/// How to decompress dmesg records: they do not say how they were compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unpack {
    /// By trying ([`decompress::find`]).
    #[default]
    ByTrying,
    /// As this.
    As(Compression),
    /// Not at all.
    Not,
}

impl Unpack {
    /// The text, of at most `most` bytes, and how it was compressed; `None` if it cannot
    /// be had.
    pub fn unpack(self, body: &[u8], most: usize) -> Option<(Compression, Vec<u8>)> {
        match self {
            Self::ByTrying => decompress::find(body, most),
            Self::As(method) => {
                let text = decompress::decompress(method, body, most).ok()?;
                Some((method, text))
            }
            Self::Not => None,
        }
    }
}

/// How many times the size of its zone a text may have, decompressed. Linux fills a
/// buffer of less than three times the size.
const MOST_UNPACKED: usize = 16;

/// A region, decoded.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// Every zone, also those in which there is nothing.
    pub zones: Vec<ZoneReport>,
    /// What is in them: dmesg records, console, the trace of all CPUs, pmsg.
    pub records: Vec<Record>,
}

/// What a zone looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    /// Where it lies, and what it should hold.
    pub place: Place,
    /// Whether there is anything to be read.
    pub state: ZoneState,
    /// The header that was read by.
    pub header: Header,
    /// What the header is worth.
    pub header_trust: Trust,
    /// Of a trace zone: the kernel that wrote it.
    pub version: Option<LinuxVersion>,
    /// What the parity bytes say, if there are any.
    pub ecc: Option<Ecc>,
    /// Whether older contents were overwritten.
    pub full: bool,
    /// Of a trace zone: whether its records do not lie where its header says.
    pub misaligned: Option<Misaligned>,
}

/// One thing that was recorded.
#[derive(Clone, Debug)]
pub struct Record {
    /// Which of its kind. The trace of all CPUs is one.
    pub index: usize,
    /// Bytes in the zones.
    pub stored: usize,
    /// Whether older contents were overwritten.
    pub full: bool,
    /// What the parity bytes say, if there are any.
    pub ecc: Option<Ecc>,
    /// What the worst of its bytes is worth.
    pub trust: Trust,
    /// What was recorded.
    pub content: Content,
}

/// What was recorded.
#[derive(Clone, Debug)]
pub enum Content {
    /// A kernel log.
    Dmesg(Dmesg),
    /// The console's output.
    Console(Text),
    /// What user space wrote.
    Pmsg(Text),
    /// Function entries, in their order.
    Ftrace(Vec<Trace>),
}

/// A kernel log.
#[derive(Clone, Debug)]
pub struct Dmesg {
    /// When it was written, and whether it was compressed; `None` if it does not
    /// say (Linux shows no such record).
    pub header: Option<DmesgHeader>,
    /// How it was compressed.
    pub packing: Packing,
    /// The log, or the compressed bytes if they could not be decompressed.
    pub text: Text,
}

/// Whether a text is what was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packing {
    /// It was not compressed.
    Plain,
    /// It was compressed, by this method.
    Unpacked(Compression),
    /// It is still compressed.
    Packed,
}

/// Bytes that are a text, if all is well.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Those that may be anything, because they do not agree with their parity, in
    /// their order.
    pub unverified: Vec<Range<usize>>,
}

impl Record {
    /// What it is.
    pub const fn kind(&self) -> Kind {
        match self.content {
            Content::Dmesg(_) => Kind::Dmesg,
            Content::Console(_) => Kind::Console,
            Content::Pmsg(_) => Kind::Pmsg,
            Content::Ftrace(_) => Kind::Ftrace,
        }
    }
}

impl Decoded {
    /// Decodes all of `region`, with care ([`Policy::Careful`]). Of what lies outside
    /// of it, it says so.
    pub fn new(region: &[u8], geometry: &Geometry, writer: Writer, unpack: Unpack) -> Self {
        let code = Code::new(geometry.parity).map(Box::new);
        let reader = Reader {
            code: code.as_deref(),
            order: geometry.order,
            policy: Policy::Careful,
            writer,
        };
        let open = |place: &Place| reader.open(region, *place);
        let records_of = |kind: Kind| {
            let zones = geometry.zones_of(kind).map(open);
            zones.filter(|zone| !zone.is_empty())
        };
        let mut records = Vec::new();
        records.extend(records_of(Kind::Dmesg).map(|zone| dmesg(zone, unpack)));
        records.extend(records_of(Kind::Console).map(|zone| text(zone, Content::Console)));
        records.extend(traces(records_of(Kind::Ftrace), geometry));
        records.extend(records_of(Kind::Pmsg).map(|zone| text(zone, Content::Pmsg)));
        Self {
            zones: (geometry.zones.iter().map(open))
                .map(|zone| report(zone, geometry.shape))
                .collect(),
            records,
        }
    }
}

fn report(mut zone: OldZone<'_, [u8]>, shape: Shape) -> ZoneReport {
    ZoneReport {
        place: *zone.place(),
        state: zone.state(),
        header: zone.header(),
        header_trust: zone.header_trust(),
        version: zone.version(),
        ecc: zone.ecc(),
        full: zone.is_full(),
        misaligned: match zone.place().kind {
            Kind::Ftrace => zone.traces(shape).misaligned(),
            _ => None,
        },
    }
}

fn dmesg(mut zone: OldZone<'_, [u8]>, unpack: Unpack) -> Record {
    let (header, at) = match zone.dmesg_header() {
        Some((header, at)) => (Some(header), at),
        None => (None, 0),
    };
    let most = zone.place().division.data().saturating_mul(MOST_UNPACKED);
    text(zone, |whole| {
        let (mut text, mut packing) = (whole.without_first(at), Packing::Plain);
        if header.is_some_and(|header| header.compressed) {
            packing = Packing::Packed;
            if let Some((method, bytes)) = unpack.unpack(&text.bytes, most) {
                packing = Packing::Unpacked(method);
                text = Text {
                    bytes,
                    unverified: Vec::new(),
                };
            }
        }
        Content::Dmesg(Dmesg {
            header,
            packing,
            text,
        })
    })
}

fn text(mut zone: OldZone<'_, [u8]>, content: impl FnOnce(Text) -> Content) -> Record {
    let mut all = Text {
        bytes: Vec::with_capacity(zone.len()),
        unverified: Vec::new(),
    };
    let mut worst = zone.header_trust();
    while let Some((bytes, trust)) = zone.chunk(all.bytes.len()) {
        all.push(bytes, trust);
        worst = worst.max(trust);
    }
    Record {
        index: zone.place().index,
        stored: zone.len(),
        full: zone.is_full(),
        ecc: zone.ecc(),
        trust: worst,
        content: content(all),
    }
}

impl Text {
    fn push(&mut self, bytes: &[u8], trust: Trust) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        if trust < Trust::Unverified {
            return;
        }
        let end = self.bytes.len();
        match self.unverified.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => self.unverified.push(start..end),
        }
    }

    fn without_first(mut self, count: usize) -> Self {
        self.bytes.drain(..count.min(self.bytes.len()));
        self.unverified.retain_mut(|range| {
            *range = range.start.saturating_sub(count)..range.end.saturating_sub(count);
            range.start < range.end
        });
        self
    }
}

fn traces<'a>(
    zones: impl Iterator<Item = OldZone<'a, [u8]>>,
    geometry: &Geometry,
) -> Option<Record> {
    let mut zones: Vec<_> = zones.collect();
    let first = zones.first()?;
    let mut record = Record {
        index: 0,
        stored: 0,
        full: false,
        ecc: first
            .place()
            .division
            .parity()
            .checked_sub(1)
            .map(|_| Ecc::default()),
        trust: Trust::Verified,
        content: Content::Ftrace(Vec::new()),
    };
    for zone in &mut zones {
        record.stored += zone.len();
        record.full |= zone.is_full();
        record.trust = record.trust.max(zone.header_trust());
        record.ecc = Option::zip(record.ecc, zone.ecc()).map(|(sum, ecc)| sum.plus(ecc));
    }
    let zones = zones.into_iter();
    let mut heads: Vec<_> = zones
        .map(|zone| zone.traces(geometry.shape).peekable())
        .collect();
    let merged: Vec<_> = Merge::new(&mut heads[..]).collect();
    let worst = merged.iter().map(|trace| trace.trust).max();
    record.trust = record.trust.max(worst.unwrap_or(Trust::Verified));
    record.content = Content::Ftrace(merged);
    Some(record)
}

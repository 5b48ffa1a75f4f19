//! Decoder for a whole pstore region of a crashed machine.

use std::boxed::Box;
use std::iter::Peekable;
use std::ops::Range;
use std::vec::Vec;

use crate::decompress::{self, Compression};
use crate::geometry::Geometry;
use crate::kernel::{CrashedKernel, Parser, prefix};
use crate::memory::Partial;
use crate::memory::partial::lacks;
use nostall_pstore::Code;
use nostall_pstore::DmesgHeader;
use nostall_pstore::Place;
use nostall_pstore::RecordFormat;
use nostall_pstore::{
    CorrectionPolicy, Ecc, Merge, Misaligned, PreviousBootZone, Reader, Trace, Traces, Trust,
    Writer, ZoneState,
};
use nostall_pstore::{LinuxVersion, ZoneHeader, ZoneKind};

/// Decompression of dmesg records, which do not name their compression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unpack {
    /// Tries all compressions ([`decompress::find`]).
    #[default]
    ByTrying,
    /// Uses this compression.
    As(Compression),
    /// Leaves compressed records as they are.
    Not,
}

impl Unpack {
    /// Returns the decompressed text, at most `most` bytes, and the compression that was used.
    /// `None` if the body cannot be decompressed.
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

    /// Returns the start of a text like [`unpack`](Self::unpack), for a body that is damaged, or
    /// whose text is longer than `most`.
    fn salvage(self, body: &[u8], most: usize) -> Option<(Compression, Vec<u8>)> {
        let method = match self {
            Self::ByTrying => Compression::Deflate,
            Self::As(method) => method,
            Self::Not => return None,
        };
        let text = decompress::until_damage(method, body, most);
        decompress::starts_with_reason(&text).then_some((method, text))
    }
}

/// Limit for a decompressed text, as a multiple of its zone's size. Linux fills a buffer of less
/// than three times the size.
const MOST_UNPACKED: usize = 16;

/// Limit for a decompressed text in bytes, twice the largest log buffer that Linux is built with.
const LONGEST_TEXT: usize = 64 << 20;

/// A region and the parameters to decode it. Decoding happens on demand.
#[derive(Clone, Debug)]
pub struct Decoded<'a> {
    region: &'a [u8],
    /// Parts of the region that the dump lacks, in order.
    missing: &'a [Range<usize>],
    pub(crate) geometry: &'a Geometry,
    pub(crate) code: Option<Box<Code>>,
    pub(crate) writer: Writer,
    pub(crate) unpack: Unpack,
}

/// State of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    /// Location of the zone, and its expected contents.
    pub place: Place,
    /// Whether the zone has contents.
    pub state: ZoneState,
    /// Header with which the zone was decoded.
    pub header: ZoneHeader,
    /// Trust level of the header.
    pub header_trust: Trust,
    /// The kernel version that wrote a trace zone.
    pub version: Option<LinuxVersion>,
    /// Result of the parity check, if there are parity bytes.
    pub ecc: Option<Ecc>,
    /// Whether older contents were overwritten.
    pub full: bool,
    /// Whether the records of a trace zone are at another offset than its header states.
    pub misaligned: Option<Misaligned>,
}

/// One record of the region.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Index of its zone among the zones of its kind, including empty ones. The trace of all CPUs
    /// is one record with index 0.
    pub index: usize,
    /// Number of bytes in the zones.
    pub stored: usize,
    /// Whether older contents were overwritten.
    pub full: bool,
    /// Result of the parity check, if there are parity bytes.
    pub ecc: Option<Ecc>,
    /// Trust level of the zone's header, or of the worst header of several zones. If it is
    /// `Unverified`, possibly none of the contents were ever written.
    pub header_trust: Trust,
    /// Lowest trust level of its bytes, including the header.
    pub trust: Trust,
    /// Contents of the record.
    pub content: Content<'a>,
}

/// Contents of a record.
#[derive(Clone, Debug)]
pub enum Content<'a> {
    /// A kernel log.
    Dmesg(Dmesg),
    /// The console's output.
    Console(Text),
    /// Messages from user space.
    Pmsg(Text),
    /// Function entries.
    Ftrace(Calls<'a>),
}

/// A kernel log.
#[derive(Clone, Debug)]
pub struct Dmesg {
    /// Time of the record, and whether it was compressed. `None` if the record has no valid header;
    /// Linux does not show such a record.
    pub header: Option<DmesgHeader>,
    /// Trust level of the bytes of the header.
    pub header_trust: Trust,
    /// Compression of the text.
    pub packing: Packing,
    /// The log, or the compressed bytes if they could not be decompressed.
    pub text: Text,
}

/// Compression state of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packing {
    /// The text was not compressed.
    Plain,
    /// The text was compressed with this method.
    Unpacked(Compression),
    /// The start of the text was compressed with this method. The rest is damaged, or the text is too
    /// long.
    Cut(Compression),
    /// The text is still compressed.
    Packed,
}

/// Text bytes, possibly damaged.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Unverified ranges, in order: they failed the parity check, or were decompressed from such
    /// bytes.
    pub unverified: Vec<Range<usize>>,
}

/// The function entries of all trace zones. They are read on demand, so that a region of any size
/// needs little memory.
#[derive(Clone, Debug)]
pub struct Calls<'a> {
    decoded: &'a Decoded<'a>,
    counts: Counts,
}

/// Counts of function entries.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    calls: usize,
    unverified: usize,
    latest: u64,
    cpus: Cpus,
}

/// A set of CPUs, a bit each.
type Cpus = [u64; 4];

impl Record<'_> {
    /// Returns its kind.
    pub const fn kind(&self) -> ZoneKind {
        match self.content {
            Content::Dmesg(_) => ZoneKind::Dmesg,
            Content::Console(_) => ZoneKind::Console,
            Content::Pmsg(_) => ZoneKind::Pmsg,
            Content::Ftrace(_) => ZoneKind::Ftrace,
        }
    }
}

impl<'a> Decoded<'a> {
    /// Prepares to decode all of `region`, with [`CorrectionPolicy::Careful`]. Zones outside the
    /// region are reported as missing.
    pub fn new(region: &'a [u8], geometry: &'a Geometry, writer: Writer, unpack: Unpack) -> Self {
        Self {
            region,
            missing: &[],
            geometry,
            code: Code::new(geometry.parity).map(Box::new),
            writer,
            unpack,
        }
    }

    /// Prepares like [`new`](Self::new), for a region of which the dump may lack parts. A zone that
    /// lacks a byte is reported as missing.
    pub fn partly(
        region: &'a Partial<'_>,
        geometry: &'a Geometry,
        writer: Writer,
        unpack: Unpack,
    ) -> Self {
        Self {
            missing: region.missing(),
            ..Self::new(region.with_gaps(), geometry, writer, unpack)
        }
    }

    /// Returns the format of the trace records.
    pub const fn record_format(&self) -> RecordFormat {
        self.geometry.record_format
    }

    /// Returns every zone, including empty ones.
    pub fn zones(&self) -> impl Iterator<Item = ZoneReport> {
        let zones = self.open(CorrectionPolicy::Careful, |_| true);
        zones.map(|zone| report(zone, self.record_format()))
    }

    /// Returns the records one by one: dmesg records, console, the trace of all CPUs, pmsg.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        let records_of = |wanted| self.filled(CorrectionPolicy::Careful, wanted);
        let dmesg = records_of(ZoneKind::Dmesg).map(|zone| dmesg(zone, self.unpack));
        let console = records_of(ZoneKind::Console).map(|zone| text(zone, Content::Console));
        // Lazy, because counting the trace reads all its records.
        let ftrace = std::iter::once_with(|| traces(self)).flatten();
        let pmsg = records_of(ZoneKind::Pmsg).map(|zone| text(zone, Content::Pmsg));
        dmesg.chain(console).chain(ftrace).chain(pmsg)
    }

    /// Adds the release, the build and the panics of the logs, of which the kernel's facts are those
    /// of verified bytes. A console counts only if no dmesg record has a panic: its lines do not tell
    /// whether a program wrote them.
    pub fn tell(&self, kernel: &mut CrashedKernel) {
        let mut has_crash = false;
        for record in self.records() {
            let (text, header) = match &record.content {
                Content::Dmesg(dmesg) if dmesg.packing != Packing::Packed => {
                    (&dmesg.text, dmesg.header)
                }
                Content::Console(text) if !has_crash => (text, None),
                _ => continue,
            };
            let mut verified = text.bytes.clone();
            for range in &text.unverified {
                verified[range.clone()].fill(0);
            }
            for line in String::from_utf8_lossy(&verified).lines() {
                let (prefix, line) = prefix(line);
                if !prefix.is_of_program {
                    kernel.read_line(line);
                }
            }
            let mut parser = Parser::default();
            for line in String::from_utf8_lossy(&text.bytes).lines() {
                let (prefix, line) = prefix(line);
                if !prefix.is_of_program {
                    parser.line(line, prefix.time);
                }
            }
            let time = header.and_then(|header| {
                let micros = i64::try_from(header.micros).ok()?;
                header.seconds.checked_mul(1_000_000)?.checked_add(micros)
            });
            let crashes = parser.finish();
            has_crash |= !crashes.is_empty();
            kernel.add(crashes, record.trust, time);
        }
    }

    /// Returns the zones of one kind that have contents.
    pub(crate) fn filled(
        &self,
        policy: CorrectionPolicy,
        wanted: ZoneKind,
    ) -> impl Iterator<Item = PreviousBootZone<'_, [u8]>> {
        let zones = self.open(policy, move |kind| kind == wanted);
        zones.filter(|zone| !zone.is_empty())
    }

    fn open(
        &self,
        policy: CorrectionPolicy,
        wanted: impl Fn(ZoneKind) -> bool,
    ) -> impl Iterator<Item = PreviousBootZone<'_, [u8]>> {
        let reader = Reader {
            code: self.code.as_deref(),
            order: self.geometry.order,
            policy,
            writer: self.writer,
        };
        let places = self.geometry.zones.iter();
        let places = places.filter(move |place| wanted(place.kind));
        places.map(move |place| {
            let end = place.offset.saturating_add(place.division.zone());
            let is_cut = lacks(self.missing, &(place.offset..end));
            let there = if is_cut { &[] } else { self.region };
            reader.open(there, *place)
        })
    }
}

fn report(mut zone: PreviousBootZone<'_, [u8]>, record_format: RecordFormat) -> ZoneReport {
    ZoneReport {
        place: *zone.place(),
        state: zone.state(),
        header: zone.header(),
        header_trust: zone.header_trust(),
        version: zone.version(),
        ecc: zone.ecc(),
        full: zone.is_full(),
        misaligned: match zone.place().kind {
            ZoneKind::Ftrace => zone.traces(record_format).misaligned(),
            _ => None,
        },
    }
}

fn dmesg(mut zone: PreviousBootZone<'_, [u8]>, unpack: Unpack) -> Record<'_> {
    let (header, at) = match zone.dmesg_header() {
        Some((header, at)) => (Some(header), at),
        None => (None, 0),
    };
    let header_trust = worst_of_first(&mut zone, at);
    let data = zone.place().division.data();
    let most = data.saturating_mul(MOST_UNPACKED).min(LONGEST_TEXT);
    let mut is_cut = false;
    let mut record = text(zone, |whole| {
        let (mut text, mut packing) = (whole.without_first(at), Packing::Plain);
        if header.is_some_and(|header| header.compressed) {
            packing = Packing::Packed;
            let unpacked = unpack.unpack(&text.bytes, most);
            let is_whole = unpacked.is_some();
            if let Some((method, bytes)) = unpacked.or_else(|| unpack.salvage(&text.bytes, most)) {
                is_cut = !is_whole;
                packing = match is_cut {
                    true => Packing::Cut(method),
                    false => Packing::Unpacked(method),
                };
                // The header shows whether the record is compressed at all.
                let head = match (header_trust, text.unverified.first()) {
                    (Trust::Unverified, _) => 0,
                    (_, Some(failed)) => failed.start,
                    // The damage may be anywhere.
                    (_, None) if is_cut => 0,
                    (_, None) => text.bytes.len(),
                };
                let unverified = unsettled(unpack, method, &text.bytes, head, &bytes);
                text = Text { bytes, unverified };
            }
        }
        Content::Dmesg(Dmesg {
            header,
            header_trust,
            packing,
            text,
        })
    });
    if is_cut {
        record.trust = Trust::Unverified;
    }
    record
}

/// Returns the lowest trust level of a zone's first `count` bytes.
fn worst_of_first(zone: &mut PreviousBootZone<'_, [u8]>, count: usize) -> Trust {
    let (mut at, mut worst) = (0, zone.header_trust());
    while at < count
        && let Some((bytes, trust)) = zone.chunk(at)
    {
        at += bytes.len();
        worst = worst.max(trust);
    }
    worst
}

/// Returns the part of a text that may be wrong if only the first `head` bytes of its `body` are
/// right.
pub(crate) fn unsettled(
    unpack: Unpack,
    method: Compression,
    body: &[u8],
    head: usize,
    text: &[u8],
) -> Vec<Range<usize>> {
    if head >= body.len() {
        return Vec::new();
    }
    let mut settled = decompress::settled(method, &body[..head], text.len());
    // The first line was the evidence for this compression.
    if unpack == Unpack::ByTrying && !decompress::starts_with_reason(&text[..settled]) {
        settled = 0;
    }
    let rest = settled..text.len();
    (!rest.is_empty()).then_some(rest).into_iter().collect()
}

fn text<'a>(
    mut zone: PreviousBootZone<'a, [u8]>,
    content: impl FnOnce(Text) -> Content<'a>,
) -> Record<'a> {
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
        header_trust: zone.header_trust(),
        trust: worst,
        content: content(all),
    }
}

impl Text {
    pub(crate) fn push(&mut self, bytes: &[u8], trust: Trust) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        if trust == Trust::Unverified {
            mark(&mut self.unverified, start..self.bytes.len());
        }
    }

    pub(crate) fn without_first(mut self, count: usize) -> Self {
        self.bytes.drain(..count.min(self.bytes.len()));
        self.unverified.retain_mut(|range| {
            *range = range.start.saturating_sub(count)..range.end.saturating_sub(count);
            range.start < range.end
        });
        self
    }
}

/// Appends a range, and merges it with the last one if they touch.
pub(crate) fn mark(ranges: &mut Vec<Range<usize>>, range: Range<usize>) {
    match ranges.last_mut() {
        Some(last) if last.end == range.start => last.end = range.end,
        _ => ranges.push(range),
    }
}

fn traces<'a>(decoded: &'a Decoded<'a>) -> Option<Record<'a>> {
    let mut zones: Vec<_> = decoded
        .filled(CorrectionPolicy::Careful, ZoneKind::Ftrace)
        .collect();
    let has_parity = zones.first()?.place().division.parity() > 0;
    let mut ecc = has_parity.then(Ecc::default);
    for zone in &mut zones {
        ecc = Option::zip(ecc, zone.ecc()).map(|(sum, ecc)| sum.plus(ecc));
    }
    let header_trust = zones.iter().map(PreviousBootZone::header_trust).max()?;
    let mut counts = Counts::default();
    let mut calls = Calls { decoded, counts };
    let mut worst = header_trust;
    for trace in calls.iter() {
        worst = worst.max(trace.trust);
        counts.add(&trace);
    }
    calls.counts = counts;
    Some(Record {
        index: 0,
        stored: zones.iter().map(PreviousBootZone::len).sum(),
        full: zones.iter().any(PreviousBootZone::is_full),
        ecc,
        header_trust,
        trust: worst,
        content: Content::Ftrace(calls),
    })
}

impl<'a> Calls<'a> {
    /// Returns all function entries, merged by their stamps ([`Merge`]).
    pub fn iter(&self) -> impl Iterator<Item = Trace> + use<'a> {
        Merge::new(self.heads(|_| true))
    }

    /// Returns the function entries CPU by CPU, each in the order of writing. Use it if the stamps
    /// do not order entries of different CPUs.
    pub fn by_cpu(&self) -> impl Iterator<Item = Trace> {
        let cpus_of = |traces: Peekable<Traces<'a, [u8]>>| {
            let mut counts = Counts::default();
            traces.for_each(|trace| counts.add(&trace));
            counts.cpus
        };
        let sets: Vec<Cpus> = self.heads(|_| true).into_iter().map(cpus_of).collect();
        (0..=u8::MAX).flat_map(move |cpu| {
            // Zones without the CPU do not affect the order of its entries.
            let its = self.heads(|zone| has(&sets[zone], cpu));
            Merge::new(its).filter(move |trace| trace.record.cpu == cpu)
        })
    }

    fn heads(&self, wanted: impl Fn(usize) -> bool) -> Vec<Peekable<Traces<'a, [u8]>>> {
        let decoded = self.decoded;
        let zones = decoded
            .filled(CorrectionPolicy::Careful, ZoneKind::Ftrace)
            .enumerate();
        let zones = zones.filter(|(nth, _)| wanted(*nth));
        let traces = zones.map(|(_, zone)| zone.traces(decoded.geometry.record_format).peekable());
        traces.collect()
    }

    /// Returns the number of function entries.
    pub const fn len(&self) -> usize {
        self.counts.calls
    }

    /// Returns whether there is no function entry.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of function entries with unverified bytes.
    pub const fn unverified(&self) -> usize {
        self.counts.unverified
    }

    /// Returns the number of different CPUs.
    pub fn cpus(&self) -> usize {
        self.counts
            .cpus
            .iter()
            .map(|set| set.count_ones() as usize)
            .sum()
    }

    /// Returns the greatest stamp; 0 without entries.
    pub const fn latest(&self) -> u64 {
        self.counts.latest
    }
}

impl Counts {
    fn add(&mut self, trace: &Trace) {
        self.calls += 1;
        self.unverified += usize::from(trace.trust == Trust::Unverified);
        self.latest = self.latest.max(trace.record.stamp);
        self.cpus[usize::from(trace.record.cpu) / 64] |= 1 << (trace.record.cpu % 64);
    }
}

const fn has(set: &Cpus, cpu: u8) -> bool {
    set[cpu as usize / 64] >> (cpu % 64) & 1 != 0
}

//! The region of an image and its division, as given or detected.

use std::cmp::Ordering;
use std::ops::Range;

use anyhow::{Context, Result, bail};
use nostall_pstore::{
    ByteOrder, FTRACE_PER_CPU, Layout, LinuxVersion, Params, Reader, RecordFormat, ZoneKind,
    ZoneOrder, ZoneState,
};

use super::number;
use crate::Geometry;
use crate::count::counted;
use crate::detect::{FoundRegion, Grade};
use crate::discovery::Discovery;
use crate::memory::{MAX_COPY, Memory, Partial, PhysicalRange};

/// Upper limit for the number of CPUs, above that of any Linux.
const MOST_CPUS: usize = 8192;

/// Message for a range that is too large to be copied together.
const SCATTERED: &str = "several parts of the file, and more than 256 MiB are not put together";

/// Linux's default for sizes that are not given.
const LINUX_SIZE: usize = 4096;

#[derive(clap::Args)]
#[command(next_help_heading = "Region")]
#[group(id = "region")]
pub struct Args {
    /// Start of the region, by default that of the image. In an ELF core, kdump file, LiME or
    /// AVML dump it is a physical address, in a raw file an offset
    #[arg(long, value_name = "N", value_parser = number::parse)]
    offset: Option<u64>,

    /// Size of the region (mem_size), by default the rest of the image
    #[arg(long, value_name = "N", value_parser = number::size)]
    size: Option<usize>,

    #[command(flatten)]
    sizes: Sizes,

    /// Number of possible CPUs of the crashed kernel; the default is the number of trace zones
    #[arg(long, value_name = "N", value_parser = number::size)]
    cpus: Option<usize>,

    /// Version of Linux that divided the region. From 6.2 on the traces are its last zones, before
    /// that user space's messages (pmsg). The default fits most headers of zones
    #[arg(long, value_name = "X.Y.Z")]
    linux_version: Option<LinuxVersion>,

    /// Format of the trace records: 64, 32, arm32 (up to 4 CPUs) or thumb32 (up to 2); the default
    /// is the detected format, or 64
    #[arg(long, value_name = "ARCH")]
    arch: Option<RecordFormat>,

    /// Byte order of the crashed machine, little or big; the default is the detected order, or
    /// little
    #[arg(long, value_name = "ORDER", value_parser = order)]
    order: Option<ByteOrder>,
}

/// Division of a region.
#[derive(clap::Args)]
pub struct Sizes {
    /// ramoops.record_size: minimum size of each dmesg zone
    #[arg(long, value_name = "N", value_parser = number::size)]
    pub record_size: Option<usize>,

    /// ramoops.console_size
    #[arg(long, value_name = "N", value_parser = number::size)]
    pub console_size: Option<usize>,

    /// ramoops.ftrace_size: the trace zones of all CPUs together
    #[arg(long, value_name = "N", value_parser = number::size)]
    pub ftrace_size: Option<usize>,

    /// ramoops.pmsg_size
    #[arg(long, value_name = "N", value_parser = number::size)]
    pub pmsg_size: Option<usize>,

    /// ramoops.ecc: parity bytes for each 128 bytes of data; 1 means 16, and 0 (the default) none
    #[arg(long, value_name = "N", value_parser = number::size)]
    pub ecc: Option<usize>,

    /// Flags: 1 (the default) for a trace zone for each CPU, 0 for one zone for all CPUs. A device
    /// tree's default is 0
    #[arg(long, value_name = "N", value_parser = number::flags)]
    pub flags: Option<u32>,
}

impl Sizes {
    /// Returns the given parameters, with those of `unless_given` for the others.
    pub fn params(&self, unless_given: Params) -> Params {
        Params {
            record_size: self.record_size.unwrap_or(unless_given.record_size),
            console_size: self.console_size.unwrap_or(unless_given.console_size),
            ftrace_size: self.ftrace_size.unwrap_or(unless_given.ftrace_size),
            pmsg_size: self.pmsg_size.unwrap_or(unless_given.pmsg_size),
            ecc: self.ecc.map_or(unless_given.ecc, Params::command_line_ecc),
            flags: self.flags.unwrap_or(unless_given.flags),
            ..unless_given
        }
    }
}

impl Args {
    /// Returns whether a part of the division is given, which replaces the search.
    fn has_division(&self) -> bool {
        let sizes = &self.sizes;
        let numbers = [
            sizes.record_size,
            sizes.console_size,
            sizes.ftrace_size,
            sizes.pmsg_size,
            sizes.ecc,
            self.cpus,
        ];
        let is_given = sizes.flags.is_some() || self.linux_version.is_some();
        is_given || numbers.iter().any(Option::is_some)
    }

    /// Returns whether all of the image is searched.
    pub fn is_whole(&self) -> bool {
        !self.has_division() && self.offset.is_none() && self.size.is_none()
    }

    /// Returns the addresses to search.
    pub fn window(&self) -> Range<u64> {
        let start = self.offset.unwrap_or(0);
        let len = self.size.map_or(u64::MAX, |size| size as u64);
        start..start.saturating_add(len)
    }
}

fn order(name: &str) -> Result<ByteOrder, &'static str> {
    match name {
        "little" => Ok(ByteOrder::Little),
        "big" => Ok(ByteOrder::Big),
        _ => Err("must be little or big"),
    }
}

/// The bytes of a region, and how to decode them.
#[derive(Clone)]
pub struct Region<'a> {
    /// Available bytes of the region.
    pub bytes: Partial<'a>,
    /// Address of the region.
    pub start: u64,
    /// Division and formats of the region.
    pub geometry: Geometry,
    /// Parameters that result in this division.
    pub params: Params,
    /// Evidence, if the region was detected.
    pub found: Option<FoundRegion>,
    /// Explanations of the given parameters, one line each.
    pub notes: Vec<String>,
}

impl<'a> Region<'a> {
    /// Returns the address of an offset in the region.
    pub fn at(&self, offset: usize) -> u64 {
        self.start.saturating_add(offset as u64)
    }

    /// Returns the options that select the same region.
    pub fn options(&self) -> String {
        by_hand(self.start, &self.params, &self.geometry)
    }

    /// Returns lines that explain the region to the user.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = match &self.found {
            Some(found) => evidence(found),
            None => Vec::new(),
        };
        if self.found.is_some() {
            lines.push(format!("  the same by hand: {}", self.options()));
        }
        lines.extend(self.notes.iter().cloned());
        lines
    }

    fn found(image: &'a Memory, args: &Args, found: FoundRegion) -> Result<Self> {
        let mut geometry = found.geometry.clone();
        geometry.record_format = args.arch.unwrap_or(geometry.record_format);
        geometry.order = args.order.unwrap_or(geometry.order);
        let start = found.start;
        let bytes = image.region(&found).with_context(|| {
            let len = found.len;
            format!("the region's {len:#x} bytes at {start:#x} lie in {SCATTERED}")
        })?;
        Ok(Self {
            notes: gaps(start, &bytes),
            bytes,
            start,
            geometry,
            params: found.params,
            found: Some(found),
        })
    }
}

/// Returns a line about the parts of a region that the image lacks, if any.
fn gaps(start: u64, region: &Partial<'_>) -> Vec<String> {
    let first = region.missing().first().map(|gap| {
        let (len, at) = (
            region.missing_bytes(),
            start.saturating_add(gap.start as u64),
        );
        let gaps = counted(region.missing().len(), "gap");
        format!("the image lacks {len:#x} bytes of the region: {gaps}, from {at:#x} on")
    });
    first.into_iter().collect()
}

/// Returns whether any zone has contents, by the headers.
fn has_contents(image: &Memory, found: &FoundRegion) -> bool {
    let order = found.geometry.order;
    let reader = Reader {
        order,
        ..Reader::careful(None)
    };
    image.region(found).is_some_and(|bytes| {
        let mut zones = found.geometry.zones.iter();
        zones.any(|place| reader.open(bytes.with_gaps(), *place).state() == ZoneState::Valid)
    })
}

/// Returns the options that select the same region.
pub fn options(offset: u64, params: &Params, record_format: RecordFormat) -> String {
    let version = match params.zone_order {
        ZoneOrder::Linux6_2 if shows_order(params) => " --linux-version 6.2",
        _ => "",
    };
    format!(
        "--offset {offset:#x} --size {:#x} --record-size {:#x} --console-size {:#x} \
         --ftrace-size {:#x} --pmsg-size {:#x} --ecc {} --cpus {} --flags {}{version} --arch {record_format}",
        params.mem_size,
        params.record_size,
        params.console_size,
        params.ftrace_size,
        params.pmsg_size,
        params.ecc,
        params.cpus,
        params.flags,
    )
}

fn by_hand(start: u64, params: &Params, geometry: &Geometry) -> String {
    let options = options(start, params, geometry.record_format);
    format!("{options} --order {}", geometry.order)
}

/// Returns the region's kind and its evidence, one line each.
fn evidence(found: &FoundRegion) -> Vec<String> {
    let written = match found.version {
        Some(version) => format!(", written by Linux {version} or for it"),
        None => String::new(),
    };
    let doubtful = match found.grade {
        Grade::Convincing => "",
        Grade::Doubtful => "in doubt: ",
    };
    let mut lines = vec![format!("{doubtful}a region at {:#x}{written}", found.start)];
    lines.extend(found.why.iter().map(|line| format!("  {line}")));
    let doubts = found.doubts.iter();
    lines.extend(doubts.map(|line| format!("  in doubt: {line}")));
    lines
}

/// A detected region that is not decoded.
pub struct Other(pub FoundRegion);

impl Other {
    /// Returns the options that decode it.
    pub fn options(&self) -> String {
        by_hand(self.0.start, &self.0.params, &self.0.geometry)
    }

    /// Returns lines that explain the region to the user, with the evidence if it is doubtful.
    pub fn lines(&self) -> Vec<String> {
        let FoundRegion { start, params, .. } = self.0;
        let size = params.mem_size;
        let decodes = format!("--offset {start:#x} --size {size:#x} decodes it");
        match self.0.grade {
            Grade::Convincing => vec![format!("another region at {start:#x}: {decodes}")],
            Grade::Doubtful => {
                let mut lines = evidence(&self.0);
                lines.push(format!("  {decodes}"));
                lines
            }
        }
    }
}

/// A region to decode. It is read on demand.
#[derive(Clone)]
pub enum Meant<'a> {
    /// Region with the given parameters.
    Given(Region<'a>),
    /// Detected region.
    Found(FoundRegion),
}

impl<'a> Meant<'a> {
    /// Returns the addresses that the region occupies.
    pub fn range(&self) -> Range<u64> {
        let (start, len) = match self {
            Self::Given(region) => (region.start, region.bytes.len()),
            Self::Found(found) => (found.start, found.len),
        };
        start..start.saturating_add(len as u64)
    }

    /// Reads the region's bytes.
    pub fn read(self, image: &'a Memory, args: &Args) -> Result<Region<'a>> {
        match self {
            Self::Given(region) => Ok(region),
            Self::Found(found) => Region::found(image, args, found),
        }
    }
}

/// The regions of an image.
pub struct Regions<'a> {
    /// Regions to decode: first the likeliest with contents.
    pub decode: Vec<Meant<'a>>,
    /// Regions to list.
    pub others: Vec<Other>,
    /// Number of doubtful places that are not listed.
    pub unlisted: usize,
    /// Whether everything was searched.
    pub is_complete: bool,
}

/// Finds all records, and selects the regions. With `all`, every convincing one is decoded and the
/// others are listed.
pub fn find<'a>(image: &'a Memory, args: &Args, all: bool) -> Result<(Regions<'a>, Discovery<'a>)> {
    let discover = match all {
        true => Discovery::of_all_kinds,
        false => Discovery::within,
    };
    if args.has_division() {
        let regions = Regions {
            decode: vec![Meant::Given(given(image, args)?)],
            others: Vec::new(),
            unlisted: 0,
            is_complete: true,
        };
        return Ok((regions, discover(image, args.window(), None)));
    }
    let is_placed = args.offset.is_some() || args.size.is_some();
    let within = if is_placed {
        let (start, there) = window(image, args)?;
        let len = there.min(args.size.map_or(u64::MAX, |size| size as u64));
        start..start.saturating_add(len)
    } else {
        0..u64::MAX
    };
    let discovery = discover(image, args.window(), Some(within));
    let detection = &discovery.detection;
    let convincing = detection.convincing().len();
    let decoded = match (all, convincing) {
        // A place that the user gives is also evidence.
        (_, 0) => usize::from(is_placed).min(detection.found.len()),
        (false, _) => 1,
        (true, convincing) => convincing,
    };
    let listed = if all {
        detection.found.len()
    } else {
        convincing.max(decoded)
    };
    let unlisted = detection.found.len() - listed;
    let mut found = detection.found.clone();
    // Many empty zones are more evidence than few with records.
    let first = found[..convincing]
        .iter()
        .position(|it| has_contents(image, it));
    if let Some(first) = first {
        found[..=first].rotate_right(1);
    }
    let mut found = found.into_iter();
    let decode = found.by_ref().take(decoded).map(Meant::Found).collect();
    let regions = Regions {
        decode,
        others: found.take(listed - decoded).map(Other).collect(),
        unlisted,
        is_complete: detection.is_complete,
    };
    Ok((regions, discovery))
}

fn given<'a>(image: &'a Memory, args: &Args) -> Result<Region<'a>> {
    let (start, there) = window(image, args)?;
    let size = match args.size {
        Some(size) => size,
        None => usize::try_from(there).context("the image is too large")?,
    };
    let there = usize::try_from(there).unwrap_or(usize::MAX);
    let len = size.min(there.max(reach(image, start, size)));
    let bytes = image.read_partly(start, len).with_context(|| {
        format!("the {len:#x} bytes at {start:#x} lie in {SCATTERED}: give a smaller --size")
    })?;
    let mut notes = gaps(start, &bytes);
    if len < size {
        notes.push(format!(
            "the image has only {len} of the {size} bytes at {start:#x}"
        ));
    }
    let order = args.order.unwrap_or(ByteOrder::Little);
    let mut params = args.sizes.params(Params {
        mem_size: size,
        record_size: LINUX_SIZE,
        console_size: LINUX_SIZE,
        ftrace_size: LINUX_SIZE,
        pmsg_size: LINUX_SIZE,
        ecc: 0,
        cpus: args.cpus.unwrap_or(0),
        flags: FTRACE_PER_CPU,
        zone_order: ZoneOrder::Linux4_0,
    });
    if let Some(version) = args.linux_version {
        params.zone_order = ZoneOrder::of(version);
    } else if zone_order(&params, bytes.with_gaps(), order) == Some(ZoneOrder::Linux6_2) {
        params.zone_order = ZoneOrder::Linux6_2;
        notes.push("--linux-version 6.2, by the headers of the zones".to_owned());
    }
    let cpus = args.cpus.unwrap_or_else(|| {
        let cpus = cpus(&params, bytes.with_gaps(), order);
        notes.push(format!("--cpus {cpus}, by the trace zones that there are"));
        cpus
    });
    let params = Params { cpus, ..params };
    let layout = Layout::new(&params)?;
    notes.extend(layout.notes().map(|line| line.to_string()));
    let record_format = args.arch.unwrap_or(RecordFormat::Bits64);
    Ok(Region {
        bytes,
        start,
        geometry: Geometry::of(&layout, order, record_format),
        params,
        found: None,
        notes,
    })
}

/// Returns whether the order of the zones matters.
const fn shows_order(params: &Params) -> bool {
    params.ftrace_size > 0 && params.pmsg_size > 0
}

/// Returns the order in which more of the trace and pmsg zones have a header. A number of CPUs of 0
/// means that it is unknown.
pub fn zone_order(params: &Params, bytes: &[u8], order: ByteOrder) -> Option<ZoneOrder> {
    let reader = Reader {
        order,
        ..Reader::careful(None)
    };
    let sound = |zone_order| {
        let mut params = Params {
            zone_order,
            ..*params
        };
        if params.cpus == 0 {
            params.cpus = cpus(&params, bytes, order);
        }
        let Ok(layout) = Layout::new(&params) else {
            return 0;
        };
        let kinds = [ZoneKind::Ftrace, ZoneKind::Pmsg];
        let zones = kinds.into_iter().flat_map(|kind| layout.zones_of(kind));
        let sound = |place| !matches!(reader.open(bytes, place).state(), ZoneState::Damaged(_));
        zones.filter(|place| sound(*place)).count()
    };
    if !shows_order(params) {
        return None;
    }
    match sound(ZoneOrder::Linux4_0).cmp(&sound(ZoneOrder::Linux6_2)) {
        Ordering::Greater => Some(ZoneOrder::Linux4_0),
        Ordering::Less => Some(ZoneOrder::Linux6_2),
        Ordering::Equal => None,
    }
}

/// Returns the greatest number of CPUs for which each trace zone has a signature.
fn cpus(params: &Params, bytes: &[u8], order: ByteOrder) -> usize {
    let reader = Reader {
        order,
        ..Reader::careful(None)
    };
    let fits = |&cpus: &usize| {
        let layout = Layout::new(&Params { cpus, ..*params });
        layout.is_ok_and(|layout| {
            layout.zones_of(ZoneKind::Ftrace).all(|place| {
                let state = reader.open(bytes, place).state();
                !matches!(state, ZoneState::Damaged(_))
            })
        })
    };
    if params.flags & FTRACE_PER_CPU == 0 || params.ftrace_size == 0 {
        return 1;
    }
    (1..=MOST_CPUS).rev().find(fits).unwrap_or(1)
}

/// Returns the size of a given region up to its last byte in the image, over gaps between segments.
/// At most [`MAX_COPY`], or 0.
fn reach(image: &Memory, start: u64, size: usize) -> usize {
    let end = start.saturating_add(size as u64);
    let before = image.segments().iter().filter(|it| it.start < end);
    let last = before
        .map(|it| it.start.saturating_add(it.len).min(end))
        .max();
    let len = last.map_or(0, |last| last.saturating_sub(start) as usize);
    if len <= MAX_COPY { len } else { 0 }
}

/// Returns the start and size of the range to search.
fn window(image: &Memory, args: &Args) -> Result<(u64, u64)> {
    let segments = image.segments();
    let first = segments.first().map_or(0, |segment| segment.start);
    let start = args.offset.unwrap_or(first);
    let end_of = |segment: &PhysicalRange| segment.start.saturating_add(segment.len);
    let holds = |segment: &&PhysicalRange| {
        (start.checked_sub(segment.start)).is_some_and(|at| at < segment.len)
    };
    let Some(segment) = segments.iter().find(holds) else {
        let last = segments.last().map_or(0, end_of);
        bail!("there is nothing at {start:#x}: the image has memory from {first:#x} to {last:#x}");
    };
    let (mut before, mut there) = (segment, segment.len - (start - segment.start));
    for next in segments {
        if before.is_before(next) {
            there += next.len;
            before = next;
        }
    }
    Ok((start, there))
}

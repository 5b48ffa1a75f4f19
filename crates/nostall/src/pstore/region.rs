//! Which bytes of an image are the region, and how it is divided: by what is given, or
//! found out.

use std::borrow::Cow;

use anyhow::{Context, Result, anyhow, bail};
use nostall_pstore::detect::{Detection, Found, Grade};
use nostall_pstore::image::{Image, Segment};
use nostall_pstore::{
    ByteOrder, FTRACE_PER_CPU, Geometry, Kind, Layout, Params, Reader, Shape, ZoneState,
};

use super::number;
use super::sizes::options;
use crate::output::note;

/// Most doubtful candidates listed.
const MOST_DOUBTFUL: usize = 64;

/// More CPUs than any Linux reckons with.
const MOST_CPUS: usize = 8192;

/// Sizes that are not given are these.
const LINUX_SIZE: usize = 4096;

#[derive(clap::Args)]
#[command(next_help_heading = "Region")]
#[group(id = "region")]
pub struct Args {
    /// Where it starts: a physical address in an ELF core or LiME dump, an offset in a
    /// raw file; where the image starts unless given
    #[arg(long, value_name = "N", value_parser = number::parse)]
    offset: Option<u64>,

    /// Its size (mem_size); unless given, all that follows in the image
    #[arg(long, value_name = "N", value_parser = number::size)]
    size: Option<usize>,

    /// ramoops.record_size
    #[arg(long, value_name = "N", value_parser = number::size)]
    record_size: Option<usize>,

    /// ramoops.console_size
    #[arg(long, value_name = "N", value_parser = number::size)]
    console_size: Option<usize>,

    /// ramoops.ftrace_size, all CPUs together
    #[arg(long, value_name = "N", value_parser = number::size)]
    ftrace_size: Option<usize>,

    /// ramoops.pmsg_size
    #[arg(long, value_name = "N", value_parser = number::size)]
    pmsg_size: Option<usize>,

    /// ramoops.ecc: parity bytes for each 128 bytes of data, where 1 means 16
    #[arg(long, value_name = "N", value_parser = number::size)]
    ecc: Option<usize>,

    /// CPUs that the kernel reckoned with (possible ones); unless given, as many as
    /// there are trace zones
    #[arg(long, value_name = "N", value_parser = number::size)]
    cpus: Option<usize>,

    /// Flags: 1 (a trace zone for each CPU) unless given; in a device tree 0 unless set
    #[arg(long, value_name = "N", value_parser = number::flags)]
    flags: Option<u32>,

    /// The trace records' shape: 64, 32, arm32 (up to 4 CPUs) or thumb32 (up to 2); 64
    /// unless given or found out
    #[arg(long, value_name = "ARCH")]
    arch: Option<Shape>,

    /// List doubtful candidates, too: places that ordinary data resembles by chance, and
    /// empty regions
    #[arg(long)]
    all: bool,

    /// The dead machine's byte order; little unless given or found out
    #[arg(long, value_name = "ORDER", value_parser = order)]
    order: Option<ByteOrder>,
}

fn order(name: &str) -> Result<ByteOrder, &'static str> {
    match name {
        "little" => Ok(ByteOrder::Little),
        "big" => Ok(ByteOrder::Big),
        _ => Err("must be little or big"),
    }
}

/// The bytes of a region, and how to read them.
pub struct Region<'a> {
    /// As many of its bytes as the image has.
    pub bytes: Cow<'a, [u8]>,
    /// How it is divided.
    pub geometry: Geometry,
    /// What a person should know of it, a line each.
    pub notes: Vec<String>,
    start: u64,
}

impl Region<'_> {
    /// Where a place in the region is in the image.
    pub fn at(&self, offset: usize) -> u64 {
        self.start.saturating_add(offset as u64)
    }
}

/// The region that is meant.
pub fn find<'a>(image: &'a Image, args: &Args) -> Result<Region<'a>> {
    let numbers = [
        args.record_size,
        args.console_size,
        args.ftrace_size,
        args.pmsg_size,
        args.ecc,
        args.cpus,
    ];
    if args.flags.is_some() || numbers.iter().any(Option::is_some) {
        given(image, args)
    } else {
        found(image, args)
    }
}

fn given<'a>(image: &'a Image, args: &Args) -> Result<Region<'a>> {
    let (start, there) = window(image, args)?;
    let size = match args.size {
        Some(size) => size,
        None => usize::try_from(there).context("the image is too large")?,
    };
    let len = size.min(usize::try_from(there).unwrap_or(usize::MAX));
    let bytes = image.read(start, len).with_context(|| {
        format!("the {len} bytes at {start:#x} are scattered over the image: give --size")
    })?;
    let mut notes = Vec::new();
    if len < size {
        notes.push(format!(
            "the image has only {len} of the {size} bytes at {start:#x}"
        ));
    }
    let order = args.order.unwrap_or(ByteOrder::Little);
    let params = Params {
        mem_size: size,
        record_size: args.record_size.unwrap_or(LINUX_SIZE),
        console_size: args.console_size.unwrap_or(LINUX_SIZE),
        ftrace_size: args.ftrace_size.unwrap_or(LINUX_SIZE),
        pmsg_size: args.pmsg_size.unwrap_or(LINUX_SIZE),
        ecc: Params::command_line_ecc(args.ecc.unwrap_or(0)),
        cpus: 1,
        flags: args.flags.unwrap_or(FTRACE_PER_CPU),
    };
    let cpus = args.cpus.unwrap_or_else(|| {
        let cpus = cpus(&params, &bytes, order);
        notes.push(format!("--cpus {cpus}, by the trace zones that there are"));
        cpus
    });
    let layout = Layout::new(&Params { cpus, ..params })?;
    notes.extend(layout.notes().map(|line| line.to_string()));
    let shape = args.arch.unwrap_or(Shape::Bits64);
    Ok(Region {
        bytes,
        geometry: Geometry::of(&layout, order, shape),
        notes,
        start,
    })
}

/// The greatest number of CPUs with which each of the trace zones has a signature.
fn cpus(params: &Params, bytes: &[u8], order: ByteOrder) -> usize {
    let reader = Reader {
        order,
        ..Reader::careful(None)
    };
    let fits = |&cpus: &usize| {
        let layout = Layout::new(&Params { cpus, ..*params });
        layout.is_ok_and(|layout| {
            layout.zones_of(Kind::Ftrace).all(|place| {
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

/// Where to look, and how much there is.
fn window(image: &Image, args: &Args) -> Result<(u64, u64)> {
    let segments = image.segments();
    let first = segments.first().map_or(0, |segment| segment.physical);
    let start = args.offset.unwrap_or(first);
    let end_of = |segment: &Segment| segment.physical.saturating_add(segment.len);
    let holds = |segment: &&Segment| segment.physical <= start && start < end_of(segment);
    let Some(segment) = segments.iter().find(holds) else {
        let last = segments.last().map_or(0, end_of);
        bail!("there is nothing at {start:#x}: the image has memory from {first:#x} to {last:#x}");
    };
    let mut end = end_of(segment);
    for next in segments {
        if next.physical == end {
            end = end_of(next);
        }
    }
    Ok((start, end - start))
}

fn found<'a>(image: &'a Image, args: &Args) -> Result<Region<'a>> {
    let is_given = args.offset.is_some() || args.size.is_some();
    let detection = if is_given {
        let (start, there) = window(image, args)?;
        let len = there.min(args.size.map_or(u64::MAX, |size| size as u64));
        image.detect_within(start..start.saturating_add(len))
    } else {
        image.detect()
    };
    // The place that a person names is evidence, too.
    let best = match detection.found.first() {
        Some(best) if is_given || best.grade == Grade::Convincing => best,
        _ => return Err(none(&detection, args.all)),
    };
    let mut notes = explain(best, detection.convincing().get(1..).unwrap_or_default());
    if args.all {
        notes.extend(doubtful(&detection));
    }
    if !detection.is_complete {
        notes.push("more places look like regions than are examined".to_owned());
    }
    let mut geometry = best.geometry.clone();
    geometry.shape = args.arch.unwrap_or(geometry.shape);
    geometry.order = args.order.unwrap_or(geometry.order);
    let start = best.start;
    // The last zone may end before the region does, or the image before the zone.
    let bytes = image
        .read(start, geometry.len())
        .or_else(|| image.read(start, best.len))
        .with_context(|| {
            let len = best.len;
            format!("the region's {len:#x} bytes at {start:#x} are scattered over the file")
        })?;
    Ok(Region {
        bytes,
        geometry,
        notes,
        start,
    })
}

/// The error if nothing convinces.
fn none(detection: &Detection, list: bool) -> anyhow::Error {
    if list {
        doubtful(detection)
            .iter()
            .for_each(|line| note(format_args!("{line}")));
    }
    let number = detection.doubtful().len();
    let doubtful = match (number, list) {
        (0, _) | (_, true) => String::new(),
        _ => format!(" ({number} places are in doubt: --all lists them)"),
    };
    anyhow!(
        "no ramoops region in it{doubtful}; if you know where one is, give its sizes: \
         --offset, --record-size and so on (see --help)"
    )
}

/// The candidates in doubt, with the reasons.
fn doubtful(detection: &Detection) -> Vec<String> {
    let mut lines = Vec::new();
    let all = detection.doubtful();
    for found in all.iter().take(MOST_DOUBTFUL) {
        let (start, size) = (found.start, found.params.mem_size);
        lines.push(format!(
            "in doubt: a region at {start:#x}: --offset {start:#x} --size {size:#x} decodes it"
        ));
        lines.extend(found.why.iter().map(|line| format!("  {line}")));
        lines.extend(
            found
                .doubts
                .iter()
                .map(|line| format!("  in doubt: {line}")),
        );
    }
    if all.len() > MOST_DOUBTFUL {
        let more = all.len() - MOST_DOUBTFUL;
        lines.push(format!("{more} more places are in doubt"));
    }
    lines
}

fn explain(best: &Found, others: &[Found]) -> Vec<String> {
    let (start, params) = (best.start, best.params);
    let written = match best.version {
        Some(version) => format!(", written by Linux {version} or for it"),
        None => String::new(),
    };
    let mut notes = vec![format!("a region at {start:#x}{written}")];
    notes.extend(best.why.iter().map(|line| format!("  {line}")));
    notes.extend(best.doubts.iter().map(|line| format!("  in doubt: {line}")));
    let order = match best.geometry.order {
        ByteOrder::Little => "little",
        ByteOrder::Big => "big",
    };
    let options = options(start, &params, best.geometry.shape);
    notes.push(format!("  the same by hand: {options} --order {order}"));
    notes.extend(others.iter().map(|other| {
        let (start, size) = (other.start, other.params.mem_size);
        format!("another region at {start:#x}: --offset {start:#x} --size {size:#x} decodes it")
    }));
    notes
}

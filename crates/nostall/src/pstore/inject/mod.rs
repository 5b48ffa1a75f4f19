//! `nostall pstore inject`: an image of a region, made from files.

mod dmesg;
mod image;
mod trace;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use nostall_postmortem::cli::{read_file, region_options};
use nostall_postmortem::image::MAX_READ;
use nostall_pstore::{
    Code, Layout, LinuxVersion, Params, Place, PreviousContents, Ram, RecordFormat, SIGNATURE,
    Zone, ZoneHeader, ZoneKind,
};

use super::Sizes;
use super::number;
use crate::output::{note, to_stdout};
use dmesg::{DmesgCompression, Time};

/// Bytes that the kernel is taken to have appended at a time.
const PIECE: usize = 16 << 10;

/// Make an image of persistent memory (Linux's ramoops) from files
///
/// For tests: of what reads such memory after a crash, or of Linux itself, which finds
/// the records at its next boot. Sizes that are not given are what Linux takes on its
/// command line: 4096 bytes each, no ECC, a trace zone for each CPU. What does not fit
/// is left out at its start, as Linux would, and that is said. Contents are read into
/// memory, up to 256 MiB each.
///
/// Numbers may be decimal or start with 0x, and end with K, M or G. Byte order is this
/// machine's.
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// Overwrite that file
    #[arg(long)]
    force: bool,

    /// Start from a copy of this image
    ///
    /// dmesg records go to its first empty zones, everything else is appended to what
    /// the zones hold; the rest of the file stays as it is.
    #[arg(long, value_name = "IMAGE")]
    into: Option<PathBuf>,

    /// Where in the file the region starts
    #[arg(long, value_name = "N", value_parser = number::parse, default_value_t = 0)]
    offset: u64,

    /// The region's size; with --into all that follows in the image, unless given
    #[arg(long, value_name = "N", value_parser = number::size, required_unless_present = "into")]
    size: Option<usize>,

    /// CPUs that the kernel is to reckon with (possible ones)
    #[arg(long, value_name = "N", value_parser = number::size, default_value_t = 1)]
    cpus: usize,

    #[command(flatten)]
    sizes: Sizes,

    #[command(flatten)]
    contents: Contents,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Contents")]
struct Contents {
    /// A kernel log; may be given again, for one record each
    ///
    /// Unless its first line is one like Oops#2 Part1, Panic#1 Part1 is put before it.
    #[arg(long, value_name = "FILE")]
    dmesg: Vec<PathBuf>,

    /// How to compress dmesg records
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    compression: DmesgCompression,

    /// When they were written, since 1970; 0 is a clock that was never set
    #[arg(long, value_name = "SECONDS.MICROS", default_value = "0.0")]
    time: Time,

    /// The console's output
    #[arg(long, value_name = "FILE")]
    console: Option<PathBuf>,

    /// What user space wrote to /dev/pmsg0
    #[arg(long, value_name = "FILE")]
    pmsg: Option<PathBuf>,

    /// Function trace: lines as Linux shows them, see below
    #[arg(long, value_name = "FILE")]
    ftrace: Option<PathBuf>,

    /// Of the kernel that is to read the trace zones; this machine's, unless given
    #[arg(long, value_name = "X.Y.Z", value_parser = version)]
    linux_version: Option<LinuxVersion>,

    /// The trace records' format: 64, 32, arm32 (up to 4 CPUs) or thumb32 (up to 2)
    #[arg(long, default_value_t = RecordFormat::Bits64)]
    arch: RecordFormat,
}

const AFTER: &str = "\
Examples:
  nostall pstore inject --out region.bin --size 64K --dmesg dmesg.txt
  nostall pstore inject --out region.bin --size 1M --record-size 64K --ecc 1 \\
      --dmesg oops.txt --dmesg panic.txt --compression deflate --console console.txt
  nostall pstore inject --out more.bin --into region.bin --record-size 64K --ecc 1 \\
      --dmesg another.txt
  nostall pstore inject --out ram.bin --offset 96M --size 1M --ftrace-size 256K \\
      --cpus 2 --ftrace trace.txt --linux-version 6.1.0

--ftrace takes the lines that `nostall postmortem --format linux` and Linux's
ftrace-ramoops-0 have: the CPU, a time or count, the function's address, its
caller's; what follows is ignored.
  CPU:0 ts:5701 ffffffff81000010  ffffffff81a00000  do_idle <- cpu_startup_entry";

fn version(text: &str) -> Result<LinuxVersion, &'static str> {
    parse_version(text).ok_or("not a version such as 6.1.0")
}

/// `6.1.0-13-amd64`: what follows the numbers is ignored; a third one may be missing.
fn parse_version(text: &str) -> Option<LinuxVersion> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let mut numbers = text[..end.unwrap_or(text.len())].split('.');
    let (major, minor) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    let patch = match numbers.next() {
        None | Some("") => 0,
        Some(patch) => patch.parse().ok()?,
    };
    Some(LinuxVersion::new(major, minor, patch))
}

/// The version of the kernel that runs, if it is Linux.
fn running() -> Option<LinuxVersion> {
    parse_version(&std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?)
}

/// Does what the arguments say.
///
/// # Errors
///
/// If a file cannot be read or written, or there is no zone for what is in it.
pub fn run(args: &Args) -> Result<()> {
    image::may_be_written(args)?;
    let (bytes, params) = match &args.into {
        Some(file) => {
            let bytes = image::region(file, args.offset, args.size)
                .with_context(|| file.display().to_string())?;
            let params = Params::command_line(bytes.len(), args.cpus);
            (Some(bytes), params)
        }
        None => (
            None,
            Params::command_line(args.size.unwrap_or(0), args.cpus),
        ),
    };
    let layout = Layout::new(&args.sizes.params(params))?;
    let mut report = Report {
        notes: layout.notes().map(|note| note.to_string()).collect(),
        ..Report::default()
    };
    let version = args.contents.linux_version.or_else(running);
    let code = Code::new(layout.params().ecc).map(Box::new);
    let mut region = match bytes {
        Some(bytes) => Region {
            bytes,
            layout,
            version,
            code,
        },
        None => Region::blank(layout, version, code)?,
    };
    region.fill(&args.contents, &mut report)?;
    image::write(args, &region.bytes)?;
    for line in &report.notes {
        note(format_args!("{line}"));
    }
    let summary = summary(args, &region, &report.written);
    to_stdout(|out| out.write_all(summary.as_bytes()))
}

/// What a person is told when all is done.
#[derive(Default)]
struct Report {
    /// A line for each record.
    written: String,
    /// What is not as it was given.
    notes: Vec<String>,
}

impl Report {
    /// Of a text, if there was more of it than could be kept.
    fn left_out(&mut self, kind: ZoneKind, index: usize, bytes: usize, kept: usize) {
        if bytes > kept {
            self.notes.push(format!(
                "{kind} {index}: only the last {kept} of {bytes} bytes fit"
            ));
        }
    }
}

/// A region in this process's memory.
struct Region {
    bytes: Vec<u8>,
    layout: Layout,
    version: Option<LinuxVersion>,
    code: Option<Box<Code>>,
}

impl Region {
    /// As a kernel leaves it in which nothing happened. Trace zones of no known version
    /// are left blank.
    fn blank(
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

    /// The zone that lies there, with what it holds.
    fn zone(&mut self, place: Place) -> Result<(Zone<'_, Ram<'_>>, PreviousContents)> {
        let bytes = &mut self.bytes[place.offset..][..place.division.zone()];
        attach(bytes, place, self.version, self.code.as_deref())
    }

    fn fill(&mut self, contents: &Contents, report: &mut Report) -> Result<()> {
        self.fill_dmesg(contents, report)?;
        for (kind, file) in [
            (ZoneKind::Console, &contents.console),
            (ZoneKind::Pmsg, &contents.pmsg),
        ] {
            if let Some(file) = file {
                let place = self.only(kind)?;
                let (mut zone, _) = self.zone(place)?;
                let text = read_file(file, MAX_READ)?;
                // Piece by piece, as it came to be.
                for piece in text.chunks(PIECE) {
                    zone.append_text(piece);
                }
                report.left_out(kind, 0, text.len(), zone.division().data());
                let _ = writeln!(report.written, "  {kind} 0: {} bytes", zone.len());
            }
        }
        if let Some(file) = &contents.ftrace {
            self.only(ZoneKind::Ftrace)?;
            ensure!(
                self.version.is_some(),
                "trace zones carry the version of the kernel that is to read them: give --linux-version X.Y.Z"
            );
            let lines = read_file(file, MAX_READ)?;
            let calls = trace::record(self, &lines, contents.arch)
                .with_context(|| file.display().to_string())?;
            let _ = writeln!(report.written, "  ftrace: {calls} calls");
        }
        Ok(())
    }

    fn fill_dmesg(&mut self, contents: &Contents, report: &mut Report) -> Result<()> {
        let mut places = self.layout.zones_of(ZoneKind::Dmesg);
        for file in &contents.dmesg {
            let (mut zone, place) = loop {
                let Some(place) = places.next() else {
                    bail!(
                        "no dmesg zone is left for {}: make the region larger, or --record-size smaller",
                        file.display()
                    );
                };
                if self.zone(place)?.0.is_empty() {
                    break (self.zone(place)?.0, place);
                }
            };
            let log = read_file(file, MAX_READ)?;
            let text = dmesg::write(&mut zone, &log, contents.compression, contents.time)
                .with_context(|| file.display().to_string())?;
            report.left_out(ZoneKind::Dmesg, place.index, text.found, text.kept);
            let stored = zone.len();
            let _ = writeln!(
                report.written,
                "  dmesg {}: {} bytes of text, {stored} stored",
                place.index, text.kept
            );
        }
        Ok(())
    }

    /// The first zone of a kind that there must be.
    fn only(&self, kind: ZoneKind) -> Result<Place> {
        let mut zones = self.layout.zones_of(kind);
        zones
            .next()
            .with_context(|| format!("the region has no {kind} zone: give --{kind}-size"))
    }
}

/// The zone in these bytes. A blank one is made; what is neither is an error.
fn attach<'a>(
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

fn summary(args: &Args, region: &Region, written: &str) -> String {
    let params = region.layout.params();
    let (out, offset) = (args.out.display(), args.offset);
    let options = region_options(offset, params, args.contents.arch);
    format!(
        "{out}: a region of {} bytes at {offset:#x}\n{written}\
         To read it:\n  nostall postmortem {out} {options}\n",
        params.mem_size,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_kernels_have_them() {
        let new = LinuxVersion::new;
        for (text, version) in [
            ("6.1.0", Some(new(6, 1, 0))),
            ("6.12", Some(new(6, 12, 0))),
            ("6.1.0-13-amd64\n", Some(new(6, 1, 0))),
            ("6.18.44-fc", Some(new(6, 18, 44))),
            ("6.19-rc1", Some(new(6, 19, 0))),
            ("4.9.337", Some(new(4, 9, 255))),
            ("6", None),
            ("", None),
            ("6.x", None),
            ("600.1.0", None),
        ] {
            assert_eq!(parse_version(text), version, "{text}");
        }
    }
}

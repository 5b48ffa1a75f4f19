//! `nostall pstore decode`: an image of a region, as records or as Linux's files.

use std::io;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, ensure};
use clap::ValueEnum;
use nostall_pstore::image::Image;
use nostall_pstore::{Content, Decoded, Unpack, Writer, ZoneState, linux_files};

use super::files::{self, File};
use super::names::{self, Names};
use super::region::{self, Region};
use super::{json, number, text};
use crate::output::{Style, note, to_stdout};

/// Show what a dead kernel left in persistent memory (Linux's ramoops)
///
/// Reads memory dumps: raw ones, ELF cores (kdump, QEMU's dump-guest-memory), LiME;
/// or the region alone. With no size, ECC, CPU or flags option it finds the region
/// and its parameters by itself and says on stderr how; with any, what is not given
/// is what Linux takes on its command line: 4096 bytes for each size, no ECC, a trace
/// zone for each CPU.
///
/// Pipes and devices are read into memory, up to 256 MiB. One without a byte for 10
/// seconds is given up.
///
/// Nothing is changed. Numbers may be decimal or start with 0x, and end with K, M or
/// G.
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// The memory image
    #[arg(value_name = "IMAGE")]
    image: PathBuf,

    /// How dmesg records are compressed: deflate, lz4, lz4hc, lzo, zstd or none; tried
    /// out unless given
    #[arg(long, value_name = "NAME", value_parser = packing)]
    compress: Option<Unpack>,

    /// Names for addresses: System.map (also gzipped), vmlinux, or a copy of
    /// /proc/kallsyms, of the kernel that died
    #[arg(long, value_name = "FILE")]
    symbols: Option<PathBuf>,

    /// How far above its linked address that kernel ran; unless given, what its log
    /// says, or what its trace fits
    #[arg(long, value_name = "N", value_parser = number::parse, requires = "symbols")]
    kernel_offset: Option<u64>,

    /// Show each CPU's trace by itself, in the order of its writing: for stamps that
    /// are a count of each CPU's own, which tell nothing of the order between CPUs
    #[arg(long)]
    per_cpu: bool,

    /// Who wrote: linux stores a record's header before the record, so its newest trace
    /// records may be half written; nostall stores it after
    #[arg(long, value_enum, default_value_t)]
    writer: By,

    /// What to write
    #[arg(long, value_enum, default_value_t)]
    format: Format,

    /// Write one file for each record to DIR, which is made if need be
    ///
    /// Names are Linux's; .json is appended with --format json. If one of the files
    /// exists nothing is written, unless --force is given.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Overwrite files in DIR
    #[arg(long, requires = "out")]
    force: bool,

    // Last, for its heading is that of all that follows.
    #[command(flatten)]
    region: region::Args,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people: a summary of each record, then what is in it
    #[default]
    Text,
    /// For programs: one object a line, for each record
    Json,
    /// The files of Linux's /sys/fs/pstore, byte for byte
    Linux,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum By {
    #[default]
    Linux,
    Nostall,
}

impl From<By> for Writer {
    fn from(by: By) -> Self {
        match by {
            By::Linux => Self::HeaderFirst,
            By::Nostall => Self::DataFirst,
        }
    }
}

const AFTER: &str = "\
Examples:
  nostall pstore decode memory.elf
  nostall pstore decode memory.elf --symbols System.map --format json
  nostall pstore decode region.bin --record-size 32K --console-size 32K \\
      --ftrace-size 32K --pmsg-size 8K --ecc 1 --cpus 2
  nostall pstore decode memory.raw --offset 2G --size 1M --format linux --out pstore/

Text: trace lines are stamp, CPU, function <- caller. (suspect): the record may be
half written, because it lies where the machine was cut off; (unverified): its bytes
do not agree with their parity. On a terminal, control characters of the dead machine
are shown as escapes; in a pipe or a file all bytes are as they were.

JSON: an object has schema (1), kind, index, name, stored_bytes, overwritten (older
contents were), trust (verified, unchecked: no parity, corrected, unverified: may be
anything), ecc (null, or blocks, corrected_bytes, bad_blocks). Text records have text,
data_hex where the bytes are not UTF-8, and unverified, a list of [from, to] in bytes;
dmesg records also time (null, or seconds, micros) and compression (none, its name,
or unknown: still compressed). ftrace has records: cpu, stamp, ip, parent, function
and caller (null without names), suspect, unverified.

Exit status: 0 if there was a region to read, even one with nothing in it; 1 if not.";

fn packing(name: &str) -> Result<Unpack, String> {
    match name {
        "none" => Ok(Unpack::Not),
        name => match name.parse() {
            Ok(method) => Ok(Unpack::As(method)),
            Err(error) => Err(format!("{error}")),
        },
    }
}

/// Does what the arguments say.
///
/// # Errors
///
/// If there is no region to read, or its records cannot be written.
pub fn run(args: &Args) -> Result<()> {
    let path = args.image.display();
    ensure!(!args.image.is_dir(), "{path} is a directory, not an image");
    // Not as context: these errors tell their cause themselves.
    let image = Image::open(&args.image).map_err(|error| anyhow!("{path}: {error}"))?;
    let symbols = args.symbols.as_deref().map(names::load).transpose()?;
    let region = region::find(&image, &args.region).with_context(|| path.to_string())?;
    let unpack = args.compress.unwrap_or_default();
    let writer = args.writer.into();
    let mut decoded = Decoded::new(&region.bytes, &region.geometry, writer, unpack);
    if args.per_cpu {
        ensure!(
            args.format != Format::Linux,
            "--per-cpu: Linux's files are merged, whatever the stamps are"
        );
        side_by_side(&mut decoded);
    }
    complain(&image, &region, &decoded)?;
    let names = match symbols {
        Some(symbols) => names::moved(symbols, args.kernel_offset, &decoded),
        None => Names::none(),
    };

    let style = Style::of(&io::stdout());
    if args.format == Format::Linux {
        let (region, symbols) = (&region, names.symbols());
        let all = linux_files(&region.bytes, &region.geometry, unpack, symbols);
        let all: Vec<File> = all.into_iter().map(File::from).collect();
        return match &args.out {
            Some(folder) => files::write(folder, &all, args.force),
            None => to_stdout(|out| files::print(&all, style, out)),
        };
    }
    let shape = region.geometry.shape;
    match (&args.out, args.format) {
        (None, Format::Json) => to_stdout(|out| {
            let mut records = decoded.records.iter();
            records.try_for_each(|record| json::write(record, &names, shape, out))
        }),
        (None, _) => to_stdout(|out| {
            let mut records = decoded.records.iter();
            records.try_for_each(|record| text::write(record, &names, style, out))
        }),
        (Some(folder), format) => {
            let to_file = |record| -> Result<File> {
                let (mut name, mut bytes) = (files::name(record), Vec::new());
                if format == Format::Json {
                    name += ".json";
                    json::write(record, &names, shape, &mut bytes)?;
                } else {
                    text::contents(record, &names, Style::Plain, &mut bytes)?;
                }
                Ok(File {
                    name,
                    seconds: None,
                    bytes,
                })
            };
            let all: Result<Vec<_>> = decoded.records.iter().map(to_file).collect();
            files::write(folder, &all?, args.force)?;
            if format == Format::Text {
                to_stdout(|out| {
                    let mut records = decoded.records.iter();
                    records.try_for_each(|record| text::summary(record, style, out))
                })?;
            }
            Ok(())
        }
    }
}

/// Puts the traces of one CPU after those of another.
fn side_by_side(decoded: &mut Decoded) {
    for record in &mut decoded.records {
        if let Content::Ftrace(traces) = &mut record.content {
            // Stable: of one CPU, they stay in the order of writing.
            traces.sort_by_key(|trace| trace.record.cpu);
        }
    }
}

/// Says what a person should know of the region. If no zone can be read, that is an
/// error.
fn complain(image: &Image, region: &Region<'_>, decoded: &Decoded) -> Result<()> {
    let damaged = decoded.zones.iter().filter_map(|zone| match zone.state {
        ZoneState::Damaged(why) => Some((zone.place, why)),
        _ => None,
    });
    let damaged: Vec<_> = damaged.collect();
    if let Some((place, why)) = damaged.first() {
        ensure!(
            damaged.len() < decoded.zones.len(),
            "no records here: of {} zones none can be read ({} zone {} at {:#x}: {why}); \
             are offset, sizes and --ecc those of the kernel that died?",
            damaged.len(),
            place.kind,
            place.index,
            region.at(place.offset),
        );
    }
    if image.missing() > 0 {
        let missing = image.missing();
        note(format_args!(
            "the image is cut short: {missing} bytes that it promises are missing"
        ));
    }
    for line in &region.notes {
        note(format_args!("{line}"));
    }
    for (place, why) in &damaged {
        note(format_args!(
            "{} zone {} at {:#x} cannot be read: {why}",
            place.kind,
            place.index,
            region.at(place.offset)
        ));
    }
    for zone in &decoded.zones {
        if let Some(misaligned) = zone.misaligned {
            let (place, at) = (zone.place, region.at(zone.place.offset));
            note(format_args!(
                "{} zone {} at {at:#x}: {misaligned}",
                place.kind, place.index
            ));
        }
    }
    if decoded.records.is_empty() {
        note(format_args!("the region is there, and empty"));
    }
    Ok(())
}

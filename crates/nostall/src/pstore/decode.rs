//! `nostall pstore decode`: images of regions, as records or as Linux's files.

use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use nostall_pstore::image::Image;
use nostall_pstore::symbols::Symbols;
use nostall_pstore::{
    Damage, Decoded, LinuxFile, Place, Record, Unpack, Worth, Writer, ZoneReport, ZoneState,
};

use super::input::Input;
use super::names::{self, Names};
use super::region::{self, Region};
use super::swap::Swap;
use super::text::Escaped;
use super::{files, json, number, text};
use crate::output::{Style, note, to_stdout};

/// Show the records that a crashed kernel left in persistent memory (Linux's ramoops)
///
/// Reads memory dumps: raw ones, ELF cores (kdump, QEMU's dump-guest-memory), LiME;
/// or the region alone. With no size, ECC, CPU or flags option it finds the region
/// and its parameters and explains on stderr how. With any of them, a value that is
/// not given is Linux's default: 4096 bytes for each size, no ECC, a trace zone for
/// each CPU.
///
/// Standard input, pipes and devices are read into memory, up to 256 MiB. One that sends
/// no byte for 10 seconds is given up.
///
/// Images are not changed. Numbers may be decimal or start with 0x, and end with K, M
/// or G.
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// Memory images: files, directories (all files in them and below), or - for
    /// standard input
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,

    /// Decode every region found in an image, not only the likeliest, and list places in
    /// doubt: ordinary data resembles an empty region by chance
    #[arg(long)]
    all: bool,

    /// Reverse the bytes of each word of the image first: 2, 4 or 8 bytes
    #[arg(long, value_name = "BYTES", value_parser = Swap::parse)]
    swap: Option<Swap>,

    /// How dmesg records are compressed: deflate, lz4, lz4hc, lzo, zstd or none; tried
    /// out unless given
    #[arg(long, value_name = "NAME", value_parser = packing)]
    compress: Option<Unpack>,

    /// Names for addresses: System.map (also gzipped), vmlinux, or a copy of
    /// /proc/kallsyms, of the kernel that crashed
    #[arg(long, value_name = "FILE")]
    symbols: Option<PathBuf>,

    /// How far above its linked address that kernel ran; unless given, the offset in
    /// its log, or the one that its trace fits
    #[arg(long, value_name = "N", value_parser = number::parse, requires = "symbols")]
    kernel_offset: Option<u64>,

    /// Show the trace of one CPU after that of another, each in the order of writing:
    /// for stamps that are a count of each CPU's own
    #[arg(long)]
    per_cpu: bool,

    /// The writer: linux stores a record's header before the record, so its newest trace
    /// records may be half written; nostall stores it after
    #[arg(long, value_enum, default_value_t)]
    writer: By,

    /// The output format
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

    /// Print no explanations on stderr, only errors
    #[arg(long, short)]
    quiet: bool,

    // Last, for its heading is that of all that follows.
    #[command(flatten)]
    region: region::Args,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people: a summary of each record with its worth, then its contents
    #[default]
    Text,
    /// For programs: JSON lines, one for each region, record and call
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

// Each paragraph is one line: the terminal's width breaks it.
const AFTER: &str = "\
Examples:
  nostall pstore decode memory.elf
  nostall pstore decode memory.elf --symbols System.map --format json
  nostall pstore decode -q --all --format json /var/crash |
      jq -r 'select(.text).text'
  nostall pstore decode region.bin --record-size 32K --console-size 32K \\
      --ftrace-size 32K --pmsg-size 8K --ecc 1 --cpus 2
  nostall pstore decode memory.raw --offset 2G --size 1M --format linux \\
      --out pstore/

Worth of a record, from the best to the worst byte in it: verified (agrees with its parity), \
unchecked (has no parity), corrected (by its parity), unverified (may be anything: failed error \
correction, was decompressed from bytes that did, or lies where a damaged header points).

Text: lines that start with ==> are the decoder's. A record's first line ends with its worth; \
more such lines have the ranges of its unverified bytes. In the contents \\unverified{ and \\} \
enclose these bytes, in each line anew. Control characters, characters that turn the direction \
of text, bytes that are no UTF-8 and backslashes of the crashed machine are escapes (\\x1b, \
\\u{202e}, \\xff, \\x5c), in a pipe as well. Trace lines are stamp, CPU, function <- caller. \
(suspect): the record may be half written, because it lies where the machine was cut off; \
(unverified): its bytes may be anything. --out files have the contents without the ==> lines.

JSON: each line is an object with a type. region: file, start, geometry, reasons and doubts. \
candidate: a region that is not decoded. record: kind, trust, stored_bytes, ecc, and text with \
unverified ranges, or the number of calls. call: a trace record, after its record line. end: \
file, status, records, message. The book (docs/src/pstore.md) has every word.

Linux: its files have no marks; the worth of each and the ranges go to stderr.

Exit status: 0 records; 1 an image could not be read or the output not be written; 2 wrong \
options; 3 a region, and it is empty; 4 a damaged region without a readable record; 5 no region. \
Of several images: the first of 1, 0, 4, 3, 5 that one has.";

fn packing(name: &str) -> Result<Unpack, String> {
    match name {
        "none" => Ok(Unpack::Not),
        name => match name.parse() {
            Ok(method) => Ok(Unpack::As(method)),
            Err(error) => Err(format!("{error}")),
        },
    }
}

/// Result for one image. Its number is the exit status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// There are records.
    Records = 0,
    /// The image cannot be read, or the output not be written.
    Error = 1,
    /// There is a region, and nothing was recorded in it.
    Empty = 3,
    /// There is a region. No record in it can be read, and some zones are damaged.
    Damaged = 4,
    /// There is no region.
    None = 5,
}

impl Status {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Error => "error",
            Self::Empty => "empty",
            Self::Damaged => "damaged",
            Self::None => "none",
        }
    }

    /// The status of several images or regions: the first of these that one has.
    fn and(self, other: Self) -> Self {
        const ORDER: [Status; 5] = [
            Status::Error,
            Status::Records,
            Status::Damaged,
            Status::Empty,
            Status::None,
        ];
        let mut order = ORDER.into_iter();
        order.find(|&it| it == self || it == other).unwrap_or(self)
    }
}

/// Does what the arguments say.
///
/// # Errors
///
/// If an argument makes no sense. An image that cannot be read is a [`Status`].
pub fn run(args: &Args) -> Result<ExitCode> {
    ensure!(
        !args.per_cpu || args.format != Format::Linux,
        "--per-cpu: Linux's files are merged, whatever the stamps are"
    );
    let symbols = args.symbols.as_deref().map(names::load).transpose()?;
    let inputs = Input::all(&args.images)?;
    ensure!(
        args.out.is_none() || inputs.len() == 1,
        "--out takes one image, and there are {}",
        inputs.len()
    );
    let job = Job {
        args,
        symbols,
        style: Style::of(&io::stdout()),
        several: args.all || inputs.len() > 1,
    };
    let status = inputs.iter().map(|input| job.image(input));
    let status = status.reduce(Status::and).unwrap_or(Status::Error);
    Ok(ExitCode::from(status as u8))
}

/// The arguments, and the terminal or pipe that the output goes to.
struct Job<'a> {
    args: &'a Args,
    symbols: Option<Symbols>,
    style: Style,
    /// Whether each region needs a heading.
    several: bool,
}

/// Result for one image or region.
struct Outcome {
    status: Status,
    records: usize,
    /// The reason, if there are no records.
    message: Option<String>,
}

impl Outcome {
    fn none(status: Status, message: String) -> Self {
        Self {
            status,
            records: 0,
            message: Some(message),
        }
    }

    fn and(self, other: Self) -> Self {
        let status = self.status.and(other.status);
        let is_mine = status == self.status;
        Self {
            status,
            records: self.records + other.records,
            message: if is_mine { self.message } else { other.message },
        }
    }
}

impl Job<'_> {
    /// Decodes one image, and says what kept that from being done.
    fn image(&self, input: &Input) -> Status {
        let outcome = self.regions(input);
        let outcome =
            outcome.unwrap_or_else(|error| Outcome::none(Status::Error, format!("{error:#}")));
        let mut status = outcome.status;
        if self.args.format == Format::Json && self.args.out.is_none() {
            let Outcome {
                records, message, ..
            } = &outcome;
            let file = input.name();
            let end = to_stdout(|out| json::end(&file, status, *records, message.as_deref(), out));
            if let Err(error) = end {
                status = Status::Error;
                note(format_args!("{error:#}"));
            }
        }
        if let Some(message) = outcome.message
            && (status == Status::Error || !self.args.quiet)
        {
            note(format_args!("{message}"));
        }
        status
    }

    fn regions(&self, input: &Input) -> Result<Outcome> {
        let args = self.args;
        let image = input.open(args.swap)?;
        let found = region::find(&image, &args.region, args.all);
        let regions = found.with_context(|| input.to_string())?;
        let number = regions.decode.len();
        ensure!(
            args.out.is_none() || number <= 1,
            "--out takes one region, and there are {number}: choose one with --offset and --size"
        );
        if !regions.is_complete {
            self.note(format_args!(
                "{input}: more places look like regions than are examined"
            ));
        }
        let mut outcome = None;
        for meant in regions.decode {
            let region = meant.read(&image, &args.region);
            let next = region.and_then(|region| self.region(&image, input, &region));
            // The other regions are decoded nevertheless.
            let next = next.unwrap_or_else(|error| {
                Outcome::none(Status::Error, format!("{input}: {error:#}"))
            });
            outcome = Some(match outcome {
                None => next,
                Some(outcome) => Outcome::and(outcome, next),
            });
        }
        for other in &regions.others {
            if args.format == Format::Json && args.out.is_none() {
                to_stdout(|out| json::candidate(&input.name(), other, out))?;
            }
            for line in other.lines() {
                self.note(format_args!("{line}"));
            }
        }
        let none = || no_region(&image, input, args.swap, regions.unlisted);
        Ok(outcome.unwrap_or_else(|| Outcome::none(Status::None, none())))
    }

    fn region(&self, image: &Image, input: &Input, region: &Region<'_>) -> Result<Outcome> {
        let args = self.args;
        let unpack = args.compress.unwrap_or_default();
        let decoded = Decoded::new(&region.bytes, &region.geometry, args.writer.into(), unpack);
        let damaged: Vec<_> = decoded.zones().filter_map(damage).collect();
        let readable = region.geometry.zones.len() - damaged.len();
        if region.found.is_some()
            && let at = (region.start, &*region.bytes)
            && let Some(swap) = Swap::explains(image, at, readable)
            && args.swap.is_none_or(|given| given == swap)
        {
            let message = match args.swap {
                Some(_) => format!("{input}: the bytes are in the right order without --swap"),
                None => format!(
                    "{input}: the bytes of each {0}-byte word are reversed: --swap {0} puts them right",
                    swap.bytes()
                ),
            };
            return Ok(Outcome::none(Status::None, message));
        }
        let is_json = args.format == Format::Json;
        if is_json && args.out.is_none() {
            to_stdout(|out| json::region(&input.name(), image, args.swap, region, &decoded, out))?;
        }
        if let Some((place, why)) = damaged.first()
            && readable == 0
        {
            let message = format!(
                "{input}: no records here: of {} zones none can be read ({} zone {} at {:#x}: \
                 {why}); are offset, sizes and --ecc those of the kernel that crashed?",
                damaged.len(),
                place.kind,
                place.index,
                region.at(place.offset),
            );
            return Ok(Outcome::none(Status::Damaged, message));
        }
        self.explain(image, region, &decoded, &damaged);
        let names = match self.symbols.clone() {
            Some(symbols) => names::moved(symbols, args.kernel_offset, &decoded, |line| {
                self.note(line);
            }),
            None => Names::none(),
        };
        let heading = self
            .several
            .then(|| format!("{input}: region at {:#x}", region.start));
        let records = match (&args.out, args.format) {
            (Some(folder), Format::Linux) => self.linux_folder(&decoded, &names, folder),
            (None, Format::Linux) => self.linux(&decoded, &names, heading),
            (Some(folder), _) => self.folder(&decoded, &names, folder),
            (None, _) => self.print(&decoded, &names, heading),
        }?;
        let status = match (records, damaged.is_empty()) {
            (0, true) => Status::Empty,
            (0, false) => Status::Damaged,
            _ => Status::Records,
        };
        let message = match status {
            Status::Empty => Some(format!("{input}: the region is there, and empty")),
            Status::Damaged => Some(format!(
                "{input}: no records here: {} of {} zones cannot be read, the others are empty",
                damaged.len(),
                region.geometry.zones.len()
            )),
            _ => None,
        };
        Ok(Outcome {
            status,
            records,
            message,
        })
    }

    fn explain(
        &self,
        image: &Image,
        region: &Region<'_>,
        decoded: &Decoded<'_>,
        damaged: &[(Place, Damage)],
    ) {
        if image.missing() > 0 {
            let missing = image.missing();
            self.note(format_args!(
                "the image is cut short: {missing} bytes that it promises are missing"
            ));
        }
        for line in region.lines() {
            self.note(format_args!("{line}"));
        }
        for (place, why) in damaged {
            self.note(format_args!(
                "{} zone {} at {:#x} cannot be read: {why}",
                place.kind,
                place.index,
                region.at(place.offset)
            ));
        }
        for zone in decoded.zones() {
            if let Some(misaligned) = zone.misaligned {
                let at = region.at(zone.place.offset);
                let (kind, index) = (zone.place.kind, zone.place.index);
                self.note(format_args!("{kind} zone {index} at {at:#x}: {misaligned}"));
            }
        }
    }

    /// A line on standard error, unless it is to be quiet.
    fn note(&self, line: fmt::Arguments<'_>) {
        if !self.args.quiet {
            note(line);
        }
    }

    fn order(&self) -> text::Order {
        if self.args.per_cpu {
            |calls, each| calls.by_cpu().try_for_each(each)
        } else {
            |calls, each| calls.iter().try_for_each(each)
        }
    }

    /// Text or JSON, on standard output.
    fn print(
        &self,
        decoded: &Decoded<'_>,
        names: &Names,
        heading: Option<String>,
    ) -> Result<usize> {
        let (order, style) = (self.order(), self.style);
        let is_json = self.args.format == Format::Json;
        let mut records = 0;
        to_stdout(|out| {
            if let Some(heading) = heading.filter(|_| !is_json) {
                text::heading(&heading, style, out)?;
            }
            decoded.records().try_for_each(|record| {
                records += 1;
                if is_json {
                    json::record(&record, order, names, decoded.record_format(), out)
                } else {
                    text::write(&record, order, names, style, out)
                }
            })
        })?;
        Ok(records)
    }

    /// Text or JSON, a file for each record.
    fn folder(&self, decoded: &Decoded<'_>, names: &Names, folder: &Path) -> Result<usize> {
        let (order, style, force) = (self.order(), self.style, self.args.force);
        let is_json = self.args.format == Format::Json;
        let extension = if is_json { ".json" } else { "" };
        let name = |record: &Record<'_>| files::name(record) + extension;
        let all: Vec<_> = decoded.records().map(|record| name(&record)).collect();
        files::prepare(folder, &all, force)?;
        for record in decoded.records() {
            files::write(folder, &name(&record), None, force, |out| {
                if is_json {
                    json::record(&record, order, names, decoded.record_format(), out)
                } else {
                    text::file(&record, order, names, out)
                }
            })?;
            if !is_json {
                to_stdout(|out| text::summary(&record, style, out))?;
            }
        }
        Ok(all.len())
    }

    /// Linux's files one after the other, as `tail` prints several; to a terminal without
    /// what it would obey.
    fn linux(
        &self,
        decoded: &Decoded<'_>,
        names: &Names,
        heading: Option<String>,
    ) -> Result<usize> {
        let all = decoded.linux_files(names.symbols());
        for (nth, file) in all.iter().enumerate() {
            let between = if nth > 0 { "\n" } else { "" };
            let heading = heading
                .as_ref()
                .map_or(String::new(), |heading| format!("{heading}: "));
            let mut worth = None;
            to_stdout(|out| {
                writeln!(out, "{between}==> {heading}{} <==", file.name)?;
                worth = Some(match self.style {
                    Style::Plain => file.write_to(out)?,
                    Style::Safe | Style::Colour => file.write_to(&mut Escaped(out))?,
                });
                Ok(())
            })?;
            self.worth(file, worth);
        }
        Ok(all.len())
    }

    fn linux_folder(&self, decoded: &Decoded<'_>, names: &Names, folder: &Path) -> Result<usize> {
        let all = decoded.linux_files(names.symbols());
        let force = self.args.force;
        let paths: Vec<_> = all.iter().map(|file| file.name.clone()).collect();
        files::prepare(folder, &paths, force)?;
        for file in &all {
            let write = |out: &mut dyn Write| file.write_to(out);
            let worth = files::write(folder, &file.name, file.seconds, force, write)?;
            self.worth(file, Some(worth));
        }
        Ok(all.len())
    }

    /// Linux's files have no room for marks: they go to standard error.
    fn worth(&self, file: &LinuxFile<'_>, worth: Option<Worth>) {
        let Some(Worth { trust, unverified }) = worth else {
            return;
        };
        self.note(format_args!("{}: {}", file.name, text::trust(trust)));
        for ranges in text::ranges(&unverified) {
            self.note(format_args!("{}: unverified bytes: {ranges}", file.name));
        }
    }
}

fn damage(zone: ZoneReport) -> Option<(Place, Damage)> {
    match zone.state {
        ZoneState::Damaged(why) => Some((zone.place, why)),
        _ => None,
    }
}

fn no_region(image: &Image, input: &Input, swap: Option<Swap>, doubtful: usize) -> String {
    if swap.is_none()
        && let Some((swap, address)) = Swap::seen(image, 0)
    {
        return format!(
            "{input}: no ramoops region in it, but at {address:#x} a header whose bytes are reversed \
             in each {0}-byte word: --swap {0} puts them right",
            swap.bytes()
        );
    }
    let doubtful = match doubtful {
        0 => String::new(),
        1 => " (1 place is in doubt: --all lists it)".to_owned(),
        number => format!(" ({number} places are in doubt: --all lists them)"),
    };
    format!(
        "{input}: no ramoops region in it{doubtful}; if you know where one is, give its sizes: \
         --offset, --record-size and so on (see --help)"
    )
}

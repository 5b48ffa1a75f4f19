//! The command's arguments.

use std::path::PathBuf;

use clap::ValueEnum;
use nostall_pstore::Writer;

use super::swap::Swap;
use super::{number, region};
use crate::Unpack;

/// Decode the records in the memory of a crashed machine
///
/// Reads memory dumps: raw files, ELF cores and kdump files (makedumpfile, QEMU's
/// dump-guest-memory), LiME and AVML dumps, or the region of Linux's ramoops alone. All may be
/// compressed with gzip, Zstandard, xz or lz4, up to 1 GiB unpacked. Parts of a split dump that are
/// given together are one image.
///
/// Finds the log that every Linux has in its memory (5.10 and later; x86-64, arm64, RISC-V). The
/// machine needs no preparation. The first line of text is the cause of the crash, if the log has
/// one. A line marks the place where each console had stopped, if that is known.
///
/// Finds the region of ramoops and its parameters, and explains the evidence
/// on stderr with -v.
///
/// An option for the region's division (a zone's size, ECC, CPUs, flags or Linux's version) replaces
/// this search. The other parameters then have Linux's defaults: 4096 bytes for each size, no ECC,
/// a trace zone for each CPU.
///
/// Finds log rings of nostall-console and traces of nostall-trace in the same images. Leaves out
/// log records that were already printed, if the ring marks them.
///
/// Finds Linux's persistent ring buffers, too (reserve_mem and trace_instance, 6.12 and later).
/// With --symbols and --event-formats of the crashed kernel, functions and events have names.
///
/// Standard input, pipes and devices are read into memory, up to 256 MiB. Reading fails if no byte
/// arrives in the first 10 seconds, or none in 60 seconds later.
///
/// Images are not changed. Numbers may be decimal or start with 0x, and end with K, M or G.
#[derive(clap::Parser)]
#[command(name = "nostall-postmortem", after_long_help = AFTER)]
pub struct Args {
    /// Memory images: files, directories (all files in them and below), or - for standard input
    #[arg(value_name = "IMAGE", required = true)]
    pub(super) images: Vec<PathBuf>,

    /// Decode every ramoops region and every log of Linux in an image, not only the likeliest with
    /// records. List doubtful places, where ordinary data may resemble an empty region. Also show
    /// banners, records of log rings that were already printed, and traces beside a log of Linux
    #[arg(long)]
    pub(super) all: bool,

    /// Reverse the bytes of each word of the image first: 2, 4 or 8 bytes
    #[arg(long, value_name = "BYTES", value_parser = Swap::parse)]
    pub(super) swap: Option<Swap>,

    /// Compression of dmesg records: deflate, lz4, lz4hc, lzo, zstd or none. The default is to try
    /// each
    #[arg(long, value_name = "NAME", value_parser = packing)]
    pub(super) compression: Option<Unpack>,

    /// Symbols of the crashed kernel: System.map (also gzipped), vmlinux, or a copy of
    /// /proc/kallsyms
    #[arg(long, value_name = "FILE")]
    pub(super) symbols: Option<PathBuf>,

    /// Distance of the crashed kernel from its linked address. The default is the offset in its
    /// log, or the one that fits its trace
    #[arg(long, value_name = "N", value_parser = number::parse, requires = "symbols")]
    pub(super) kaslr_offset: Option<u64>,

    /// Formats of Linux's trace events, for its persistent ring buffer: a copy of tracefs's
    /// directory `events`, or its format files joined to one file
    #[arg(long, value_name = "PATH")]
    pub(super) event_formats: Option<PathBuf>,

    /// Show the trace of each CPU separately, in the order of writing. For stamps that cannot be
    /// compared between CPUs
    #[arg(long)]
    pub(super) per_cpu: bool,

    /// Kernel that wrote the region
    #[arg(long, value_enum, default_value_t)]
    pub(super) writer: By,

    /// The output format
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,

    /// Write each record to a file in DIR, which is created if needed
    ///
    /// Names are Linux's; with --format json, .json is appended. If one of the files exists,
    /// nothing is written without --force.
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,

    /// Overwrite files in DIR
    #[arg(long, requires = "out")]
    pub(super) force: bool,

    /// Print only results and errors: no explanations
    #[arg(long, short)]
    pub(super) quiet: bool,

    /// Explain the evidence for each part, its damage, and with --format linux its trust. The
    /// default is a line for each image
    #[arg(long, short)]
    pub(super) verbose: bool,

    // Last, because its heading applies to all following options.
    #[command(flatten)]
    pub(super) region: region::Args,
}

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: a summary of each record with its trust level, then its contents
    #[default]
    Text,
    /// For programs: JSON lines, one for each region, record and call
    Json,
    /// The files of Linux's /sys/fs/pstore, byte for byte
    Linux,
}

/// Kernel that wrote the region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Stores the header before a record, so the newest trace records may be half written
    #[default]
    Linux,
    /// Stores the header after the record
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
/// Last part of `--help`.
pub const AFTER: &str = "\
Examples:
  nostall postmortem memory.elf
  nostall postmortem memory.elf --symbols System.map --format json
  nostall postmortem -q --all --format json /var/crash |
      jq -r 'select(.text).text'
  nostall postmortem region.bin --record-size 32K --console-size 32K \\
      --ftrace-size 32K --pmsg-size 8K --ecc 1 --cpus 2
  nostall postmortem memory.raw --offset 2G --size 1M --format linux \\
      --out pstore/

Trust levels. Each record has that of its worst byte:
  verified    agrees with its parity
  unchecked   has no parity
  corrected   differed from its parity and was corrected
  unverified  may be anything: failed error correction, was decompressed from
              such bytes, or lies where a damaged header points

Text: lines that start with ==> come from the decoder. A record's first line ends with its trust \
level. Further ==> lines list the ranges of its unverified bytes. In the contents, \\unverified{ \
and \\} enclose these bytes on each line.

Bytes of the crashed machine that could control a terminal or resemble a mark are escaped (\\x1b, \
\\u{202e}, \\xff, \\x5c), in a pipe as well. Files of --out have the contents without the ==> lines.

Lines of a trace are stamp, CPU, function <- caller. Behind them, (suspect) marks a record that may \
be half written, because writing stopped there. (unverified) marks one whose bytes may be anything.

JSON: each line is an object with a type.
crates/records/postmortem/JSON.md explains every word.
  cause      the panic or oops that ended the machine
  kernel_log, kernel_message
             a log of Linux, and each of its records
  region     a decoded region: file, start, geometry, reasons and doubts
  record     kind, trust, stored_bytes, ecc; text with unverified ranges, or the
             number of calls
  call       one record of a trace, after its record line
  ring, log  a log ring of nostall-console, and each of its records
  trace, event
             a trace of nostall-trace, and each of its events
  buffer, entry
             a ring buffer of Linux with its damage, and each of its records
  candidate  a region that is not decoded
  end        the end of an image: file, status, records, message

Linux: the files have no marks. With -v, trust levels and ranges go to stderr.
These files are nostall's own:
  dmesg.txt            Linux's log, as dmesg --raw prints it
  log-nostall-N        a log ring: the lines that the console would have shown
  trace-nostall-N      a trace of nostall-trace: its function graph
  ftrace-ring-N.trace  a ring buffer: the file `trace` after the next boot

Exit status:
  0  records are shown
  1  an image cannot be read, a file of the output exists, or the symbols
     belong to another kernel
  2  wrong options
  3  a region, ring or trace has no record to show
  4  a damaged region or ring has no readable record
  5  nothing is found
  6  the output cannot be written, such as on a full disk
Of several images: the first of 6, 1, 0, 4, 3, 5 that applies to one.
A reader that closes the pipe ends the command with 141, the status of SIGPIPE.";

fn packing(name: &str) -> Result<Unpack, String> {
    match name {
        "none" => Ok(Unpack::Not),
        name => match name.parse() {
            Ok(method) => Ok(Unpack::As(method)),
            Err(error) => Err(format!("{error}")),
        },
    }
}

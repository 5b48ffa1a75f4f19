//! Arguments of `nostall pstore inject`.

use std::path::PathBuf;

use nostall_postmortem::cli::Sizes;
use nostall_pstore::{DumpHeader, LinuxVersion, RecordFormat};

use super::super::number;
use super::dmesg::{self, DmesgCompression};

/// Make an image of persistent memory (Linux's ramoops) from files
///
/// The image is for tests: of programs that read such memory after a crash, or of Linux, which
/// finds the records at its next boot. Sizes that are not given are those of Linux's command line:
/// 4096 bytes each, no ECC, a trace zone for each CPU. If a text does not fit, its start is left
/// out, as in Linux, and a note reports it. Input files are read up to 256 MiB each.
///
/// Numbers may be decimal or start with 0x, and end with K, M or G. The byte order is that of this
/// machine.
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// Image to write
    #[arg(long, value_name = "FILE")]
    pub(super) out: PathBuf,

    /// Overwrite the image if it exists
    #[arg(long)]
    pub(super) force: bool,

    /// Start from a copy of this image
    ///
    /// Each dmesg record goes to the first empty zone. Other contents are appended to those of
    /// their zone. The rest of the file stays as it is.
    #[arg(long, value_name = "IMAGE")]
    pub(super) into: Option<PathBuf>,

    /// Offset of the region in the file
    #[arg(long, value_name = "N", value_parser = number::parse, default_value_t = 0)]
    pub(super) offset: u64,

    /// Size of the region; with --into, the default is the rest of the image
    #[arg(long, value_name = "N", value_parser = number::size, required_unless_present = "into")]
    pub(super) size: Option<usize>,

    /// Number of possible CPUs of the kernel that reads the region
    #[arg(long, value_name = "N", value_parser = number::size, default_value_t = 1)]
    pub(super) cpus: usize,

    /// Version of the kernel that reads the region; the default is this machine's
    ///
    /// The signature of the trace zones depends on it, and so does the order of the zones. Since
    /// Linux 6.2 the trace zones are behind the pmsg zone, before 6.2 in front of it. With --into,
    /// the default is the version that the image shows.
    #[arg(long, value_name = "X.Y.Z")]
    pub(super) linux_version: Option<LinuxVersion>,

    #[command(flatten, next_help_heading = "Zones")]
    pub(super) sizes: Sizes,

    #[command(flatten)]
    pub(super) contents: Contents,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Contents")]
pub(super) struct Contents {
    /// Kernel log for one dmesg record (repeatable)
    ///
    /// The line `Panic#1 Part1` is put before it, unless the log starts with such a line (`Oops#2
    /// Part1`).
    #[arg(long, value_name = "FILE")]
    pub(super) dmesg: Vec<PathBuf>,

    /// Compression of the dmesg records
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    pub(super) compression: DmesgCompression,

    /// Time of the dmesg records, in seconds since 1970; 0 is a clock that was never set
    #[arg(long, value_name = "SECONDS.MICROS", default_value = "0.0",
          value_parser = dmesg::parse_time)]
    pub(super) time: DumpHeader<'static>,

    /// Console output
    #[arg(long, value_name = "FILE")]
    pub(super) console: Option<PathBuf>,

    /// Text that user space wrote to /dev/pmsg0
    #[arg(long, value_name = "FILE")]
    pub(super) pmsg: Option<PathBuf>,

    /// Function trace, in Linux's form (see below)
    #[arg(long, value_name = "FILE")]
    pub(super) ftrace: Option<PathBuf>,

    /// Format of the trace records: 64, 32, arm32 (up to 4 CPUs) or thumb32 (up to 2)
    #[arg(long, default_value_t = RecordFormat::Bits64)]
    pub(super) arch: RecordFormat,
}

const AFTER: &str = "\
Examples:
  nostall pstore inject --out region.bin --size 64K --dmesg dmesg.txt
  nostall pstore inject --out region.bin --size 1M --record-size 64K --ecc 1 \\
      --dmesg oops.txt --dmesg panic.txt --compression deflate \\
      --console console.txt
  nostall pstore inject --out more.bin --into region.bin --record-size 64K \\
      --ecc 1 --dmesg another.txt
  nostall pstore inject --out ram.bin --offset 96M --size 1M \\
      --ftrace-size 256K --cpus 2 --ftrace trace.txt --linux-version 6.1.0

--ftrace reads lines of Linux's ftrace-ramoops-0, and of `nostall postmortem
--format linux`: CPU, time or count, address of the function, address of its
caller. The rest of a line is ignored.
  CPU:0 ts:5701 ffffffff81000010  ffffffff81a00000  do_idle <- cpu_startup_entry";

/// The version of the kernel that runs, if it is Linux.
pub(super) fn running() -> Option<LinuxVersion> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    release.parse().ok()
}

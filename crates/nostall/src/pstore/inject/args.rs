//! Arguments of `nostall pstore inject`.

use std::path::PathBuf;

use nostall_postmortem::cli::Sizes;
use nostall_pstore::{LinuxVersion, RecordFormat};

use super::super::number;
use super::dmesg::{DmesgCompression, Time};

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
    pub(super) out: PathBuf,

    /// Overwrite that file
    #[arg(long)]
    pub(super) force: bool,

    /// Start from a copy of this image
    ///
    /// dmesg records go to its first empty zones, everything else is appended to what
    /// the zones hold; the rest of the file stays as it is.
    #[arg(long, value_name = "IMAGE")]
    pub(super) into: Option<PathBuf>,

    /// Where in the file the region starts
    #[arg(long, value_name = "N", value_parser = number::parse, default_value_t = 0)]
    pub(super) offset: u64,

    /// The region's size; with --into all that follows in the image, unless given
    #[arg(long, value_name = "N", value_parser = number::size, required_unless_present = "into")]
    pub(super) size: Option<usize>,

    /// CPUs that the kernel is to reckon with (possible ones)
    #[arg(long, value_name = "N", value_parser = number::size, default_value_t = 1)]
    pub(super) cpus: usize,

    /// Version of the kernel that is to read the region; this machine's, unless given
    ///
    /// The trace zones carry it. Linux 6.2 and newer has them behind user space's messages, an
    /// older one before. With --into the image shows that, unless this is given.
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
    /// A kernel log; may be given again, for one record each
    ///
    /// Unless its first line is one like Oops#2 Part1, Panic#1 Part1 is put before it.
    #[arg(long, value_name = "FILE")]
    pub(super) dmesg: Vec<PathBuf>,

    /// How to compress dmesg records
    #[arg(long, value_name = "NAME", value_enum, default_value_t)]
    pub(super) compression: DmesgCompression,

    /// When they were written, since 1970; 0 is a clock that was never set
    #[arg(long, value_name = "SECONDS.MICROS", default_value = "0.0")]
    pub(super) time: Time,

    /// The console's output
    #[arg(long, value_name = "FILE")]
    pub(super) console: Option<PathBuf>,

    /// What user space wrote to /dev/pmsg0
    #[arg(long, value_name = "FILE")]
    pub(super) pmsg: Option<PathBuf>,

    /// Function trace: lines as Linux shows them, see below
    #[arg(long, value_name = "FILE")]
    pub(super) ftrace: Option<PathBuf>,

    /// The trace records' format: 64, 32, arm32 (up to 4 CPUs) or thumb32 (up to 2)
    #[arg(long, default_value_t = RecordFormat::Bits64)]
    pub(super) arch: RecordFormat,
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

/// The version of the kernel that runs, if it is Linux.
pub(super) fn running() -> Option<LinuxVersion> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    release.parse().ok()
}

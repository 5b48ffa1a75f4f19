//! `nostall pstore plan`: how Linux divides a region, and its parameters for that.

mod boot;
mod json;
mod region;
mod text;

use anyhow::Result;
use nostall_postmortem::cli::Sizes;
use nostall_pstore::{LinuxVersion, ZoneOrder};

use super::number;
use crate::output::to_stdout;
use region::Plan;

/// Plan a region of persistent memory (Linux's ramoops) before you reserve it
///
/// Shows how Linux divides a region, how much history each zone holds, what Linux
/// rounds or refuses, and the kernel command line or device-tree node that say it.
/// Sizes that are not given are nostall's suggestion: a quarter of the region for the
/// console, a quarter for the trace, a sixteenth for user space's messages, the rest
/// for dmesg records. (What Linux takes unless told is 4096 bytes for each.)
///
/// Nothing is changed. Numbers may be decimal or start with 0x, and end with K, M or
/// G.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// The region's size (ramoops.mem_size)
    #[arg(long, value_name = "N", value_parser = number::size)]
    size: usize,

    /// CPUs that the kernel reckons with: /sys/devices/system/cpu/possible
    #[arg(long, value_name = "N", value_parser = number::size)]
    cpus: usize,

    /// Version of Linux that divides it: 6.2 and newer has the traces last, an older one user
    /// space's messages
    #[arg(long, value_name = "X.Y.Z", default_value = "6.2")]
    linux_version: LinuxVersion,

    /// The region's physical address (ramoops.mem_address)
    #[arg(long, value_name = "N", value_parser = number::parse)]
    address: Option<u64>,

    /// Print the device-tree node alone
    #[arg(long, requires = "address", conflicts_with = "json")]
    device_tree: bool,

    /// Print all of it as one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten, next_help_heading = "Zones")]
    sizes: Sizes,
}

const EXAMPLES: &str = "\
Examples:
  nostall pstore plan --size 1M --cpus 4
  nostall pstore plan --size 2M --cpus 16 --ecc 1 --address 0x8f000000
  nostall pstore plan --size 1M --cpus 8 --console-size 0 --ftrace-size 512K
  nostall pstore plan --size 1M --cpus 4 --address 0x8f000000 --device-tree";

/// Runs the command with these arguments.
///
/// # Errors
///
/// If Linux would refuse such a region.
pub fn run(args: &Args) -> Result<()> {
    let order = ZoneOrder::of(args.linux_version);
    let plan = Plan::new(args.size, args.cpus, order, args.address, &args.sizes)?;
    let text = match (args.json, args.device_tree) {
        (true, _) => json::document(&plan)?,
        (_, true) => boot::device_tree(&plan).unwrap_or_default(),
        (false, false) => text::all(&plan),
    };
    to_stdout(|out| out.write_all(text.as_bytes()))
}

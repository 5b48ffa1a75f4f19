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
/// Shows how Linux divides the region, how much history each zone holds, and which sizes Linux
/// rounds or refuses. Prints the kernel command line or the device-tree node for it. Sizes that are
/// not given are suggested: a quarter of the region for the console and a quarter for the trace.
/// User space's messages get a sixteenth, and dmesg records the rest. (Linux's own default is 4096
/// bytes for each.)
///
/// Changes nothing. Numbers may be decimal or start with 0x, and end with K, M or G.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Size of the region (ramoops.mem_size)
    #[arg(long, value_name = "N", value_parser = number::size)]
    size: usize,

    /// Number of possible CPUs (see /sys/devices/system/cpu/possible)
    #[arg(long, value_name = "N", value_parser = number::size)]
    cpus: usize,

    /// Version of Linux that uses the region: the last zones are the traces since 6.2, and user
    /// space's messages before
    #[arg(long, value_name = "X.Y.Z", default_value = "6.2")]
    linux_version: LinuxVersion,

    /// Physical address of the region (ramoops.mem_address)
    #[arg(long, value_name = "N", value_parser = number::parse)]
    address: Option<u64>,

    /// Print only the device-tree node
    #[arg(long, requires = "address", conflicts_with = "json")]
    device_tree: bool,

    /// Print the plan as one JSON object
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

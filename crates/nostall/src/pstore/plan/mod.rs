//! `nostall pstore plan`: how Linux divides a region, and how to tell it to.

mod boot;
mod json;
mod suggest;
mod text;

use anyhow::{Context, Result};
use nostall_pstore::{Layout, Params};

use super::number;
use super::sizes::Sizes;
use crate::output::to_stdout;

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

    /// The region's physical address (ramoops.mem_address)
    #[arg(long, value_name = "N", value_parser = number::parse)]
    address: Option<u64>,

    /// Print the device-tree node alone
    #[arg(long, requires = "address", conflicts_with = "json")]
    device_tree: bool,

    /// Print all of it as one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    sizes: Sizes,
}

const EXAMPLES: &str = "\
Examples:
  nostall pstore plan --size 1M --cpus 4
  nostall pstore plan --size 2M --cpus 16 --ecc 1 --address 0x8f000000
  nostall pstore plan --size 1M --cpus 8 --console-size 0 --ftrace-size 512K
  nostall pstore plan --size 1M --cpus 4 --address 0x8f000000 --device-tree";

/// A page of the machines that Linux runs on; of some, the smallest.
const PAGE: u64 = 4096;

/// A region, planned.
struct Plan {
    layout: Layout,
    address: Option<u64>,
    /// Which sizes are nostall's suggestion, by Linux's names.
    suggested: Vec<&'static str>,
    /// What a person should know.
    notes: Vec<String>,
}

/// Does what the arguments say.
///
/// # Errors
///
/// If Linux would refuse such a region.
pub fn run(args: &Args) -> Result<()> {
    let plan = Plan::new(args)?;
    let text = match (args.json, args.device_tree) {
        (true, _) => json::document(&plan)?,
        (_, true) => boot::device_tree(&plan).unwrap_or_default(),
        (false, false) => text::all(&plan),
    };
    to_stdout(|out| out.write_all(text.as_bytes()))
}

impl Plan {
    fn new(args: &Args) -> Result<Self> {
        let (params, suggested) = suggest::params(args.size, args.cpus, &args.sizes);
        let layout = Layout::new(&params)?;
        if let Some(address) = args.address {
            address
                .checked_add(args.size as u64)
                .context("--address: the region would reach beyond the end of memory")?;
        }
        let mut notes: Vec<_> = layout.notes().map(|note| note.to_string()).collect();
        if params.ftrace_size == 0 && args.sizes.ftrace_size.is_none() {
            notes.push(format!(
                "no trace zones: a quarter of the region, divided by {} CPUs, is too little",
                args.cpus
            ));
        }
        if params.ftrace_size > 0 && params.ecc > 0 {
            notes.push(
                "with ECC, Linux's own view of the trace is garbled; nostall postmortem reads it"
                    .to_owned(),
            );
        }
        let whole = [
            ("--address", args.address),
            ("--size", Some(args.size as u64)),
        ];
        for (name, number) in whole {
            if let Some(number) = number.filter(|number| !number.is_multiple_of(PAGE)) {
                notes.push(format!(
                    "{name} {number:#x} is not a multiple of {PAGE}: Linux maps whole pages, so \
                     keep everything else out of the first and the last one"
                ));
            }
        }
        Ok(Self {
            layout,
            address: args.address,
            suggested,
            notes,
        })
    }

    const fn params(&self) -> &Params {
        self.layout.params()
    }
}

//! `nostall pci list`: the devices that are there, decoded.

use std::io;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use nostall_pci::{Function, Names};

use super::json::{self, Device};
use super::source::Source;
use super::{text, tree};
use crate::output::{Style, note, to_stdout};

/// List the PCI devices of this host, or of another host's dump
///
/// Prints one line per device, as `lspci -nn` does. Writes to no device. Names come from the
/// system's pci.ids, as in lspci, or else from a built-in list.
///
/// A dump is the output of `lspci -xxxx`, as root. Output of -xxx has no extended capabilities, and
/// output of -x no capabilities. Text around the registers is ignored.
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// Read a copy of /sys/bus/pci/devices, or of /sys, in DIR
    #[arg(long, value_name = "DIR", conflicts_with = "dump")]
    sysfs: Option<PathBuf>,

    /// Read the output of `lspci -xxxx` in FILE; - is standard input
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,

    /// Show each device below its bridge
    #[arg(long, conflicts_with_all = ["json", "verbose"])]
    tree: bool,

    /// Print all information as one JSON object
    #[arg(long)]
    json: bool,

    /// Also decode registers: BARs, buses and windows of bridges, capabilities
    #[arg(short, long)]
    verbose: bool,
}

const AFTER: &str = "\
Examples:
  nostall pci list
  nostall pci list -v
  nostall pci list --tree
  lspci -xxxx > lspci.txt           # as root, on the machine in question
  nostall pci list --dump lspci.txt
  ssh root@machine lspci -xxxx | nostall pci list --tree --dump -

Sizes of BARs are known on a Linux host and in a copy of its sysfs. A dump has
none, because a BAR shows its size only after a write.

JSON: an object has schema (1), source (kind: sysfs or dump; name), devices. A
device has address, vendor and device (four hex digits), class (six: base,
sub-class, interface), revision, their names (null if unknown), header
(endpoint, bridge, cardbus, unknown), multi_function, interrupt (null, or pin,
line), subsystem (null, or vendor, device and their names), port (null, or its
type in PCI Express, such as root-port; an impossible type is corrected), buses
(null, or primary, secondary, subordinate: two hex digits), windows (kind: io,
memory, prefetchable; first, last), bars (register, kind: io, memory,
prefetchable, rom; bits, address, size: null or bytes), capabilities (id,
extended, name: null if unknown, register, version: null if not extended) and
problems (a list of faults and unreadable parts).

Exit status: 0 if at least one device is listed, 1 if not.";

/// Runs the command with these arguments.
///
/// # Errors
///
/// If there is nothing to list, or it cannot be written.
pub fn run(args: &Args) -> Result<()> {
    let source = match (&args.dump, &args.sysfs) {
        (Some(file), _) => Source::dump(file)?,
        (None, Some(folder)) => Source::sysfs(folder)?,
        (None, None) => Source::host()?,
    };
    let names = Names::of_the_system();
    let mut devices = devices(&source, &names);
    let wrong = json::correct_ports(&mut devices);
    ensure!(
        !devices.is_empty(),
        "{}: no function here can be read",
        source.name()
    );
    if args.verbose || args.json {
        source.say_what_is_missing();
    }
    if args.json {
        let document = json::document(&source, &devices)?;
        return to_stdout(|out| out.write_all(document.as_bytes()));
    }
    if !args.verbose {
        for (address, why) in wrong {
            note(format_args!("{address}: {why}"));
        }
    }
    let style = Style::of(&io::stdout());
    to_stdout(|out| match (args.tree, args.verbose) {
        (true, _) => tree::write(&devices, style, out),
        (false, verbose) => {
            let segments = devices.iter().any(|device| device.address.segment() != 0);
            devices.iter().try_for_each(|device| {
                text::line(device, segments, verbose, style, out)?;
                if verbose {
                    text::details(device, style, out)?;
                    writeln!(out)?;
                }
                Ok(())
            })
        }
    })
}

/// Those that can be read; of the others it is said why not.
fn devices(source: &Source, names: &Names) -> Vec<Device> {
    let mut devices = Vec::new();
    for address in source.functions() {
        let access = source.access();
        match Function::read_listed(access, *address) {
            Ok(Some(function)) => {
                let resources = source.resources(*address);
                devices.push(Device::read(access, &function, resources.as_ref(), names));
            }
            // In the list, but without an answer.
            Ok(None) => note(format_args!("{address} is left out: it does not answer")),
            Err(error) => note(format_args!("{address} is left out: {error}")),
        }
    }
    devices
}

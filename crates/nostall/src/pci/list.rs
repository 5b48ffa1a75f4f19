//! `nostall pci list`: the devices that are there, decoded.

use std::io;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use nostall_pci::{Function, Names, Unread};

use super::json::{self, Device};
use super::source::Source;
use super::{text, tree};
use crate::output::{Style, note, to_stdout};

/// List PCI devices: this host's, or those in a dump of another's
///
/// Prints a line for each, as `lspci -nn` does. Nothing is written to any device. Names are
/// those of the system's pci.ids, as lspci's are, or else of a list that is built in.
///
/// A dump is what `lspci -xxxx` prints, as root; -xxx has no extended capabilities, -x no
/// capabilities at all. Text around the registers does not matter.
#[derive(clap::Args)]
#[command(after_long_help = AFTER)]
pub struct Args {
    /// Read the devices' folders in DIR instead of /sys/bus/pci/devices: a copy of it, or
    /// of /sys
    #[arg(long, value_name = "DIR", conflicts_with = "dump")]
    sysfs: Option<PathBuf>,

    /// Read what `lspci -xxxx` printed; - is standard input
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,

    /// Show how bridges connect them
    #[arg(long, conflicts_with_all = ["json", "verbose"])]
    tree: bool,

    /// Print all that is known as one JSON object
    #[arg(long)]
    json: bool,

    /// Also show what is in their registers: BARs, buses and windows of bridges,
    /// capabilities
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

Sizes of BARs are known on a Linux host and in a copy of its sysfs, not from a
dump: a register has to be written to show its size.

JSON: an object has schema (1), source (kind: sysfs or dump; name), devices. A
device has address, vendor and device (four hex digits), class (six: base,
sub-class, interface), revision, their names (null if unknown), header
(endpoint, bridge, cardbus, unknown), multi_function, interrupt (null, or pin,
line), subsystem (null, or vendor, device and their names), port (null, or its
part in PCI Express, such as root-port; corrected if it cannot be), buses (null,
or primary, secondary, subordinate: two hex digits), windows (kind: io, memory,
prefetchable; first, last), bars (register, kind: io, memory, prefetchable, rom;
bits, address, size: null or bytes), capabilities (id, extended, name: null if
unknown, register, version: null if not extended) and problems, a list of what
is wrong with it or could not be read.

Exit status: 0 if there was a device to list, 1 if not.";

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
            Err(Unread::Access(error)) => note(format_args!("{address} is left out: {error}")),
            Err(error) => note(format_args!("{address} is left out: it {error}")),
        }
    }
    devices
}

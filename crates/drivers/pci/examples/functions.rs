//! Lists the PCI functions of this Linux host, or those in a dump of another machine, as
//! `lspci -Dnn` does, and their capabilities.
//!
//! ```text
//! cargo run -p nostall-pci --features std --example functions
//! lspci -xxxx > lspci.txt     # as root, on the other machine
//! cargo run -p nostall-pci --features std --example functions -- lspci.txt
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use nostall_pci::sysfs::DEVICES;
use nostall_pci::{Address, Capabilities, ConfigAccess, Dump, Function, Names, Sysfs};

fn main() -> Result<(), Box<dyn Error>> {
    let out = &mut io::stdout().lock();
    match std::env::args().nth(1) {
        Some(file) => {
            let dump = Dump::read(BufReader::new(File::open(file)?))?;
            list(&dump, dump.functions(), out)?;
        }
        None => {
            let host = Sysfs::open(Path::new(DEVICES))?;
            list(&host, host.functions(), out)?;
        }
    }
    Ok(())
}

/// Writes each function with its names, and the names of its capabilities.
///
/// A kernel passes its `Ecam` window or its `ConfigPorts` here, and takes the addresses from a
/// `Scan`.
///
/// # Errors
///
/// Returns the error of `out`.
pub fn list(
    access: &impl ConfigAccess,
    addresses: &[Address],
    out: &mut impl Write,
) -> io::Result<()> {
    let names = Names::of_the_system();
    for &address in addresses {
        let function = match Function::read_listed(access.at(address)) {
            Ok(Some(function)) => function,
            Ok(None) => continue,
            Err(error) => {
                writeln!(out, "{address}: {error}")?;
                continue;
            }
        };
        writeln!(out, "{}", line(&function, &names))?;
        // A dump without these registers, or a user other than root, ends the list early.
        for capability in Capabilities::new(access, &function).map_while(Result::ok) {
            let name = capability.name().unwrap_or("unknown capability");
            writeln!(out, "    {name}")?;
        }
    }
    Ok(())
}

fn line(function: &Function, names: &Names) -> String {
    let Function {
        address,
        vendor,
        device,
        class,
        revision,
        ..
    } = *function;
    let class_name = names.subclass(class.base(), class.sub());
    let class_name = class_name.or_else(|| names.class(class.base()));
    let class_name = class_name.as_deref().unwrap_or("Class");
    let maker = names.vendor(vendor);
    let maker = maker.map_or_else(String::new, |name| format!("{name} "));
    let name = names.device(vendor, device);
    let name = name.as_deref().unwrap_or("Device");
    let revision = match revision {
        0 => String::new(),
        _ => format!(" (rev {revision:02x})"),
    };
    format!("{address} {class_name} [{class}]: {maker}{name} [{vendor:04x}:{device:04x}]{revision}")
}

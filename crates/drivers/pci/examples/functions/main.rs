//! Lists the PCI functions of this Linux host, or those in a dump of another machine, as
//! `lspci -Dn` does, and their capabilities.
//!
//! ```text
//! cargo run -p nostall-pci --example functions
//! lspci -xxxx > lspci.txt     # as root, on the other machine
//! cargo run -p nostall-pci --example functions -- lspci.txt
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use nostall_pci::{Address, Capabilities, ConfigAccess, Function};

use self::dump::Dump;
use self::sysfs::{DEVICES, Sysfs};

pub mod dump;
pub mod sysfs;

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

/// Writes each function's numbers, and the names of its capabilities.
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
    for &address in addresses {
        let function = match Function::read_listed(access.at(address)) {
            Ok(Some(function)) => function,
            Ok(None) => continue,
            Err(error) => {
                writeln!(out, "{address}: {error}")?;
                continue;
            }
        };
        match function.revision {
            0 => writeln!(out, "{function}")?,
            revision => writeln!(out, "{function} (rev {revision:02x})")?,
        }
        // A dump without these registers, or a user other than root, ends the list early.
        for capability in Capabilities::new(access, &function).map_while(Result::ok) {
            let name = capability.name().unwrap_or("unknown capability");
            writeln!(out, "    {name}")?;
        }
    }
    Ok(())
}

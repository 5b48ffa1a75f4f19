//! Lists the PCI functions of this Linux host, or those in a dump of another machine.
//!
//! ```text
//! cargo run -p nostall-pci --features std --example functions
//! lspci -xxxx > lspci.txt     # as root, on the other machine
//! cargo run -p nostall-pci --features std --example functions -- lspci.txt
//! ```

use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use nostall_pci::sysfs::DEVICES;
use nostall_pci::{Address, Capabilities, ConfigAccess, Dump, Function, Names, Sysfs};

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(file) => {
            let dump = Dump::read(BufReader::new(File::open(file)?))?;
            list(&dump, dump.functions());
        }
        None => {
            let host = Sysfs::open(Path::new(DEVICES))?;
            list(&host, host.functions());
        }
    }
    Ok(())
}

/// Prints each function, with its vendor's name and the names of its capabilities.
///
/// A kernel passes its `Ecam` window or its `ConfigPorts` here, and takes the addresses from a
/// `Scan`.
fn list(access: &impl ConfigAccess, addresses: &[Address]) {
    let names = Names::of_the_system();
    for &address in addresses {
        let function = match Function::read_listed(access, address) {
            Ok(Some(function)) => function,
            Ok(None) => continue,
            Err(error) => {
                println!("{address}: {error}");
                continue;
            }
        };
        let vendor = names.vendor(function.vendor);
        println!(
            "{function} {}",
            vendor.as_deref().unwrap_or("unknown vendor")
        );
        // A dump without these registers, or a user other than root, ends the list early.
        for capability in Capabilities::new(access, &function).map_while(Result::ok) {
            println!("    {}", capability.name().unwrap_or("unknown capability"));
        }
    }
}

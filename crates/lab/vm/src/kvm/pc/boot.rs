//! The guest's RAM and its initial contents (PVH: Xen's docs/misc/pvh.pandoc).

use std::io::Cursor;

use linux_loader::configurator::pvh::PvhBootConfigurator;
use linux_loader::configurator::{BootConfigurator, BootParams};
use linux_loader::loader::KernelLoader;
use linux_loader::loader::elf::start_info::{
    hvm_memmap_table_entry, hvm_modlist_entry, hvm_start_info,
};
use linux_loader::loader::elf::{Elf, PvhBootCapability};
use vm_memory::{Bytes, FileOffset, GuestAddress};

use super::acpi;
use super::pci::{BUSES, ECAM};
use super::serial::{BASE, REGISTERS, STRIDE};
use super::vm::Memory;
use crate::Error;
use crate::guest::Guest;

// Addresses below 1 MiB. The kernel uses 0x8000 to start other CPUs.
pub const START_INFO: u64 = 0x6000;
const MODULES: u64 = 0x6100;
const MEMORY_MAP: u64 = 0x7000;
const COMMAND_LINE: u64 = 0x2_0000;
/// Address at which a PC's firmware stores its tables.
const TABLES: u64 = 0xe_0000;

/// End of a PC's low memory, and start of the memory above it.
const LOW: u64 = 0xa_0000;
const HIGH: u64 = 0x10_0000;

/// Start of the devices; RAM ends below.
const DEVICES: u64 = 0xc000_0000;

const UART_SIZE: u64 = STRIDE * REGISTERS as u64;
const ECAM_SIZE: u64 = (*BUSES.end() as u64 + 1) << 20;

/// Size limit for the command line, including the NUL.
const LONGEST_COMMAND_LINE: usize = 4096;

/// Magic number, from Xen's include/public/arch-x86/hvm/start_info.h.
const MAGIC: u32 = 0x336e_c578;

// Types of memory map entries.
const RAM: u32 = 1;
const RESERVED: u32 = 2;
const ACPI_TABLES: u32 = 3;

/// Allocates the guest's RAM, or maps the RAM that outlives the guest.
pub fn memory(guest: &Guest<'_>) -> Result<Memory, Error> {
    let size = guest.mebibytes() << 20;
    if size > DEVICES {
        return Err(unbootable(format!(
            "{} MiB of RAM: the machine has room for {}",
            size >> 20,
            DEVICES >> 20
        )));
    }
    let file = guest.ram.map(|ram| ram.file.share()).transpose()?;
    let range = (
        GuestAddress(0),
        size as usize,
        file.map(|file| FileOffset::new(file, 0)),
    );
    Memory::from_ranges_with_files([range]).map_err(|error| unbootable(format!("no RAM: {error}")))
}

/// Loads kernel, input, start info and tables, and returns the kernel's entry address.
pub fn load(memory: &Memory, guest: &Guest<'_>, command_line: &str) -> Result<u64, Error> {
    let size = guest.mebibytes() << 20;
    let (entry, end) = load_kernel(memory, guest)?;
    let (tables, rsdp) = acpi::tables(TABLES);
    put(memory, &tables, TABLES)?;
    let module = place(guest.input, end, size)?;
    if let Some(at) = module {
        put(memory, guest.input, at)?;
    }
    let range = |addr, end, type_| hvm_memmap_table_entry {
        addr,
        size: end - addr,
        type_,
        reserved: 0,
    };
    let memory_map = [
        range(0, LOW, RAM),
        range(TABLES, HIGH, ACPI_TABLES),
        range(HIGH, size, RAM),
        // Reserved even if the serial port is elsewhere.
        range(BASE, BASE + UART_SIZE, RESERVED),
        // A kernel uses ECAM only where it is reserved (PCI Firmware 3.0, 4.1.2).
        range(ECAM, ECAM + ECAM_SIZE, RESERVED),
    ];
    let module = module.map(|at| (at, guest.input.len() as u64));
    start_info(memory, command_line, module, &memory_map, rsdp)?;
    Ok(entry)
}

fn put(memory: &Memory, bytes: &[u8], at: u64) -> Result<(), Error> {
    memory
        .write_slice(bytes, GuestAddress(at))
        .map_err(|error| unbootable(format!("no room in its RAM: {error}")))
}

/// Writes the start info and its structures. A module has an address and a size.
fn start_info(
    memory: &Memory,
    command_line: &str,
    module: Option<(u64, u64)>,
    memory_map: &[hvm_memmap_table_entry],
    rsdp: u64,
) -> Result<(), Error> {
    if command_line.len() >= LONGEST_COMMAND_LINE {
        let len = command_line.len();
        return Err(unbootable(format!("a command line of {len} bytes")));
    }
    put(memory, command_line.as_bytes(), COMMAND_LINE)?;
    put(memory, &[0], COMMAND_LINE + command_line.len() as u64)?;
    let modules: Vec<_> = module
        .iter()
        .map(|&(paddr, size)| hvm_modlist_entry {
            paddr,
            size,
            ..Default::default()
        })
        .collect();
    let start_info = hvm_start_info {
        magic: MAGIC,
        version: 1,
        nr_modules: modules.len() as u32,
        modlist_paddr: if modules.is_empty() { 0 } else { MODULES },
        cmdline_paddr: COMMAND_LINE,
        rsdp_paddr: rsdp,
        memmap_paddr: MEMORY_MAP,
        memmap_entries: memory_map.len() as u32,
        ..Default::default()
    };
    let mut parameters = BootParams::new(&start_info, GuestAddress(START_INFO));
    parameters.set_sections(memory_map, GuestAddress(MEMORY_MAP));
    if !modules.is_empty() {
        parameters.set_modules(&modules, GuestAddress(MODULES));
    }
    PvhBootConfigurator::write_bootparams(&parameters, memory)
        .map_err(|error| unbootable(error.to_string()))
}

/// Loads the kernel, and returns its PVH entry and its end.
fn load_kernel(memory: &Memory, guest: &Guest<'_>) -> Result<(u64, u64), Error> {
    let loaded = load_elf(memory, guest.kernel)?;
    if guest.ram.is_none() {
        return Ok(loaded);
    }
    // A previous guest may have left data where this one expects zeros, which the ELF loader does
    // not write.
    let end = loaded.1.min(guest.mebibytes() << 20);
    let zeros = vec![0; end.saturating_sub(HIGH) as usize];
    memory
        .write_slice(&zeros, GuestAddress(HIGH))
        .map_err(|error| unbootable(error.to_string()))?;
    load_elf(memory, guest.kernel)
}

/// Loads an ELF file, and returns its PVH entry and its end.
fn load_elf(memory: &Memory, kernel: &[u8]) -> Result<(u64, u64), Error> {
    let above = Some(GuestAddress(HIGH));
    let loaded = Elf::load(memory, None, &mut Cursor::new(kernel), above)
        .map_err(|error| unbootable(format!("not a kernel: {error}")))?;
    match loaded.pvh_boot_cap {
        PvhBootCapability::PvhEntryPresent(entry) => Ok((entry.0, loaded.kernel_end)),
        _ => Err(unbootable("the kernel has no PVH entry")),
    }
}

/// Returns the highest address at which `input` fits; `None` without input.
fn place(input: &[u8], kernel_end: u64, size: u64) -> Result<Option<u64>, Error> {
    if input.is_empty() {
        return Ok(None);
    }
    let start = size.checked_sub(input.len() as u64).map(|at| at & !0xfff);
    match start.filter(|&start| start >= kernel_end.max(HIGH)) {
        Some(start) => Ok(Some(start)),
        None => Err(unbootable("kernel and input do not fit into its RAM")),
    }
}

pub fn unbootable(why: impl Into<String>) -> Error {
    Error::Unbootable(why.into())
}

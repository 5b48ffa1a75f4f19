//! Contents of the guest's RAM when Linux starts, according to the 64-bit boot protocol (Linux:
//! Documentation/arch/x86/boot.rst; quoted names are its sections).

use std::io::Cursor;

use linux_loader::loader::KernelLoader;
use linux_loader::loader::bootparam::{boot_e820_entry, boot_params, setup_header};
use linux_loader::loader::bzimage::BzImage;
use linux_loader::loader::elf::start_info::hvm_memmap_table_entry;
use vm_memory::{ByteValued, Bytes, GuestAddress, GuestMemoryMmap};

use super::acpi::{self, Description};
use crate::Error;
use crate::kvm::pc::Memory;
use crate::kvm::pc::boot::{self, DEVICES, HIGH, LOW, TABLES, unbootable};

// Addresses below 1 MiB.
const DESCRIPTORS: u64 = 0x500;
pub const ZERO_PAGE: u64 = 0x1_0000;
/// Top-level page table, followed by the next level and one table for each GiB.
const PAGE_TABLES: u64 = 0x1_1000;
const COMMAND_LINE: u64 = 0x2_0000;

/// Address of the RAM that does not fit below the devices.
const FOUR_GIB: u64 = 1 << 32;

/// Maximum RAM size in bytes. PCI's 64-bit window starts at twice this address.
const MOST_MEMORY: u64 = 1 << 37;

/// Minimum RAM size in bytes: Linux itself needs some tens of MiB.
const LEAST_MEMORY: u64 = 16 << 20;

/// Requirements of a bzImage: protocol version and load flag. `header` checks them.
const PROTOCOL_2_12: u16 = 0x020c;
const KERNEL_64: u16 = 1 << 0;
/// "Real-mode code: loader type": a loader without an assigned number.
const UNKNOWN_LOADER: u8 = 0xff;

// Types of memory map entries (ACPI 6.5, table 15.4).
const RAM: u32 = 1;
const RESERVED: u32 = 2;
const ACPI_TABLES: u32 = 3;

/// Linux image to boot.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    pub kernel: &'a [u8],
    pub initrd: &'a [u8],
    pub command_line: &'a str,
    /// Size of RAM in bytes.
    pub memory: u64,
}

/// Initial state of the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Long mode, with RSI pointing to the zero page.
    Long(LongMode),
    /// PVH, as in [`boot`]: the 32-bit entry address.
    Pvh(u64),
}

/// Long mode as in the protocol: identity-mapped memory and flat segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongMode {
    pub entry: u64,
    pub page_tables: u64,
    pub descriptors: u64,
    pub descriptors_limit: u16,
}

/// Allocates the guest's RAM: a part below the devices, and the rest above 4 GiB.
pub fn memory(size: u64) -> Result<Memory, Error> {
    if !(LEAST_MEMORY..=MOST_MEMORY).contains(&size) || !size.is_multiple_of(4096) {
        let [least, most] = [LEAST_MEMORY, MOST_MEMORY].map(|bytes| bytes >> 20);
        return Err(unbootable(format!(
            "{size} bytes of RAM: use whole pages, from {least} to {most} MiB"
        )));
    }
    let ranges: Vec<_> = ranges(size)
        .into_iter()
        .map(|(start, length)| (GuestAddress(start), length as usize))
        .collect();
    GuestMemoryMmap::from_ranges(&ranges).map_err(|error| unbootable(format!("no RAM: {error}")))
}

/// Returns the start and length of each range of RAM.
fn ranges(size: u64) -> Vec<(u64, u64)> {
    let low = size.min(DEVICES);
    let mut ranges = vec![(0, low)];
    if size > low {
        ranges.push((FOUR_GIB, size - low));
    }
    ranges
}

/// Loads kernel, initrd, command line and tables, and returns the CPU's initial state.
pub fn load(memory: &Memory, image: &Image<'_>, description: &Description) -> Result<Entry, Error> {
    let (tables, rsdp) = acpi::tables(description, TABLES);
    put(memory, &tables, TABLES)?;
    let map = memory_map(image.memory, description);
    if image.kernel.starts_with(b"\x7fELF") {
        return load_elf(memory, image, &map, rsdp);
    }
    let header = load_bzimage(memory, image)?;
    put_command_line(memory, image.command_line, header.cmdline_size)?;
    let at = kernel_address(&header, image)?;
    let initrd = initrd_address(&header, at, image)?;
    put(memory, image.initrd, initrd)?;
    let zero_page = zero_page(header, (initrd, image.initrd.len() as u64), &map, rsdp)?;
    put(memory, zero_page.as_slice(), ZERO_PAGE)?;
    put(memory, &page_tables(), PAGE_TABLES)?;
    let descriptors: Vec<u8> = DESCRIPTOR_TABLE
        .iter()
        .flat_map(|d| d.to_le_bytes())
        .collect();
    put(memory, &descriptors, DESCRIPTORS)?;
    Ok(Entry::Long(LongMode {
        entry: at + ENTRY_64,
        page_tables: PAGE_TABLES,
        descriptors: DESCRIPTORS,
        descriptors_limit: descriptors.len() as u16 - 1,
    }))
}

/// "64-bit Boot Protocol": offset of the entry from the load address.
const ENTRY_64: u64 = 0x200;

/// Global descriptor table: null, unused, `__BOOT_CS` (64 bits), `__BOOT_DS`. The protocol defines
/// the latter two (bits: Intel SDM volume 3, 3.4.5).
const DESCRIPTOR_TABLE: [u64; 4] = [0, 0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];

fn put(memory: &Memory, bytes: &[u8], at: u64) -> Result<(), Error> {
    memory
        .write_slice(bytes, GuestAddress(at))
        .map_err(|error| unbootable(format!("no room in its RAM: {error}")))
}

fn put_command_line(memory: &Memory, text: &str, most: u32) -> Result<(), Error> {
    // The size in the kernel's header excludes the NUL. The space below 1 MiB limits it further.
    let most = (most as usize).min(0x1_0000);
    if text.len() > most || text.contains('\0') {
        let len = text.len();
        return Err(unbootable(format!(
            "a command line of {len} bytes; this kernel accepts {most} without a NUL"
        )));
    }
    put(memory, text.as_bytes(), COMMAND_LINE)?;
    put(memory, &[0], COMMAND_LINE + text.len() as u64)
}

/// Loads the kernel at its preferred address, and returns its header.
fn load_bzimage(memory: &Memory, image: &Image<'_>) -> Result<setup_header, Error> {
    let header = header(image.kernel)?;
    let at = kernel_address(&header, image)?;
    let mut file = Cursor::new(image.kernel);
    BzImage::load(memory, Some(GuestAddress(at)), &mut file, None)
        .map_err(|error| unbootable(format!("not a whole bzImage: {error}")))?;
    Ok(header)
}

/// Returns a bzImage's header for the zero page. It ends at the target of the jump at 0x200
/// ("Details of Header Fields"); later bytes are zeros.
pub fn header(kernel: &[u8]) -> Result<setup_header, Error> {
    const START: usize = 0x1f1;
    const JUMP: usize = 0x201;
    let not = |why: &str| unbootable(format!("not a bzImage for this machine: {why}"));
    let end = kernel
        .get(JUMP)
        .map_or(0, |&jump| JUMP + 1 + usize::from(jump));
    let Some(bytes) = kernel.get(START..end) else {
        return Err(not("it is too short"));
    };
    let mut header = setup_header::default();
    let size = size_of::<setup_header>();
    let bytes = &bytes[..bytes.len().min(size)];
    header.as_mut_slice()[..bytes.len()].copy_from_slice(bytes);
    if { header.header } != u32::from_le_bytes(*b"HdrS") || { header.boot_flag } != 0xaa55 {
        return Err(not("it has no header"));
    }
    if { header.version } < PROTOCOL_2_12 || { header.xloadflags } & KERNEL_64 == 0 {
        return Err(not(
            "it has no 64-bit entry: use Linux 3.8 or newer for x86-64",
        ));
    }
    Ok(header)
}

/// Returns the kernel's load address: its preferred one if there is room, otherwise the lowest one
/// allowed.
fn kernel_address(header: &setup_header, image: &Image<'_>) -> Result<u64, Error> {
    let (likes, needs) = ({ header.pref_address }, room(header, image));
    let low = image.memory.min(DEVICES);
    let fits = |at: u64| at >= HIGH && at.checked_add(needs).is_some_and(|end| end <= low);
    if fits(likes) {
        return Ok(likes);
    }
    let alignment = u64::from(header.kernel_alignment).max(1);
    let lowest = HIGH.next_multiple_of(alignment);
    if header.relocatable_kernel != 0 && fits(lowest) {
        return Ok(lowest);
    }
    let lowest = if header.relocatable_kernel != 0 {
        lowest
    } else {
        likes
    };
    let least = lowest.saturating_add(needs).div_ceil(1 << 20);
    Err(unbootable(format!(
        "the kernel does not fit into {} MiB of RAM: it needs {least}",
        low >> 20
    )))
}

/// Returns the size of memory that the kernel occupies before it reads the memory map.
fn room(header: &setup_header, image: &Image<'_>) -> u64 {
    u64::from(header.init_size).max(image.kernel.len() as u64)
}

/// Returns the initrd's load address, as high as possible; 0 if there is no initrd.
fn initrd_address(header: &setup_header, kernel: u64, image: &Image<'_>) -> Result<u64, Error> {
    if image.initrd.is_empty() {
        return Ok(0);
    }
    let end = (u64::from(header.initrd_addr_max) + 1).min(image.memory.min(DEVICES));
    let start = end
        .checked_sub(image.initrd.len() as u64)
        .map(|at| at & !0xfff);
    let lowest = kernel + room(header, image);
    start.filter(|&start| start >= lowest).ok_or_else(|| {
        let needs = (lowest + image.initrd.len() as u64).div_ceil(1 << 20);
        unbootable(format!(
            "kernel and initrd do not fit below {} MiB: they need {needs}",
            end >> 20
        ))
    })
}

/// Returns the memory map: start, end and type of each entry.
fn memory_map(size: u64, description: &Description) -> Vec<(u64, u64, u32)> {
    let mut map = vec![
        (0, LOW, RAM),
        (TABLES, HIGH, ACPI_TABLES),
        (HIGH, size.min(DEVICES), RAM),
    ];
    if let acpi::Configuration::Ecam(base) = description.configuration {
        let size = (u64::from(description.last_bus) + 1) << 20;
        map.push((base.into(), u64::from(base) + size, RESERVED));
    }
    let above = ranges(size).into_iter().skip(1);
    map.extend(above.map(|(start, length)| (start, start + length, RAM)));
    map
}

/// Returns the "zero page".
fn zero_page(
    header: setup_header,
    (initrd, initrd_len): (u64, u64),
    map: &[(u64, u64, u32)],
    rsdp: u64,
) -> Result<boot_params, Error> {
    // Both values are below 3 GiB.
    let word = |value: u64| u32::try_from(value).map_err(|_| unbootable("an initrd too large"));
    let mut page = boot_params {
        hdr: header,
        acpi_rsdp_addr: rsdp,
        ..Default::default()
    };
    page.hdr.type_of_loader = UNKNOWN_LOADER;
    page.hdr.cmd_line_ptr = COMMAND_LINE as u32;
    page.hdr.ramdisk_image = word(initrd)?;
    page.hdr.ramdisk_size = word(initrd_len)?;
    page.e820_entries = map.len() as u8;
    let mut table = page.e820_table;
    for (entry, &(addr, end, kind)) in table.iter_mut().zip(map) {
        *entry = boot_e820_entry {
            addr,
            size: end - addr,
            r#type: kind,
        };
    }
    page.e820_table = table;
    Ok(page)
}

/// Returns page tables that identity-map the first 4 GiB with 2 MiB pages (Intel SDM volume 3,
/// 4.5).
fn page_tables() -> Vec<u8> {
    const GIBS: u64 = 4;
    const ENTRIES: u64 = 512;
    const TABLE: u64 = 0x1000;
    const PRESENT_WRITABLE: u64 = 0b11;
    const LARGE: u64 = 1 << 7;
    let pointers = PAGE_TABLES + TABLE;
    let directories = pointers + TABLE;
    let top = [pointers | PRESENT_WRITABLE];
    let middle = (0..GIBS).map(|n| (directories + n * TABLE) | PRESENT_WRITABLE);
    let pages = (0..GIBS * ENTRIES).map(|n| n << 21 | LARGE | PRESENT_WRITABLE);
    let padded = |entries: Vec<u64>| {
        let empty = ENTRIES as usize - entries.len();
        entries.into_iter().chain(std::iter::repeat_n(0, empty))
    };
    padded(top.to_vec())
        .chain(padded(middle.collect()))
        .chain(pages)
        .flat_map(u64::to_le_bytes)
        .collect()
}

/// Loads a vmlinux with a PVH entry.
fn load_elf(
    memory: &Memory,
    image: &Image<'_>,
    map: &[(u64, u64, u32)],
    rsdp: u64,
) -> Result<Entry, Error> {
    let (entry, end) = boot::load_elf(memory, image.kernel)?;
    let low = image.memory.min(DEVICES);
    let initrd = boot::place(image.initrd, end, low)?;
    if let Some(at) = initrd {
        put(memory, image.initrd, at)?;
    }
    let ranges: Vec<_> = map
        .iter()
        .map(|&(addr, end, type_)| hvm_memmap_table_entry {
            addr,
            size: end - addr,
            type_,
            reserved: 0,
        })
        .collect();
    let module = initrd.map(|at| (at, image.initrd.len() as u64));
    boot::start_info(memory, image.command_line, module, &ranges, rsdp)?;
    Ok(Entry::Pvh(entry))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::kvm::linux::{Configuration, SerialLocation, TimerPin};

    const DESCRIPTION: Description = Description {
        serial: SerialLocation::Memory(0xd000_0000),
        configuration: Configuration::Ecam(0xe000_0000),
        last_bus: 15,
        timer: TimerPin::Zero,
    };
    const MIB: u64 = 1 << 20;

    /// Returns a bzImage with `code` at its 64-bit entry, and the requirements of Debian's kernel.
    fn bzimage(code: &[u8]) -> Vec<u8> {
        let mut header = setup_header {
            setup_sects: 1,
            boot_flag: 0xaa55,
            jump: 0x66eb,
            header: u32::from_le_bytes(*b"HdrS"),
            version: 0x020f,
            loadflags: 1,
            initrd_addr_max: 0x7fff_ffff,
            kernel_alignment: 0x20_0000,
            relocatable_kernel: 1,
            xloadflags: KERNEL_64,
            cmdline_size: 2047,
            pref_address: 0x100_0000,
            init_size: 0x200_0000,
            ..Default::default()
        };
        let mut image = vec![0; 2 * 512 + ENTRY_64 as usize];
        image[0x1f1..][..size_of::<setup_header>()].copy_from_slice(header.as_mut_slice());
        image.extend(code);
        image
    }

    fn image<'a>(kernel: &'a [u8], initrd: &'a [u8], memory: u64) -> Image<'a> {
        Image {
            kernel,
            initrd,
            command_line: "console=ttyS0",
            memory,
        }
    }

    fn loaded(image: &Image<'_>) -> Result<(Memory, Entry), Error> {
        let memory = memory(image.memory)?;
        let entry = load(&memory, image, &DESCRIPTION)?;
        Ok((memory, entry))
    }

    fn read<T: ByteValued>(memory: &Memory, at: u64) -> T {
        memory.read_obj(GuestAddress(at)).unwrap()
    }

    #[test]
    fn the_zero_page_contains_the_addresses_of_all_loaded_parts() {
        let kernel = bzimage(&[0xf4]);
        let initrd = vec![0x5a; 5000];
        let (memory, entry) = loaded(&image(&kernel, &initrd, 256 * MIB)).unwrap();
        let Entry::Long(long) = entry else {
            panic!("{entry:?}");
        };
        assert_eq!(long.entry, 0x100_0200);
        assert_eq!(read::<u8>(&memory, long.entry), 0xf4);
        let page: boot_params = read(&memory, ZERO_PAGE);
        let header = page.hdr;
        assert_eq!({ header.header }.to_le_bytes(), *b"HdrS");
        assert_eq!(header.type_of_loader, 0xff);
        let mut line = [0; 14];
        let at = GuestAddress(u64::from(header.cmd_line_ptr));
        memory.read_slice(&mut line, at).unwrap();
        assert_eq!(&line, b"console=ttyS0\0");
        let (start, size) = (header.ramdisk_image, header.ramdisk_size);
        assert_eq!((start, size), (0x0fff_e000, 5000));
        let mut disk = vec![0; 5000];
        memory
            .read_slice(&mut disk, GuestAddress(start.into()))
            .unwrap();
        assert_eq!(disk, initrd);
        let rsdp: [u8; 8] = read(&memory, page.acpi_rsdp_addr);
        assert_eq!(&rsdp, b"RSD PTR ");
    }

    #[test]
    fn the_page_tables_identity_map_the_memory() {
        let (memory, entry) = loaded(&image(&bzimage(&[]), &[], 64 * MIB)).unwrap();
        let Entry::Long(long) = entry else {
            panic!("{entry:?}");
        };
        // According to the manual, each level uses nine bits of the address.
        let follow = |address: u64| {
            let entry = |table: u64, shift: u32| -> u64 {
                read(&memory, (table & !0xfff) + (address >> shift & 0x1ff) * 8)
            };
            let page = [39, 30, 21].into_iter().fold(long.page_tables, entry);
            assert_eq!(page & 0x83, 0x83, "present, writable, large");
            (page & !0x1f_ffff) + (address & 0x1f_ffff)
        };
        for address in [
            0,
            0x1234_5678,
            0x3fff_ffff,
            0x4000_0000,
            0xfee0_0000,
            0xffff_ffff,
        ] {
            assert_eq!(follow(address), address);
        }
        let limit = u64::from(long.descriptors_limit);
        assert_eq!(limit, 31);
        let code: u64 = read(&memory, long.descriptors + 0x10);
        let data: u64 = read(&memory, long.descriptors + 0x18);
        // Present, ring 0, 64-bit code; present, ring 0, writable data.
        assert_eq!(code >> 40 & 0xff | code >> 45 & 0x300, 0x19b);
        assert_eq!(data >> 40 & 0xff, 0x93);
    }

    #[test]
    fn ram_continues_above_the_devices() {
        let map = memory_map(5 << 30, &DESCRIPTION);
        let ram: u64 = map.iter().filter(|r| r.2 == RAM).map(|r| r.1 - r.0).sum();
        assert_eq!(ram, (5 << 30) - (HIGH - LOW));
        assert_eq!(map.last(), Some(&(1 << 32, (1 << 32) + (2 << 30), RAM)));
        assert!(map.contains(&(0xe000_0000, 0xe100_0000, RESERVED)));
        assert!(map.contains(&(TABLES, HIGH, ACPI_TABLES)));
        let by_ports = Description {
            configuration: Configuration::Ports,
            ..DESCRIPTION
        };
        let map = memory_map(64 * MIB, &by_ports);
        assert_eq!(map.last(), Some(&(HIGH, 64 * MIB, RAM)));
    }

    fn refused(image: &Image<'_>) -> String {
        loaded(image).unwrap_err().to_string()
    }

    #[test]
    fn an_image_that_does_not_fit_is_refused_with_the_size_that_it_needs() {
        let kernel = bzimage(&[]);
        let told = refused(&image(&kernel, &[], 32 * MIB));
        assert!(told.contains("32 MiB of RAM: it needs 34"), "{told}");
        let told = refused(&image(&kernel, &vec![1; 20 << 20], 64 * MIB));
        assert!(told.contains("below 64 MiB: they need 68"), "{told}");
        for memory in [0, MIB, (64 << 20) + 1, u64::MAX] {
            assert!(refused(&image(&kernel, &[], memory)).contains("use whole pages"));
        }
        let long = "x".repeat(2048);
        let told = refused(&Image {
            command_line: &long,
            ..image(&kernel, &[], 64 * MIB)
        });
        assert!(
            told.contains("2048 bytes; this kernel accepts 2047"),
            "{told}"
        );
    }

    #[test]
    fn a_file_that_is_no_kernel_is_refused_with_the_reason() {
        let whole = bzimage(&[]);
        let changed = |at: usize, value: u8| {
            let mut kernel = whole.clone();
            kernel[at] = value;
            kernel
        };
        for (kernel, why) in [
            (vec![], "too short"),
            (whole[..0x220].to_vec(), "too short"),
            (changed(0x202, b'h'), "no header"),
            (changed(0x206, 0x0b), "no 64-bit entry"),
            (changed(0x236, 0), "no 64-bit entry"),
            (changed(0x1f1, 200), "not a whole bzImage"),
            (b"\x7fELF".to_vec(), "not a kernel"),
        ] {
            let told = refused(&image(&kernel, &[], 64 * MIB));
            assert!(told.contains(why), "{told}");
        }
    }

    #[test]
    fn a_relocatable_kernel_is_loaded_lower_if_ram_is_short() {
        let (_, entry) = loaded(&image(&bzimage(&[]), &[], 40 * MIB)).unwrap();
        assert!(matches!(entry, Entry::Long(long) if long.entry == 0x20_0200));
    }

    proptest! {
        #[test]
        fn any_header_is_loaded_inside_ram_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0x7b),
            memory in (16..200u64).prop_map(|mib| mib * MIB),
        ) {
            let mut kernel = bzimage(&[]);
            // Overwrite all fields with addresses or sizes, but not those that identify a kernel.
            kernel[0x21c..0x236].copy_from_slice(&bytes[..0x1a]);
            kernel[0x238..0x23c].copy_from_slice(&bytes[0x20..0x24]);
            kernel[0x258..0x264].copy_from_slice(&bytes[0x40..0x4c]);
            if let Ok((_, Entry::Long(long))) = loaded(&image(&kernel, b"disk", memory)) {
                prop_assert!(long.entry >= HIGH && long.entry < memory);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let _ = header(&bytes);
        }
    }
}

//! The address space: the first 4 GiB, identity-mapped.
//!
//! Code is read-only, and data is not executable. Page 0 and the page below each stack are not
//! mapped, so that a null pointer and a stack overflow are exceptions. Memory that the memory map
//! does not list as RAM is uncached.

use core::cell::UnsafeCell;
use core::ops::Range;

use x86_64::PhysAddr;
use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::structures::paging::{PageTable, PageTableFlags as Flags, PhysFrame};

use super::cpus::{MAX_CPUS, TRAMPOLINE};
use crate::boot::overlap;

/// Bytes from one CPU's stack to the next, with the guard page below.
pub const STACK_STRIDE: usize = 11 * PAGE;

const PAGE: usize = 4096;
const LARGE: usize = 2 << 20;

/// Bytes of mapped memory.
const MAPPED: usize = 4 << 30;

/// Bytes of memory with small pages: low memory and the image.
pub const SMALL: usize = 4 * LARGE;

/// Address of the writable alias of the small pages' memory while [`with_writable_code`] runs:
/// behind all mapped memory.
const ALIAS: usize = MAPPED;

/// Mark of a page of device memory: one of the bits that the CPU ignores.
const NO_RAM: Flags = Flags::BIT_9;

struct Tables {
    level4: PageTable,
    pointers: PageTable,
    directories: [PageTable; 4],
    small: [PageTable; SMALL / LARGE],
}

struct SharedTables(UnsafeCell<Tables>);

// SAFETY: written only by the first CPU in `init`, before any CPU uses the tables.
unsafe impl Sync for SharedTables {}

static TABLES: SharedTables = SharedTables(UnsafeCell::new(Tables {
    level4: PageTable::new(),
    pointers: PageTable::new(),
    directories: [const { PageTable::new() }; 4],
    small: [const { PageTable::new() }; SMALL / LARGE],
}));

struct AliasTable(UnsafeCell<PageTable>);

// SAFETY: written only in `with_writable_code`, on one CPU at a time.
unsafe impl Sync for AliasTable {}

/// The directory at [`ALIAS`]. It is empty except while [`with_writable_code`] runs.
static ALIAS_TABLE: AliasTable = AliasTable(UnsafeCell::new(PageTable::new()));

unsafe extern "C" {
    safe static __text_start: u8;
    safe static __text_end: u8;
    safe static __rodata_end: u8;
    safe static __image_end: u8;
    safe static stacks: u8;
}

/// Builds the tables for a machine with this RAM. Must run on the first CPU, before the others
/// start.
pub fn init(ram: impl Iterator<Item = Range<u64>> + Clone) {
    let end = (&raw const __image_end).addr();
    assert!(
        end <= SMALL,
        "the image ends at {end:#x}, beyond {SMALL:#x}"
    );
    // SAFETY: the only reference; see `SharedTables`.
    let tables = unsafe { &mut *TABLES.0.get() };
    link(&mut tables.level4, 0, &tables.pointers);
    for (i, directory) in tables.directories.iter_mut().enumerate() {
        link(&mut tables.pointers, i, directory);
        for (j, entry) in directory.iter_mut().enumerate() {
            let address = (i * 512 + j) * LARGE;
            let caching = caching(ram.clone(), address, LARGE);
            let flags = Flags::PRESENT | Flags::WRITABLE | Flags::NO_EXECUTE | Flags::HUGE_PAGE;
            entry.set_addr(PhysAddr::new(address as u64), flags | caching);
        }
    }
    let alias = PhysAddr::new(ALIAS_TABLE.0.get().addr() as u64);
    tables.pointers[4].set_addr(alias, Flags::PRESENT | Flags::WRITABLE);
    for (i, table) in tables.small.iter_mut().enumerate() {
        link(&mut tables.directories[0], i, table);
        for (j, entry) in table.iter_mut().enumerate() {
            let address = i * LARGE + j * PAGE;
            if let Some(rights) = rights(address) {
                let flags = Flags::PRESENT | rights | caching(ram.clone(), address, PAGE);
                entry.set_addr(PhysAddr::new(address as u64), flags);
            }
        }
    }
}

fn link(table: &mut PageTable, index: usize, below: &PageTable) {
    let address = PhysAddr::new((&raw const *below).addr() as u64);
    table[index].set_addr(address, Flags::PRESENT | Flags::WRITABLE);
}

/// Returns the access rights of a small page, or `None` if it must not be mapped.
fn rights(address: usize) -> Option<Flags> {
    let text = (&raw const __text_start).addr()..(&raw const __text_end).addr();
    let rodata = text.end..(&raw const __rodata_end).addr();
    if address == 0 || is_guard(address) {
        None
    } else if address == TRAMPOLINE {
        Some(Flags::WRITABLE)
    } else if text.contains(&address) {
        Some(Flags::empty())
    } else if rodata.contains(&address) {
        Some(Flags::NO_EXECUTE)
    } else {
        Some(Flags::WRITABLE | Flags::NO_EXECUTE)
    }
}

/// Returns whether `address` is in the lowest page of a CPU's stack, which is not mapped.
fn is_guard(address: usize) -> bool {
    address
        .checked_sub((&raw const stacks).addr())
        .is_some_and(|offset| offset / STACK_STRIDE < MAX_CPUS && offset % STACK_STRIDE < PAGE)
}

/// Returns the caching flags of a page: uncached, unless all of it is RAM. A page without any RAM is
/// marked as [`NO_RAM`].
fn caching(
    mut ram: impl Iterator<Item = Range<u64>> + Clone,
    address: usize,
    size: usize,
) -> Flags {
    let page = address as u64..(address + size) as u64;
    let is_ram = |ram: Range<u64>| ram.start <= page.start && page.end <= ram.end;
    // The firmware splits the PC's low memory into several ranges, but all of it is RAM.
    if ram.clone().any(is_ram) || page.end <= 0xa0000 {
        Flags::empty()
    } else if ram.any(|ram| overlap(&ram, &page)) {
        Flags::NO_CACHE | Flags::WRITE_THROUGH
    } else {
        Flags::NO_CACHE | Flags::WRITE_THROUGH | NO_RAM
    }
}

/// Makes this CPU use the tables.
pub fn activate() {
    // SAFETY: not written since `init`. The level 4 table maps all memory that the kernel uses, at
    // the same addresses as the boot tables.
    let level4 = unsafe { &raw const (*TABLES.0.get()).level4 };
    let frame = PhysFrame::containing_address(PhysAddr::new(level4.addr() as u64));
    // SAFETY: as above.
    unsafe { Cr3::write(frame, Cr3Flags::empty()) };
}

/// Maps the kernel's code as writable on this CPU while `work` runs. `work` receives the distance
/// from the code to that mapping, in bytes.
///
/// # Safety
///
/// Only one CPU at a time may call this.
pub unsafe fn with_writable_code<T>(work: impl FnOnce(usize) -> T) -> T {
    let set = |is_there: bool| {
        // SAFETY: the caller guarantees that no other CPU has a reference.
        let table = unsafe { &mut *ALIAS_TABLE.0.get() };
        for (i, entry) in table.iter_mut().take(SMALL / LARGE).enumerate() {
            let flags = Flags::PRESENT | Flags::WRITABLE | Flags::NO_EXECUTE | Flags::HUGE_PAGE;
            match is_there {
                true => entry.set_addr(PhysAddr::new((i * LARGE) as u64), flags),
                false => entry.set_unused(),
            }
        }
        activate();
    };
    set(true);
    let result = work(ALIAS);
    set(false);
    result
}

/// Returns whether all of the `size` bytes at `address` are mapped, at least for reading.
pub fn is_mapped(address: usize, size: usize) -> bool {
    let Some(end) = address.checked_add(size).filter(|&end| end <= MAPPED) else {
        return false;
    };
    // All unmapped pages are small ones.
    let mut pages = address / PAGE..end.min(SMALL).div_ceil(PAGE);
    size > 0 && pages.all(|page| rights(page * PAGE).is_some())
}

/// Returns whether the `size` bytes at `address` are mapped for reading and writing, uncached, in
/// pages without any RAM.
pub fn is_device_memory(address: usize, size: usize) -> bool {
    let Some(end) = address.checked_add(size).filter(|&end| end <= MAPPED) else {
        return false;
    };
    // SAFETY: not written since `init`.
    let tables = unsafe { &*TABLES.0.get() };
    let mut pages = address / LARGE..end.div_ceil(LARGE);
    size > 0
        && address >= SMALL
        && pages.all(|page| {
            let entry = &tables.directories[page / 512][page % 512];
            entry.flags().contains(NO_RAM)
        })
}

/// Returns whether `address` is in a guard page: a stack overflow.
pub fn is_stack_overflow(address: u64) -> bool {
    is_guard(address as usize)
}

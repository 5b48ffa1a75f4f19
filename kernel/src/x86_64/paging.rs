//! The address space: the first 4 GiB, each at its own address.
//!
//! Code can be executed but not written, data written but not executed; page 0
//! and the page below each stack are not there, so that a null pointer and a
//! full stack are exceptions. What the memory map does not call RAM is uncached.

use core::cell::UnsafeCell;
use core::ops::Range;

use x86_64::PhysAddr;
use x86_64::registers::control::{Cr3, Cr3Flags};
use x86_64::structures::paging::{PageTable, PageTableFlags as Flags, PhysFrame};

use super::cpus::{MAX_CPUS, TRAMPOLINE};

/// Bytes from one CPU's stack to the next, the guard page below it included.
pub const STACK_STRIDE: usize = 11 * PAGE;

const PAGE: usize = 4096;
const LARGE: usize = 2 << 20;

/// How much is mapped in all.
const MAPPED: usize = 4 << 30;

/// How much is mapped by small pages: low memory and the image.
const SMALL: usize = 4 * LARGE;

/// The same memory, where it can be written while [`with_writable_code`] runs: behind all that
/// is mapped.
const ALIAS: usize = MAPPED;

struct Tables {
    level4: PageTable,
    pointers: PageTable,
    directories: [PageTable; 4],
    small: [PageTable; SMALL / LARGE],
}

struct SharedTables(UnsafeCell<Tables>);

// SAFETY: written by the first CPU alone, in `init`, before any CPU uses them.
unsafe impl Sync for SharedTables {}

static TABLES: SharedTables = SharedTables(UnsafeCell::new(Tables {
    level4: PageTable::new(),
    pointers: PageTable::new(),
    directories: [const { PageTable::new() }; 4],
    small: [const { PageTable::new() }; SMALL / LARGE],
}));

struct AliasTable(UnsafeCell<PageTable>);

// SAFETY: written only in `with_writable_code`, by one CPU at a time.
unsafe impl Sync for AliasTable {}

/// The directory at [`ALIAS`], which is empty most of the time.
static ALIAS_TABLE: AliasTable = AliasTable(UnsafeCell::new(PageTable::new()));

unsafe extern "C" {
    safe static __text_start: u8;
    safe static __text_end: u8;
    safe static __rodata_end: u8;
    safe static __image_end: u8;
    safe static stacks: u8;
}

/// Builds the tables for a machine with this RAM. On the first CPU, before the others start.
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

/// What may be done with a small page; `None` if it is not to be there.
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

/// The lowest page of each CPU's stack.
fn is_guard(address: usize) -> bool {
    address
        .checked_sub((&raw const stacks).addr())
        .is_some_and(|offset| offset / STACK_STRIDE < MAX_CPUS && offset % STACK_STRIDE < PAGE)
}

/// Uncached, unless all of it is RAM.
fn caching(mut ram: impl Iterator<Item = Range<u64>>, address: usize, size: usize) -> Flags {
    let (start, end) = (address as u64, (address + size) as u64);
    let is_ram = ram.any(|ram| ram.start <= start && end <= ram.end);
    // The PC's low memory is cut into pieces by the firmware, and is RAM.
    if is_ram || end <= 0xa0000 {
        Flags::empty()
    } else {
        Flags::NO_CACHE | Flags::WRITE_THROUGH
    }
}

/// Makes this CPU use them.
pub fn activate() {
    // SAFETY: not written since `init`; the level 4 table maps all that we use,
    // at the addresses at which the boot tables had it.
    let level4 = unsafe { &raw const (*TABLES.0.get()).level4 };
    let frame = PhysFrame::containing_address(PhysAddr::new(level4.addr() as u64));
    // SAFETY: as above.
    unsafe { Cr3::write(frame, Cr3Flags::empty()) };
}

/// Runs `work` with the distance from the kernel's code to the same memory, where this CPU can
/// write it meanwhile.
///
/// # Safety
///
/// One CPU at a time may call it.
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

/// Whether all of `size` bytes at `address` are there, for reading at least.
pub fn is_mapped(address: usize, size: usize) -> bool {
    let Some(end) = address.checked_add(size).filter(|&end| end <= MAPPED) else {
        return false;
    };
    // A page that is not there is a small one.
    let mut pages = address / PAGE..end.min(SMALL).div_ceil(PAGE);
    size > 0 && pages.all(|page| rights(page * PAGE).is_some())
}

/// Whether all of `size` bytes at `address` are there, for reading and writing, and nothing
/// of them is RAM.
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
            entry.flags().contains(Flags::NO_CACHE)
        })
}

/// Whether `address` is in the guard page of a stack: the stack is full.
pub fn is_stack_overflow(address: u64) -> bool {
    is_guard(address as usize)
}

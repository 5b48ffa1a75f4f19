//! The address space: the first 256 GiB, identity-mapped with Sv39 (RISC-V privileged
//! specification, "Sv39: Page-Based 39-bit Virtual-Memory System").
//!
//! Code is read-only, and data is not executable. Three kinds of memory are not mapped: the first 2
//! MiB, the firmware's RAM below the image, and guard pages below each stack. Thus, a null pointer
//! and a stack overflow are exceptions. The tables do not select caching, because each physical
//! address has its own attributes.

use core::cell::UnsafeCell;
use core::ops::Range;

use riscv::register::satp;

use super::cpus::MAX_CPUS;
use crate::device_tree as tree;

/// Bytes from one CPU's stack to the next, with the guard pages below.
pub const STACK_STRIDE: usize = GUARD + (48 << 10);
/// The same for the stacks of exceptions and interrupts.
pub const TRAP_STACK_STRIDE: usize = GUARD + (16 << 10);
/// Bytes of unmapped memory below each stack. It is larger than any function's stack frame, 13 KiB
/// at most so far. The compiler has no stack probes for RISC-V, so a larger frame could reach over
/// it.
const GUARD: usize = 16 << 10;

const PAGE: usize = 4096;
const LARGE: usize = 2 << 20;
const HUGE: usize = 1 << 30;

/// Number of entries of a table.
const ENTRIES: usize = 512;

/// Size of mapped memory in GiB: the lower half of Sv39's addresses.
pub const MAPPED_GIB: usize = ENTRIES / 2;

/// The same in bytes.
const MAPPED: usize = MAPPED_GIB * HUGE;

/// Bytes of memory with small pages, from the start of the image.
const SMALL: usize = 5 * LARGE;

/// Address of the writable alias of the image while [`with_writable_code`] runs: the first one of
/// the upper half.
const ALIAS: usize = 0usize.wrapping_sub(MAPPED);

// Bits of an entry (figure "Sv39 page table entry"). An entry without R, W and X points to a table.
const VALID: u64 = 1 << 0;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const GLOBAL: u64 = 1 << 5;
/// Set in advance, because a hart may raise a page fault instead of setting these bits itself.
const ACCESSED_DIRTY: u64 = 1 << 6 | 1 << 7;

#[repr(C, align(4096))]
struct Table([u64; ENTRIES]);

impl Table {
    const EMPTY: Self = Self([0; ENTRIES]);

    fn map(&mut self, index: usize, address: usize, rights: u64) {
        let flags = VALID | GLOBAL | ACCESSED_DIRTY | rights;
        self.0[index] = entry(address) | flags;
    }

    fn link(&mut self, index: usize, below: &Self) {
        self.0[index] = entry((&raw const *below).addr()) | VALID;
    }
}

/// Returns the page number of `address`, at its position in an entry.
const fn entry(address: usize) -> u64 {
    (address / PAGE) as u64 * (1 << 10)
}

struct Tables {
    root: Table,
    /// Table of the first GiB; `image` is the table of the image's GiB.
    lowest: Table,
    image: Table,
    small: [Table; SMALL / LARGE],
}

struct SharedTables(UnsafeCell<Tables>);

// SAFETY: written only by the first CPU in `init`, before any CPU uses the tables.
unsafe impl Sync for SharedTables {}

static TABLES: SharedTables = SharedTables(UnsafeCell::new(Tables {
    root: Table::EMPTY,
    lowest: Table::EMPTY,
    image: Table::EMPTY,
    small: [const { Table::EMPTY }; SMALL / LARGE],
}));

struct AliasTable(UnsafeCell<Table>);

// SAFETY: written only in `with_writable_code`, on one CPU at a time.
unsafe impl Sync for AliasTable {}

/// The table at [`ALIAS`]. It is empty except while [`with_writable_code`] runs.
static ALIAS_TABLE: AliasTable = AliasTable(UnsafeCell::new(Table::EMPTY));

unsafe extern "C" {
    safe static __text_start: u8;
    safe static __text_end: u8;
    safe static __rodata_end: u8;
    safe static __image_end: u8;
    safe static stacks: u8;
    safe static trap_stacks: u8;
}

/// Returns the start address of the image.
fn start() -> usize {
    (&raw const __text_start).addr()
}

/// Returns the address range of the image.
pub fn image() -> Range<u64> {
    start() as u64..(&raw const __image_end).addr() as u64
}

/// Builds the tables. Must run on the first CPU, before the others start.
///
/// Panics if the image is too large.
pub fn init() {
    let (image, firmware) = (image(), firmware());
    let most = (start() + SMALL) as u64;
    assert!(
        image.end <= most,
        "the image ends at {:#x}, beyond {most:#x}",
        image.end
    );
    // SAFETY: the only reference; see `SharedTables`.
    let tables = unsafe { &mut *TABLES.0.get() };
    for (i, page) in (0..MAPPED).step_by(HUGE).enumerate() {
        tables.root.map(i, page, READ | WRITE);
    }
    tables.root.link(0, &tables.lowest);
    tables.root.link(start() / HUGE, &tables.image);
    tables.root.0[ENTRIES / 2] = entry(ALIAS_TABLE.0.get().addr()) | VALID;
    for (table, first) in [
        (&mut tables.lowest, 0),
        (&mut tables.image, start() / HUGE * HUGE),
    ] {
        for (i, page) in (first..first + HUGE).step_by(LARGE).enumerate() {
            if page != 0 && !firmware.contains(&page) {
                table.map(i, page, READ | WRITE);
            }
        }
    }
    for (table, first) in tables.small.iter_mut().zip((start()..).step_by(LARGE)) {
        tables.image.link(first % HUGE / LARGE, table);
        for (i, page) in (first..first + LARGE).step_by(PAGE).enumerate() {
            if let Some(rights) = rights(page) {
                table.map(i, page, rights);
            }
        }
    }
}

/// Returns the access rights of a small page, or `None` if it must not be mapped.
fn rights(page: usize) -> Option<u64> {
    let text = start()..(&raw const __text_end).addr();
    let rodata = text.end..(&raw const __rodata_end).addr();
    if is_guard(page) {
        None
    } else if text.contains(&page) {
        Some(READ | EXECUTE)
    } else if rodata.contains(&page) {
        Some(READ)
    } else {
        Some(READ | WRITE)
    }
}

/// Returns whether `address` is in a guard page below a stack.
fn is_guard(address: usize) -> bool {
    let all = [
        (&raw const stacks, STACK_STRIDE),
        (&raw const trap_stacks, TRAP_STACK_STRIDE),
    ];
    all.into_iter().any(|(first, stride)| {
        let offset = address.checked_sub(first.addr());
        offset.is_some_and(|offset| offset / stride < MAX_CPUS && offset % stride < GUARD)
    })
}

/// Returns the range between the start of RAM and the image.
fn firmware() -> Range<usize> {
    tree::memory::ram_of(&image()).start as usize..start()
}

/// Makes this CPU use the tables.
///
/// Panics if the hart does not support Sv39.
pub fn activate() {
    // Orders earlier writes to the tables before their use, and discards cached translations
    // ("Supervisor Memory-Management Fence Instruction").
    riscv::asm::sfence_vma_all();
    // SAFETY: not written since `init`. The tables map all memory that the kernel uses at its own
    // address.
    unsafe {
        let root = &raw const (*TABLES.0.get()).root;
        satp::set(satp::Mode::Sv39, 0, root.addr() / PAGE);
    }
    riscv::asm::sfence_vma_all();
    // A write of an unsupported mode has no effect ("Supervisor Address Translation and Protection
    // Register").
    assert!(
        satp::read().mode() == satp::Mode::Sv39,
        "this hart does not support Sv39"
    );
}

/// Maps the kernel's code as writable on this CPU while `work` runs. `work` receives the distance
/// from the code to that mapping, in bytes.
///
/// # Safety
///
/// Only one CPU at a time may call this.
pub unsafe fn with_writable_code<T>(work: impl FnOnce(usize) -> T) -> T {
    let set = |rights: u64| {
        // SAFETY: the caller guarantees that no other CPU has a reference.
        let table = unsafe { &mut *ALIAS_TABLE.0.get() };
        for (i, page) in (start()..start() + SMALL).step_by(LARGE).enumerate() {
            match rights {
                0 => table.0[i] = 0,
                rights => table.map(i, page, rights),
            }
        }
        riscv::asm::sfence_vma_all();
    };
    set(READ | WRITE);
    let result = work(ALIAS.wrapping_sub(start()));
    set(0);
    result
}

/// Returns whether `address` is mapped, at least for reading.
pub fn is_mapped(address: usize) -> bool {
    let is_small = (start()..start() + SMALL).contains(&address);
    (LARGE..MAPPED).contains(&address)
        && !firmware().contains(&address)
        && (!is_small || rights(address / PAGE * PAGE).is_some())
}

/// Returns whether all of `range` is mapped for reading and writing, and contains no RAM.
pub fn is_device_memory(range: &Range<u64>) -> bool {
    !range.is_empty()
        && range.start >= LARGE as u64
        && range.end <= MAPPED as u64
        && !tree::touches_ram(range)
}

/// Returns whether `address` is in a guard page: a stack overflow.
pub fn is_stack_overflow(address: usize) -> bool {
    is_guard(address)
}

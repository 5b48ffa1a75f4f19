//! The address space: the first 256 GiB, each at its own address, by Sv39 (RISC-V
//! privileged specification, "Sv39: Page-Based 39-bit Virtual-Memory System").
//!
//! Code can be executed but not written, data written but not executed; the first 2 MiB,
//! the firmware's RAM below the image, and what is below each stack are not there, so
//! that a null pointer and a full stack are exceptions. What is cached is not said here:
//! each physical address has its own attributes.

use core::cell::UnsafeCell;
use core::ops::Range;

use riscv::register::satp;

use super::cpus::MAX_CPUS;
use crate::device_tree as tree;

/// Bytes from one CPU's stack to the next, what is not mapped below it included. Reading a
/// card takes 28 KiB.
pub const STACK_STRIDE: usize = GUARD + (48 << 10);
/// The same of the stacks on which a CPU deals with exceptions and interrupts.
pub const TRAP_STACK_STRIDE: usize = GUARD + (16 << 10);
/// Bytes below each stack that are not mapped: more than a function has on the stack for
/// itself, 13 KiB at most so far. For RISC-V the compiler has no stack probes, without
/// which a larger one reaches over it.
const GUARD: usize = 16 << 10;

const PAGE: usize = 4096;
const LARGE: usize = 2 << 20;
const HUGE: usize = 1 << 30;

/// Entries of a table.
const ENTRIES: usize = 512;

/// How much is mapped in all: the lower half of the addresses that Sv39 has.
const MAPPED: usize = ENTRIES / 2 * HUGE;

/// How much is mapped by small pages: from the image's start on.
const SMALL: usize = 5 * LARGE;

/// The memory from the image's start on, where it can be written while [`with_writable_code`]
/// runs: the first address of the upper half.
const ALIAS: usize = 0usize.wrapping_sub(MAPPED);

// Bits of an entry (figure "Sv39 page table entry"). Without R, W and X it is for a table.
const VALID: u64 = 1 << 0;
const READ: u64 = 1 << 1;
const WRITE: u64 = 1 << 2;
const EXECUTE: u64 = 1 << 3;
const GLOBAL: u64 = 1 << 5;
/// Set here, because a hart may raise a page fault instead of setting them itself.
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

/// The page number of `address`, where an entry has it.
const fn entry(address: usize) -> u64 {
    (address / PAGE) as u64 * (1 << 10)
}

struct Tables {
    root: Table,
    /// Of the first GiB, and of the image's.
    lowest: Table,
    image: Table,
    small: [Table; SMALL / LARGE],
}

struct SharedTables(UnsafeCell<Tables>);

// SAFETY: written by the first CPU alone, in `init`, before any CPU uses them.
unsafe impl Sync for SharedTables {}

static TABLES: SharedTables = SharedTables(UnsafeCell::new(Tables {
    root: Table::EMPTY,
    lowest: Table::EMPTY,
    image: Table::EMPTY,
    small: [const { Table::EMPTY }; SMALL / LARGE],
}));

struct AliasTable(UnsafeCell<Table>);

// SAFETY: written only in `with_writable_code`, by one CPU at a time.
unsafe impl Sync for AliasTable {}

/// The table at [`ALIAS`], which is empty most of the time.
static ALIAS_TABLE: AliasTable = AliasTable(UnsafeCell::new(Table::EMPTY));

unsafe extern "C" {
    safe static __text_start: u8;
    safe static __text_end: u8;
    safe static __rodata_end: u8;
    safe static __image_end: u8;
    safe static stacks: u8;
    safe static trap_stacks: u8;
}

/// Where the image begins.
fn start() -> usize {
    (&raw const __text_start).addr()
}

/// Where the image lies.
pub fn image() -> Range<u64> {
    start() as u64..(&raw const __image_end).addr() as u64
}

/// The RAM that the image lies in.
///
/// Panics if the device tree knows of none there.
pub fn ram() -> Range<u64> {
    let image = image();
    let Some(ram) = tree::ram_around(&image) else {
        panic!("the device tree tells of no RAM at {image:#x?}, where the kernel is");
    };
    ram
}

/// Builds the tables. On the first CPU, before the others start.
///
/// Panics if the image is where it cannot be.
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

/// What may be done with a small page; `None` if it is not to be there.
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

/// Below each CPU's stacks.
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

/// Between the start of RAM and the image.
fn firmware() -> Range<usize> {
    ram().start as usize..start()
}

/// Makes this CPU use them.
///
/// Panics if it cannot.
pub fn activate() {
    // Whatever walks them is told that they are in memory before it may begin, and has
    // nothing kept from before ("Supervisor Memory-Management Fence Instruction").
    riscv::asm::sfence_vma_all();
    // SAFETY: not written since `init`; they map all that we use, at its own address.
    unsafe {
        let root = &raw const (*TABLES.0.get()).root;
        satp::set(satp::Mode::Sv39, 0, root.addr() / PAGE);
    }
    riscv::asm::sfence_vma_all();
    // A mode that there is not is not written at all ("Supervisor Address Translation and
    // Protection Register").
    assert!(
        satp::read().mode() == satp::Mode::Sv39,
        "this hart does not translate addresses by Sv39"
    );
}

/// Runs `work` with the distance from the kernel's code to the same memory, where this CPU can
/// write it meanwhile.
///
/// # Safety
///
/// One CPU at a time may call it.
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

/// Whether `address` is there, for reading at least.
pub fn is_mapped(address: usize) -> bool {
    let is_small = (start()..start() + SMALL).contains(&address);
    (LARGE..MAPPED).contains(&address)
        && !firmware().contains(&address)
        && (!is_small || rights(address / PAGE * PAGE).is_some())
}

/// Whether all of `range` is there, for reading and writing, and nothing of it is RAM.
pub fn is_device_memory(range: &Range<u64>) -> bool {
    !range.is_empty()
        && range.start >= LARGE as u64
        && range.end <= MAPPED as u64
        && !tree::touches_ram(range)
}

/// Whether `address` is below a stack: the stack is full.
pub fn is_stack_overflow(address: usize) -> bool {
    is_guard(address)
}

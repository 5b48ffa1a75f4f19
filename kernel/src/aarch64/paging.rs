//! The address space: the first 512 GiB, identity-mapped with pages of 4 KiB (Arm ARM, DDI 0487,
//! section D8, "The AArch64 Virtual Memory System Architecture").
//!
//! Code is read-only, and data is not executable. Two kinds of memory are not mapped: the first 2
//! MiB, and guard pages below each stack. Thus, a null pointer and a stack overflow are exceptions.
//! A GiB with RAM is Normal memory with caches; any other one is Device memory.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::ops::Range;

use super::cpus::MAX_CPUS;
use crate::device_tree as tree;

/// Bytes from one CPU's stack to the next, with the guard pages below.
pub const STACK_STRIDE: usize = GUARD + (48 << 10);
/// The same for the stacks of exceptions and interrupts.
pub const TRAP_STACK_STRIDE: usize = GUARD + (16 << 10);
/// Bytes of unmapped memory below each stack, larger than any function's stack frame.
const GUARD: usize = 16 << 10;

/// Size of mapped memory in GiB.
pub const MAPPED_GIB: usize = ENTRIES;

const PAGE: usize = 4096;
const LARGE: usize = 2 << 20;
const HUGE: usize = 1 << 30;

/// Number of entries of a table.
const ENTRIES: usize = 512;

/// Bytes of memory with small pages, from the start of the image.
const SMALL: usize = 5 * LARGE;

/// Start of the image, as in link.ld.
const START: usize = 0x4020_0000;

/// Address of the writable alias of the image while [`with_writable_code`] runs: the last GiB.
const ALIAS: usize = 0usize.wrapping_sub(HUGE);

/// `MAIR_EL1`: attributes 0 are Device-nGnRnE, and 1 Normal, write-back, with allocation.
pub const MAIR: u64 = 0xff << 8;

/// `TCR_EL1` without the CPU's size of physical addresses. Addresses have 39 bits in the lower half
/// (`T0SZ`) and 30 in the upper half (`T1SZ`), whose pages have 4 KiB, too (`TG1`). Table walks are
/// cached and shared (`IRGN`, `ORGN`, `SH`).
pub const TCR: u64 = (64 - 39)
    | (64 - 30) << 16
    | (1 << 8 | 1 << 10 | 3 << 12)
    | (1 << 24 | 1 << 26 | 3 << 28)
    | 2 << 30;

/// `SCTLR_EL1`: translation, both caches, checks of the stack pointer, and the bits that are 1.
pub const SCTLR: u64 = 0x30d0_0800 | 1 << 0 | 1 << 2 | 1 << 3 | 1 << 12;

// Bits of an entry (section D8.3, "Translation table descriptor formats").
const VALID: u64 = 1 << 0;
/// A table, or a page of 4 KiB; otherwise a block.
const TABLE_OR_PAGE: u64 = 1 << 1;
const READ_ONLY: u64 = 1 << 7;
const INNER_SHAREABLE: u64 = 3 << 8;
const ACCESSED: u64 = 1 << 10;
const NOT_EXECUTABLE: u64 = 1 << 53 | 1 << 54;

/// Kinds of mappings.
const DEVICE: u64 = VALID | ACCESSED | NOT_EXECUTABLE;
const CODE: u64 = VALID | ACCESSED | INNER_SHAREABLE | 1 << 2 | READ_ONLY;
const CONSTANTS: u64 = CODE | NOT_EXECUTABLE;
const DATA: u64 = CONSTANTS & !READ_ONLY;

#[repr(C, align(4096))]
struct Table([u64; ENTRIES]);

impl Table {
    const EMPTY: Self = Self([0; ENTRIES]);

    fn link(&mut self, index: usize, below: &Self) {
        self.0[index] = (&raw const *below).addr() as u64 | VALID | TABLE_OR_PAGE;
    }
}

/// Table for boot.s: the image's GiB is Normal memory, any other one Device memory.
#[unsafe(no_mangle)]
static BOOT_TABLE: Table = {
    let mut table = Table::EMPTY;
    let mut gib = 0;
    while gib < ENTRIES {
        table.0[gib] = (gib * HUGE) as u64 | DEVICE;
        gib += 1;
    }
    table.0[START / HUGE] = (START / HUGE * HUGE) as u64 | DATA & !NOT_EXECUTABLE;
    table
};

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

/// The table at [`ALIAS`]. It is empty except while [`with_writable_code`] runs. Not in zeroed
/// memory, because boot.s uses it before it clears that.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".data.alias")]
static ALIAS_TABLE: AliasTable = AliasTable(UnsafeCell::new(Table::EMPTY));

unsafe extern "C" {
    safe static __text_start: u8;
    safe static __text_end: u8;
    safe static __rodata_end: u8;
    safe static __image_end: u8;
    safe static stacks: u8;
    safe static trap_stacks: u8;
}

/// Returns the address range of the image.
pub fn image() -> Range<u64> {
    (&raw const __text_start).addr() as u64..(&raw const __image_end).addr() as u64
}

/// Builds the tables. Must run on the first CPU, before the others start.
///
/// Panics if the image is too large, or no RAM is where it is.
pub fn init() {
    let image = image();
    let most = (START + SMALL) as u64;
    assert!(
        image.start == START as u64 && image.end <= most,
        "the image, at {image:#x?}, is not between {START:#x} and {most:#x}"
    );
    tree::memory::ram_of(&image);
    // SAFETY: the only reference; see `SharedTables`.
    let tables = unsafe { &mut *TABLES.0.get() };
    for (gib, entry) in tables.root.0.iter_mut().enumerate() {
        *entry = (gib * HUGE) as u64 | kind(gib);
    }
    tables.root.link(0, &tables.lowest);
    tables.root.link(START / HUGE, &tables.image);
    for (table, gib) in [(&mut tables.lowest, 0), (&mut tables.image, START / HUGE)] {
        for (i, entry) in table.0.iter_mut().enumerate() {
            let page = gib * HUGE + i * LARGE;
            if page != 0 {
                *entry = page as u64 | kind(gib);
            }
        }
    }
    for (table, first) in tables.small.iter_mut().zip((START..).step_by(LARGE)) {
        tables.image.link(first % HUGE / LARGE, table);
        for (entry, page) in table.0.iter_mut().zip((first..).step_by(PAGE)) {
            *entry = rights(page).map_or(0, |rights| page as u64 | rights | TABLE_OR_PAGE);
        }
    }
}

/// Returns the kind of memory in a GiB.
fn kind(gib: usize) -> u64 {
    let range = (gib * HUGE) as u64..((gib + 1) * HUGE) as u64;
    if tree::touches_ram(&range) {
        DATA
    } else {
        DEVICE
    }
}

/// Returns the access rights of a small page, or `None` if it must not be mapped.
fn rights(page: usize) -> Option<u64> {
    let text = START..(&raw const __text_end).addr();
    let rodata = text.end..(&raw const __rodata_end).addr();
    if is_guard(page) {
        None
    } else if text.contains(&page) {
        Some(CODE)
    } else if rodata.contains(&page) {
        Some(CONSTANTS)
    } else {
        Some(DATA)
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

/// Makes this CPU use the tables.
///
/// Translation is off while the table changes, because an address must not have two entries of
/// different sizes (section D8.16.1, "Using break-before-make").
pub fn activate() {
    // SAFETY: not written since `init`. The tables map all memory that the kernel uses at its own
    // address, and no memory is accessed while translation is off.
    unsafe {
        let root = &raw const (*TABLES.0.get()).root;
        asm!(
            "dsb ish", // writes to the table
            "msr sctlr_el1, {off}",
            "isb",
            "msr ttbr0_el1, {root}",
            "tlbi vmalle1",
            "dsb nsh",
            "isb",
            "msr sctlr_el1, {on}",
            "isb",
            off = in(reg) SCTLR & !1,
            on = in(reg) SCTLR,
            root = in(reg) root.addr(),
            options(nostack, preserves_flags),
        );
    }
}

/// Maps the kernel's code as writable on this CPU while `work` runs. `work` receives the distance
/// from the code to that mapping, in bytes. Afterwards, all CPUs fetch the new code once they have
/// discarded what they have fetched.
///
/// # Safety
///
/// Only one CPU at a time may call this.
pub unsafe fn with_writable_code<T>(work: impl FnOnce(usize) -> T) -> T {
    let set = |rights: u64| {
        // SAFETY: the caller guarantees that no other CPU has a reference.
        let table = unsafe { &mut *ALIAS_TABLE.0.get() };
        for (i, page) in (START..START + SMALL).step_by(LARGE).enumerate() {
            table.0[i] = if rights == 0 { 0 } else { page as u64 | rights };
        }
        // SAFETY: the kernel uses the addresses only in `work`.
        unsafe {
            asm!(
                "dsb ishst",
                "tlbi vmalle1",
                "dsb nsh",
                "isb",
                options(nostack, preserves_flags)
            );
        }
    };
    set(DATA);
    let result = work(ALIAS.wrapping_sub(START));
    let end = (&raw const __text_end).addr();
    for line in (START..end).step_by(SMALLEST_LINE) {
        // SAFETY: cleans a line to the point of unification.
        unsafe { asm!("dc cvau, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
    // SAFETY: invalidates the instruction caches of all CPUs.
    unsafe {
        asm!(
            "dsb ish",
            "ic ialluis",
            "dsb ish",
            options(nostack, preserves_flags)
        )
    };
    set(0);
    result
}

/// Bytes of the smallest possible cache line (`CTR_EL0.DminLine`, 4 words).
const SMALLEST_LINE: usize = 16;

/// Returns whether `address` is mapped, at least for reading.
pub fn is_mapped(address: usize) -> bool {
    let is_small = (START..START + SMALL).contains(&address);
    (LARGE..MAPPED_GIB * HUGE).contains(&address)
        && (!is_small || rights(address / PAGE * PAGE).is_some())
}

/// Returns whether all of `range` is mapped as Device memory.
pub fn is_device_memory(range: &Range<u64>) -> bool {
    let gib = HUGE as u64;
    !range.is_empty()
        && range.start >= LARGE as u64
        && range.end <= MAPPED_GIB as u64 * gib
        && !tree::touches_ram(&(range.start / gib * gib..range.end.next_multiple_of(gib)))
}

/// Returns whether `address` is in a guard page: a stack overflow.
pub fn is_stack_overflow(address: usize) -> bool {
    is_guard(address)
}

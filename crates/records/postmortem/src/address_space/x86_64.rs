//! Page tables of x86-64: 4 or 5 levels, pages of 4 KiB, 2 MiB and 1 GiB (Intel's SDM, volume 3A,
//! 4.5).

use super::tables::{Entry, Tables};
use crate::vmcoreinfo::Vmcoreinfo;

/// Bits of a table's entry.
const PRESENT: u64 = 1;
const LARGE: u64 = 1 << 7;

/// Bits of an entry that hold an address.
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// Start of the mapping of the kernel's image (Linux's `__START_KERNEL_map`), and its largest size
/// with KASLR.
const IMAGE: u64 = 0xffff_ffff_8000_0000;
const IMAGE_SIZE: u64 = 1 << 30;

/// Returns the tables of a kernel; `None` if it is of another processor.
pub(super) fn tables(info: &Vmcoreinfo) -> Option<Tables> {
    let phys_base = info.number("phys_base")?.cast_unsigned();
    let root = info
        .symbol("init_top_pgt")
        .or_else(|| info.symbol("swapper_pg_dir"))?;
    let physical = |virt: u64| virt.wrapping_sub(IMAGE).wrapping_add(phys_base);
    let has_five_levels = info.number("pgtable_l5_enabled") == Some(1);
    Some(Tables {
        decode,
        bits: if has_five_levels { 57 } else { 48 },
        page_bits: 12,
        ignored: info.number("sme_mask").unwrap_or(0).cast_unsigned(),
        root,
        physical_root: physical(root),
        image: (IMAGE, IMAGE_SIZE, physical(IMAGE)),
        is_pc: true,
    })
}

fn decode(tables: &Tables, entry: u64, shift: u32) -> Entry {
    let address = entry & ADDRESS & !tables.ignored;
    if entry & PRESENT == 0 {
        Entry::Absent
    } else if shift == 12 {
        Entry::Leaf(address)
    } else if matches!(shift, 21 | 30) && entry & LARGE != 0 {
        // Below the address is one bit of the memory's type.
        Entry::Leaf(address & !((1 << shift) - 1))
    } else {
        Entry::Table(address)
    }
}

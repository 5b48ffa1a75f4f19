//! Page tables of arm64, for the kernel's half of the address space (Arm Architecture Reference
//! Manual for A-profile, D8.2 and D8.3).

use super::tables::{Entry, Tables};
use crate::vmcoreinfo::Vmcoreinfo;

/// Bits of an entry: valid, and a table or (in the lowest table) a page.
const VALID: u64 = 1;
const TABLE: u64 = 2;

/// Largest size of the kernel's image that is assumed to be contiguous.
const IMAGE_SIZE: u64 = 64 << 20;

/// Returns the tables of a kernel; `None` if it is of another processor.
pub(super) fn tables(info: &Vmcoreinfo) -> Option<Tables> {
    let offset = info.number("kimage_voffset")?.cast_unsigned();
    let root = info.symbol("swapper_pg_dir")?;
    let page_size: u64 = info.value("PAGESIZE")?.parse().ok()?;
    if !matches!(page_size, 0x1000 | 0x4000 | 0x1_0000) {
        return None;
    }
    // The kernel may use fewer bits than it was built for. With pages of 64 KiB it has the same
    // tables then, and the processor is given the address of an entry within the top-level one.
    let bits = match info.number("TCR_EL1_T1SZ") {
        Some(unused) if page_size < 0x1_0000 => 64_i64.checked_sub(unused)?,
        _ => info.number("VA_BITS")?,
    };
    let bits = u32::try_from(bits)
        .ok()
        .filter(|bits| (36..=52).contains(bits))?;
    let text = info.symbol("_stext")?;
    Some(Tables {
        decode,
        bits,
        page_bits: page_size.trailing_zeros(),
        ignored: 0,
        root,
        physical_root: root.wrapping_sub(offset),
        image: (text, IMAGE_SIZE, text.wrapping_sub(offset)),
        is_pc: false,
    })
}

fn decode(tables: &Tables, entry: u64, shift: u32) -> Entry {
    let page = (1_u64 << tables.page_bits) - 1;
    let mut address = entry & 0x0000_ffff_ffff_ffff & !page;
    // Bits 48 to 51 of an address, with 64 KiB pages. With smaller ones they are used with 52 bits
    // only, together with bit 48 and 49 of the entry.
    if tables.page_bits == 16 {
        address |= (entry & 0xf000) << 36;
    } else if tables.bits == 52 {
        address = entry & 0x0003_ffff_ffff_ffff & !page | (entry & 0x300) << 42;
    }
    match (entry & VALID != 0, entry & TABLE != 0) {
        (false, _) => Entry::Absent,
        (true, true) if shift == tables.page_bits => Entry::Leaf(address),
        (true, true) => Entry::Table(address),
        (true, false) if shift == tables.page_bits => Entry::Absent,
        (true, false) => Entry::Leaf(address & !((1 << shift) - 1)),
    }
}

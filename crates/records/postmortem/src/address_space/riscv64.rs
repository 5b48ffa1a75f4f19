//! Page tables of 64-bit RISC-V: Sv39, Sv48 and Sv57 (the RISC-V Instruction Set Manual, volume II,
//! "Supervisor-Level ISA").

use super::tables::{Entry, Tables};
use crate::vmcoreinfo::Vmcoreinfo;

/// Bits of an entry: valid; and of memory, that may be read, written or executed.
const VALID: u64 = 1;
const LEAF: u64 = 0b1110;

/// Bit of an entry that is one of several for the same memory (Svnapot). Its address has another form,
/// which is not read.
const NAPOT: u64 = 1 << 63;

/// Largest size of the kernel's image that is assumed to be contiguous.
const IMAGE_SIZE: u64 = 64 << 20;

/// Returns the tables of a kernel; `None` if it is of another processor.
pub(super) fn tables(info: &Vmcoreinfo) -> Option<Tables> {
    let offset = info.number("va_kernel_pa_offset")?.cast_unsigned();
    let root = info.symbol("swapper_pg_dir")?;
    let bits = u32::try_from(info.number("VA_BITS")?).ok()?;
    if !matches!(bits, 39 | 48 | 57) {
        return None;
    }
    let text = info.symbol("_stext")?;
    Some(Tables {
        decode,
        bits,
        page_bits: 12,
        ignored: 0,
        root,
        physical_root: root.wrapping_sub(offset),
        image: (text, IMAGE_SIZE, text.wrapping_sub(offset)),
        is_pc: false,
    })
}

fn decode(_: &Tables, entry: u64, shift: u32) -> Entry {
    let address = entry >> 10 << 12 & 0x00ff_ffff_ffff_f000;
    if entry & VALID == 0 || entry & NAPOT != 0 {
        Entry::Absent
    } else if entry & LEAF == 0 {
        Entry::Table(address)
    } else {
        Entry::Leaf(address & !((1 << shift) - 1))
    }
}

//! Page tables of any processor: entries that lead to tables or to memory.

/// A page table entry, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// No memory is mapped there.
    Absent,
    /// Physical address of the next table.
    Table(u64),
    /// Physical address of the mapped memory.
    Leaf(u64),
}

/// Format of a kernel's page tables, and the address of the top-level table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tables {
    /// Decodes an entry, for memory whose size is 2 to the power of the second argument.
    pub decode: fn(&Tables, u64, u32) -> Entry,
    /// Bits of addresses that are translated.
    pub bits: u32,
    /// Bits of an address within a page.
    pub page_bits: u32,
    /// Bits of entries that are no part of an address, such as AMD's encryption bit.
    pub ignored: u64,
    /// Virtual address of the top-level table.
    pub root: u64,
    /// Its physical address.
    pub physical_root: u64,
    /// The kernel's image as one linear mapping: first address, size, and physical address.
    pub image: (u64, u64, u64),
    /// Whether the machine is a PC: its RAM has a gap below 4 GiB.
    pub is_pc: bool,
}

impl Tables {
    /// Translates an address in the kernel's image, which is contiguous. Returns the physical address,
    /// and the number of bytes up to the image's end.
    pub fn in_image(&self, virt: u64) -> Option<(u64, u64)> {
        let (start, size, physical) = self.image;
        let inside = virt.wrapping_sub(start);
        (inside < size).then(|| (physical.wrapping_add(inside), size - inside))
    }

    /// Size of a page in bytes.
    pub const fn page(&self) -> u64 {
        1 << self.page_bits
    }

    /// Bits of an index into a table.
    pub const fn index_bits(&self) -> u32 {
        self.page_bits - 3
    }

    /// Returns the number of bits that the top-level table's entries leave to lower tables.
    pub fn top_shift(&self) -> u32 {
        let mut shift = self.page_bits;
        while shift + self.index_bits() < self.bits {
            shift += self.index_bits();
        }
        shift
    }

    /// Returns the offset of the entry for an address in a table whose entries map 2^`shift` bytes.
    pub fn entry_offset(&self, virt: u64, shift: u32) -> u64 {
        let bits = self.index_bits().min(self.bits - shift);
        ((virt >> shift) & ((1 << bits) - 1)) * 8
    }

    /// Translates an address with tables read by `entry`. Returns the physical address, and the
    /// number of bytes that are contiguous from there on.
    pub fn walk(&self, virt: u64, entry: impl Fn(u64) -> Option<u64>) -> Walk {
        let mut table = self.physical_root;
        let mut shift = self.top_shift();
        loop {
            let Some(entry) = table
                .checked_add(self.entry_offset(virt, shift))
                .and_then(&entry)
            else {
                return Walk::Lost;
            };
            match (self.decode)(self, entry, shift) {
                Entry::Absent => return Walk::Absent,
                Entry::Leaf(physical) => {
                    let inside = virt & ((1 << shift) - 1);
                    return Walk::Mapped(physical + inside, (1 << shift) - inside);
                }
                Entry::Table(_) if shift == self.page_bits => return Walk::Absent,
                Entry::Table(next) => table = next,
            }
            shift -= self.index_bits();
        }
    }
}

/// Result of a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Walk {
    /// Physical address, and the number of bytes that are contiguous from there on.
    Mapped(u64, u64),
    /// No memory is mapped there.
    Absent,
    /// The dump lacks a table.
    Lost,
}

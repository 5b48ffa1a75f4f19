//! The virtual memory of a Linux kernel: its page tables, in the memory of a dump.
//!
//! x86-64 with 4 and 5 levels, and arm64 with pages of 4, 16 and 64 KiB. VMCOREINFO has the address
//! of the top-level table. In a raw file the addresses are file offsets, so the positions of the
//! machine's RAM in the file are [solved](RamLayout) first.

mod arm64;
mod layout;
mod x86_64;

use std::cell::Cell;

use crate::memory::DumpFormat;
use crate::memory::container::{self, Chunk, Container};
use crate::vmcoreinfo::Vmcoreinfo;
pub use layout::RamLayout;

/// Maximum number of bytes that are copied at once.
const MOST_COPIED: usize = 1 << 20;

/// A page table entry, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    /// No memory is mapped there.
    Absent,
    /// Physical address of the next table.
    Table(u64),
    /// Physical address of the mapped memory.
    Leaf(u64),
}

/// Format of a kernel's page tables, and the address of the top-level table.
#[derive(Clone, Copy, Debug)]
struct Tables {
    /// Decodes an entry, for memory whose size is 2 to the power of the second argument.
    decode: fn(&Tables, u64, u32) -> Entry,
    /// Bits of addresses that are translated.
    bits: u32,
    /// Bits of an address within a page.
    page_bits: u32,
    /// Bits of entries that are no part of an address, such as AMD's encryption bit.
    ignored: u64,
    /// Virtual address of the top-level table.
    root: u64,
    /// Its physical address.
    physical_root: u64,
    /// The kernel's image as one linear mapping: first address, size, and physical address.
    image: (u64, u64, u64),
}

impl Tables {
    fn of(info: &Vmcoreinfo) -> Option<Self> {
        x86_64::tables(info).or_else(|| arm64::tables(info))
    }

    /// Translates an address in the kernel's image, which is contiguous. Returns the physical address,
    /// and the number of bytes up to the image's end.
    fn in_image(&self, virt: u64) -> Option<(u64, u64)> {
        let (start, size, physical) = self.image;
        let inside = virt.wrapping_sub(start);
        (inside < size).then(|| (physical.wrapping_add(inside), size - inside))
    }

    /// Size of a page in bytes.
    const fn page(&self) -> u64 {
        1 << self.page_bits
    }

    /// Bits of an index into a table.
    const fn index_bits(&self) -> u32 {
        self.page_bits - 3
    }

    /// Returns the number of bits that the top-level table's entries leave to lower tables.
    fn top_shift(&self) -> u32 {
        let mut shift = self.page_bits;
        while shift + self.index_bits() < self.bits {
            shift += self.index_bits();
        }
        shift
    }

    /// Returns the offset of the entry for an address in a table whose entries map 2^`shift` bytes.
    fn entry_offset(&self, virt: u64, shift: u32) -> u64 {
        let bits = self.index_bits().min(self.bits - shift);
        ((virt >> shift) & ((1 << bits) - 1)) * 8
    }

    /// Translates an address with tables read by `entry`. Returns the physical address, and the
    /// number of bytes that are contiguous from there on.
    fn walk(&self, virt: u64, entry: impl Fn(u64) -> Option<u64>) -> Walk {
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
enum Walk {
    /// Physical address, and the number of bytes that are contiguous from there on.
    Mapped(u64, u64),
    /// No memory is mapped there.
    Absent,
    /// The dump lacks a table.
    Lost,
}

/// The virtual memory of a kernel.
#[derive(Debug)]
pub(crate) struct AddressSpace<'a> {
    memory: &'a dyn Container,
    tables: Tables,
    layout: RamLayout,
    /// The latest translation: first address, physical address, and size.
    latest: Cell<(u64, u64, u64)>,
}

impl<'a> AddressSpace<'a> {
    /// Returns the possible views of the memory of the kernel that a VMCOREINFO describes, none if
    /// it is of another processor. Only a raw file without page tables has several.
    ///
    /// `pointer` is the address of a pointer of the kernel's image into its image. `searches` is the
    /// number of times that a file may be searched.
    pub fn all(
        memory: &'a dyn Container,
        info: &Vmcoreinfo,
        pointer: u64,
        searches: &mut usize,
    ) -> Vec<Self> {
        let Some(tables) = Tables::of(info) else {
            return Vec::new();
        };
        let layouts = match memory.facts().format {
            DumpFormat::RAW => RamLayout::solve(memory, &tables, pointer, searches),
            _ => vec![RamLayout::identity()],
        };
        let spaces = layouts.into_iter().map(|layout| Self {
            memory,
            tables,
            layout,
            latest: Cell::new((0, 0, 0)),
        });
        spaces.collect()
    }

    /// Returns the positions of RAM in the file.
    pub fn layout(&self) -> &RamLayout {
        &self.layout
    }

    /// Returns the place of an address in the dump, and the number of bytes that are contiguous from
    /// there on.
    pub fn place(&self, virt: u64) -> Option<(u64, u64)> {
        let (start, physical, len) = self.latest.get();
        let inside = virt.wrapping_sub(start);
        if inside >= len {
            let (physical, len) = self.translate(virt)?;
            self.latest.set((virt, physical, len));
            return self.layout.place(physical, len);
        }
        self.layout.place(physical + inside, len - inside)
    }

    fn translate(&self, virt: u64) -> Option<(u64, u64)> {
        let word = |at| self.layout.word(self.memory, at);
        let has_tables = self.layout.has_tables();
        match has_tables.then(|| self.tables.walk(virt, word)) {
            Some(Walk::Mapped(physical, len)) => Some((physical, len)),
            Some(Walk::Absent) => None,
            Some(Walk::Lost) | None => self.tables.in_image(virt),
        }
    }

    /// Reads bytes; `None` if the dump lacks any of them, or if they are more than 1 MiB.
    pub fn read(&self, virt: u64, len: usize) -> Option<Vec<u8>> {
        if len > MOST_COPIED {
            return None;
        }
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let virt = virt.checked_add(bytes.len() as u64)?;
            let (at, there) = self.place(virt)?;
            let left = (len - bytes.len()).min(usize::try_from(there).unwrap_or(usize::MAX));
            let Chunk::Bytes(chunk) = self.memory.chunk(at, left) else {
                return None;
            };
            bytes.extend_from_slice(&chunk);
        }
        Some(bytes)
    }

    /// Reads a word of 64 bits.
    pub fn word(&self, virt: u64) -> Option<u64> {
        let bytes = self.read(virt, 8)?;
        Some(u64::from_le_bytes(*bytes.first_chunk()?))
    }
}

/// Reads a word of 64 bits of a dump.
fn word(memory: &dyn Container, at: u64) -> Option<u64> {
    let bytes = container::read(memory, at, 8, 8)?;
    Some(u64::from_le_bytes(*bytes.first_chunk()?))
}

//! The virtual memory of a Linux kernel: its page tables, in the memory of a dump.
//!
//! x86-64 with 4 and 5 levels, arm64 with pages of 4, 16 and 64 KiB, and RISC-V with 3 to 5 levels.
//! VMCOREINFO has the address of the top-level table. In a raw file the addresses are file offsets, so
//! the positions of the machine's RAM in the file are [solved](RamLayout) first.

mod arm64;
mod layout;
mod riscv64;
mod stream;
mod tables;
mod x86_64;

use std::cell::Cell;

use crate::memory::DumpFormat;
use crate::memory::container::{Chunk, Container};
use crate::vmcoreinfo::Vmcoreinfo;
pub use layout::RamLayout;
pub(crate) use stream::Stream;
use tables::{Tables, Walk};

/// Maximum number of bytes that are copied at once.
const MOST_COPIED: usize = 1 << 20;

/// Number of translations that are kept: a log's record is in three arrays.
const LATEST: usize = 4;

/// Source of the translations.
#[derive(Debug)]
enum Mapping {
    Tables(Tables),
    Parts(Vec<MappedPart>),
}

/// A mapped part of the virtual memory that is contiguous in the dump.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MappedPart {
    pub virt: u64,
    pub physical: u64,
    pub len: u64,
}

/// The virtual memory of a kernel.
#[derive(Debug)]
pub(crate) struct AddressSpace<'a> {
    memory: &'a dyn Container,
    mapping: Mapping,
    layout: RamLayout,
    /// The latest translations, from the newest: first address, physical address, and size.
    latest: Cell<[(u64, u64, u64); LATEST]>,
}

impl<'a> AddressSpace<'a> {
    /// Returns the possible views of the memory of the kernel that a VMCOREINFO describes, none if
    /// it is of another processor. Only a raw file has several.
    ///
    /// `pointer` is the address of a pointer of the kernel's image into its image. `searches` is the
    /// number of times that a file may be searched.
    pub fn all(
        memory: &'a dyn Container,
        info: &Vmcoreinfo,
        pointer: u64,
        searches: &mut usize,
    ) -> Vec<Self> {
        let processors = [x86_64::tables, arm64::tables, riscv64::tables];
        let Some(tables) = processors.iter().find_map(|tables| tables(info)) else {
            return Vec::new();
        };
        let layouts = match memory.facts().format {
            DumpFormat::RAW => RamLayout::solve(memory, &tables, pointer, searches),
            _ => vec![RamLayout::identity()],
        };
        let spaces = layouts.into_iter().map(|layout| Self {
            memory,
            mapping: Mapping::Tables(tables),
            layout,
            latest: Cell::default(),
        });
        spaces.collect()
    }

    /// Returns the view of these parts alone, at addresses of the dump.
    pub fn of_parts(memory: &'a dyn Container, parts: Vec<MappedPart>) -> Self {
        Self {
            memory,
            mapping: Mapping::Parts(parts),
            layout: match memory.facts().format {
                DumpFormat::RAW => RamLayout::unknown(),
                _ => RamLayout::identity(),
            },
            latest: Cell::default(),
        }
    }

    /// Returns the positions of RAM in the file.
    pub fn layout(&self) -> &RamLayout {
        &self.layout
    }

    /// Returns the place of an address in the dump, and the number of bytes that are contiguous from
    /// there on.
    pub fn place(&self, virt: u64) -> Option<(u64, u64)> {
        let mut latest = self.latest.get();
        let has = |(start, _, len): &(u64, u64, u64)| virt.wrapping_sub(*start) < *len;
        let Some((start, physical, len)) = latest.into_iter().find(has) else {
            let (physical, len) = self.translate(virt)?;
            latest.rotate_right(1);
            latest[0] = (virt, physical, len);
            self.latest.set(latest);
            return self.layout.place(physical, len);
        };
        let inside = virt.wrapping_sub(start);
        self.layout
            .place(physical.checked_add(inside)?, len - inside)
    }

    fn translate(&self, virt: u64) -> Option<(u64, u64)> {
        let tables = match &self.mapping {
            Mapping::Tables(tables) => tables,
            Mapping::Parts(parts) => {
                return parts.iter().find_map(|part| {
                    let inside = virt.checked_sub(part.virt)?;
                    let left = part.len.checked_sub(inside).filter(|left| *left > 0)?;
                    Some((part.physical.checked_add(inside)?, left))
                });
            }
        };
        let word = |at| self.layout.word(self.memory, at);
        let has_tables = self.layout.has_tables();
        match has_tables.then(|| tables.walk(virt, word)) {
            Some(Walk::Mapped(physical, len)) => Some((physical, len)),
            Some(Walk::Absent) => None,
            Some(Walk::Lost) | None => tables.in_image(virt),
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

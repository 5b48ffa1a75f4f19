//! Names for the addresses in a trace, as the kernel that wrote it would print them.
//!
//! A table comes from a `System.map` (also gzipped), from `/proc/kallsyms`, from `nm -n`, or from
//! an ELF file with a symbol table (`vmlinux`). It contains linked addresses. A kernel that was
//! loaded elsewhere (KASLR) prints its offset in its panic message ([`kernel_offset`]). If that is
//! lost, [`Symbols::solve_offset`] derives the offset from the trace.
//!
//! The choice of an address's name and the length of a function follow Linux's kallsyms (table.rs).
//!
//! ```
//! use nostall_postmortem::symbols::Symbols;
//!
//! let map = b"81000000 T _stext\n81000010 T panic\n81000150 t panic_other_cpus\n81000160 T _etext\n";
//! let symbols = Symbols::parse(map)?.with_offset(0x1e80_0000);
//! let symbol = symbols.lookup(0x9f80_009c).unwrap();
//! assert_eq!(symbol.name, "panic");
//! assert_eq!(symbol.to_string(), "panic+0x8c/0x140");
//! # Ok::<(), nostall_postmortem::symbols::Error>(())
//! ```

mod elf;
mod error;
mod nm;
mod offset;
mod table;

use std::borrow::Cow;
use std::path::Path;

use zlib_rs::Inflate;

use crate::decompress::drain;
use crate::memory::{self, Bytes, foreign};
use table::Table;

pub use error::Error;
pub use offset::{Solved, kernel_offset};
pub use table::{MAX_UNPACKED, Symbol};

/// A kernel's symbols.
#[derive(Clone, Debug)]
pub struct Symbols {
    table: Table,
    offset: u64,
    build_id: Vec<u8>,
}

impl Symbols {
    /// Loads the symbols of a file.
    ///
    /// # Errors
    ///
    /// [`Error`] if the file cannot be read or has no symbols.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        match Bytes::open(path.as_ref()) {
            Ok(bytes) => {
                let parsed = Self::parse(&bytes);
                bytes.check().map_err(Error::from).and(parsed)
            }
            Err(memory::Error::TooLarge(_)) => Err(Error::TooLarge),
            Err(error) => Err(error.into()),
        }
    }

    /// Parses the symbols in a file's bytes.
    ///
    /// # Errors
    ///
    /// [`Error`] if there are no symbols.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let bytes = unpack(bytes)?;
        let mut build_id = Vec::new();
        let table = if bytes.starts_with(&object::elf::ELFMAG) {
            build_id = elf::build_id(&bytes).unwrap_or_default();
            elf::table(&bytes)
        } else if let Some(error) = foreign::compressed(&bytes) {
            Err(error.into())
        } else {
            nm::table(&bytes)
        }?;
        Ok(Self {
            table,
            offset: 0,
            build_id,
        })
    }

    /// Returns the symbols for a kernel that was loaded `offset` above its linked address.
    pub fn with_offset(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    /// Returns the build ID in the note of an ELF file; empty for any other table, or without a
    /// note.
    pub fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    /// Returns the assumed distance of the kernel above its linked addresses.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the symbol that contains an address; `None` if the table's code does not cover the
    /// address.
    pub fn lookup(&self, address: u64) -> Option<Symbol<'_>> {
        self.table.lookup(address.wrapping_sub(self.offset))
    }

    /// Returns the linked address of a symbol that [`ftrace_ring`](crate::ftrace_ring) needs.
    pub(crate) fn linked_address(&self, mark: &str) -> Option<u64> {
        self.table.mark(mark)
    }

    /// Returns the number of symbols; several names for one address count once.
    pub fn len(&self) -> usize {
        self.table.starts().len()
    }

    /// Returns whether there are no symbols. [Parsed](Self::parse) tables are never empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the contents of a gzipped file; any other file as it is.
fn unpack(bytes: &[u8]) -> Result<Cow<'_, [u8]>, Error> {
    /// zlib's value for "gzip, with any window".
    const GZIP: u8 = 16 + 15;

    if !bytes.starts_with(b"\x1f\x8b") {
        return Ok(Cow::Borrowed(bytes));
    }
    match drain(&mut Inflate::new(true, GZIP), bytes, MAX_UNPACKED) {
        Ok((_, unpacked)) => Ok(Cow::Owned(unpacked)),
        Err(Some(_)) => Err(Error::TooLarge),
        Err(None) => Err(Error::Damaged("its gzip stream is cut off or invalid")),
    }
}

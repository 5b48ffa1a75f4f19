//! Errors of reading symbols.

use crate::image;

/// Why there are no symbols.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read, or is of a kind that cannot be used.
    #[error(transparent)]
    File(#[from] image::Error),
    /// It is not text of the right form, and not ELF.
    #[error("no symbol table; give the System.map or vmlinux of the kernel that wrote the records")]
    NoTable,
    /// A table in which every address is zero.
    #[error(
        "all addresses are zero: /proc/kallsyms hides them; read it as root, or set kernel.kptr_restrict to 0"
    )]
    Hidden,
    /// An ELF file without symbols.
    #[error("this ELF file has no symbols; use one that was not stripped, or its System.map")]
    Stripped,
    /// An ELF file whose addresses are not those in memory.
    #[error(
        "an object file or module has no addresses yet; use a copy of /proc/kallsyms of the running kernel"
    )]
    Relocatable,
    /// A damaged ELF file or gzip stream.
    #[error("the file is damaged: {0}; copy it again from where the kernel was built")]
    Damaged(&'static str),
    /// More symbols, or longer ones, than any kernel has.
    #[error("too large for the symbols of a kernel; use its System.map")]
    TooLarge,
}

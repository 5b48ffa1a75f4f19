//! Errors of reading symbols.

use crate::memory;

/// Reason why symbols could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be read, or has an unusable format.
    #[error(transparent)]
    File(#[from] memory::Error),
    /// The file is neither a symbol table as text nor ELF.
    #[error("no symbol table; give the System.map or vmlinux of the kernel that wrote the records")]
    NoTable,
    /// All addresses in the table are zero.
    #[error(
        "all addresses are zero: /proc/kallsyms hides them; read it as root, or set kernel.kptr_restrict to 0"
    )]
    Hidden,
    /// The ELF file has no symbols.
    #[error("this ELF file has no symbols; use one that was not stripped, or its System.map")]
    Stripped,
    /// The ELF file's addresses are not those in memory.
    #[error(
        "an object file or module has no addresses yet; use a copy of /proc/kallsyms of the running kernel"
    )]
    Relocatable,
    /// The ELF file or gzip stream is damaged.
    #[error("the file is damaged: {0}; copy it again from where the kernel was built")]
    Damaged(&'static str),
    /// The table is larger than that of any kernel.
    #[error("too large for the symbols of a kernel; use its System.map")]
    TooLarge,
}

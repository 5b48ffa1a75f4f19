//! File that may be a trace, and the options for reading it.

use std::path::{Path, PathBuf};

/// Options for reading a trace.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Options {
    /// Symbols that name the functions: System.map, output of nm, or an ELF file with symbols
    ///
    /// For recordings that store addresses. The file of a program is found without this option if
    /// it still has the build ID in the recording.
    #[arg(long, value_name = "FILE")]
    pub symbols: Option<PathBuf>,

    /// Formats of Linux's trace events: a copy of tracefs's directory `events`, or its format files
    /// joined to one file
    ///
    /// For Linux's persistent ring buffers. Without formats, events are numbers.
    #[arg(long, value_name = "PATH")]
    pub event_formats: Option<PathBuf>,
}

/// File that may be a trace.
pub struct Candidate<'a> {
    pub path: &'a Path,
    /// First bytes of the file, at most 64 KiB.
    pub head: &'a [u8],
    pub options: &'a Options,
}

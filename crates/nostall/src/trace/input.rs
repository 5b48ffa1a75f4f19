//! Opens a trace of any kind.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use nostall_postmortem::cli::read_or;
use nostall_postmortem::memory::MAX_READ;
use nostall_tracefile::model::Source;
use nostall_tracefile::read::{is_dat, looks_like_text, open_dat, open_text};
use tempfile::NamedTempFile;

pub use super::candidate::{Candidate, Options};
use super::{memory, region};
use crate::escape::escape_name;

/// Number of bytes at a file's start from which its kind is detected.
const HEAD: u64 = 64 * 1024;

/// Opens the file if it is of this kind.
type Opener = fn(&Candidate<'_>) -> Result<Option<Box<dyn Source>>>;

/// Kinds of traces. The first that accepts the file is used, so the least specific are last.
const OPENERS: &[Opener] = &[region::open, dat, text, memory::open];

/// Returns the name of an input for messages.
pub fn name(path: &Path) -> String {
    match is_stdin(path) {
        true => "standard input".to_owned(),
        false => escape_name(&path.to_string_lossy()),
    }
}

/// Returns whether the path stands for standard input.
pub fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens the trace in a file, or on standard input.
///
/// # Errors
///
/// If the file cannot be read or holds no trace.
pub fn open(path: &Path, options: &Options) -> Result<Box<dyn Source>> {
    let name = name(path);
    let opened = match is_stdin(path) {
        true => copied().and_then(|copy| try_open(copy.path(), options)),
        false => try_open(path, options),
    };
    let opened = opened.with_context(|| name.clone())?;
    match opened {
        Some(source) => Ok(source),
        None => bail!(
            "{name}: no trace of a known kind: nostall reads its own recordings, trace.dat of \
             trace-cmd, text of ftrace, and images of crashed machines"
        ),
    }
}

/// Refuses directories, pipes and devices. A pipe is not opened: that would block, and it cannot be
/// read twice.
pub fn ensure_file(path: &Path) -> Result<()> {
    let kind = std::fs::metadata(path)?.file_type();
    ensure!(!kind.is_dir(), "this is a directory");
    ensure!(
        kind.is_file(),
        "not a file, which can be read twice: give its contents on standard input, as -"
    );
    Ok(())
}

/// Copies standard input to a file, which can be read twice.
fn copied() -> Result<NamedTempFile> {
    let too_large = || anyhow!("more than {} MiB: write it to a file first", MAX_READ >> 20);
    let bytes = read_or(Path::new("-"), MAX_READ, too_large)?;
    let mut copy = NamedTempFile::new().context("a copy of it")?;
    copy.write_all(&bytes).context("a copy of it")?;
    Ok(copy)
}

fn try_open(path: &Path, options: &Options) -> Result<Option<Box<dyn Source>>> {
    ensure_file(path)?;
    let mut head = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    let candidate = Candidate {
        path,
        head: &head,
        options,
    };
    for opener in OPENERS {
        if let Some(source) = opener(&candidate)? {
            return Ok(Some(source));
        }
    }
    Ok(None)
}

/// Opens a file of trace-cmd.
fn dat(candidate: &Candidate<'_>) -> Result<Option<Box<dyn Source>>> {
    if !is_dat(candidate.head) {
        return Ok(None);
    }
    let file = BufReader::new(File::open(candidate.path)?);
    Ok(Some(Box::new(open_dat(file)?)))
}

/// Opens text of ftrace or of `trace-cmd report`.
fn text(candidate: &Candidate<'_>) -> Result<Option<Box<dyn Source>>> {
    if !looks_like_text(candidate.head) {
        return Ok(None);
    }
    let file = File::open(candidate.path)?;
    let length = file.metadata()?.len();
    let file = BufReader::with_capacity(1 << 20, file);
    Ok(Some(Box::new(open_text(file, length))))
}

//! Opens a trace of any kind.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use anyhow::{Context, Result, bail};
use nostall_trace::model::Source;

use crate::escape::escape_name;

/// Bytes from the start of a file that decide on its kind.
const HEAD: u64 = 64 * 1024;

/// Opens `path` if `head`, the start of its contents, is of this kind.
type Opener = fn(path: &Path, head: &[u8]) -> Result<Option<Box<dyn Source>>>;

/// Kinds of traces. The first that fits is used, so the vaguest are last.
const OPENERS: &[Opener] = &[];

/// Opens the trace in a file.
///
/// # Errors
///
/// If the file cannot be read or holds no trace.
pub fn open(path: &Path) -> Result<Box<dyn Source>> {
    let name = escape_name(&path.to_string_lossy());
    let opened = try_open(path).with_context(|| name.clone())?;
    match opened {
        Some(source) => Ok(source),
        None => bail!(
            "{name}: no trace of a known kind: nostall reads its own recordings, trace.dat of \
             trace-cmd, text of ftrace, and images of crashed machines"
        ),
    }
}

fn try_open(path: &Path) -> Result<Option<Box<dyn Source>>> {
    let mut file = File::open(path)?;
    if file.metadata()?.is_dir() {
        bail!("this is a directory");
    }
    let mut head = Vec::new();
    file.by_ref().take(HEAD).read_to_end(&mut head)?;
    // An opener opens the file again: a pipe would have lost its start.
    file.rewind().context("not a file that can be read twice")?;
    for opener in OPENERS {
        if let Some(source) = opener(path, &head)? {
            return Ok(Some(source));
        }
    }
    Ok(None)
}

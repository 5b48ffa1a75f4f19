//! Opens a trace of any kind.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, bail};
use nostall_trace::model::Source;
use nostall_trace::read::{looks_like_text, open_text};

use crate::escape::escape_name;

/// Bytes from the start of a file that decide on its kind.
const HEAD: u64 = 64 * 1024;

/// Opens `path` if `head`, the start of its contents, is of this kind.
type Opener = fn(path: &Path, head: &[u8]) -> Result<Option<Box<dyn Source>>>;

/// Kinds of traces. The first that fits is used, so the vaguest are last.
const OPENERS: &[Opener] = &[text];

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
    // A pipe is not opened: it would block, and an opener could not open it again.
    let kind = std::fs::metadata(path)?.file_type();
    if kind.is_dir() {
        bail!("this is a directory");
    }
    if !kind.is_file() {
        bail!("not a file, which can be read twice: write its contents to one first");
    }
    let mut head = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    for opener in OPENERS {
        if let Some(source) = opener(path, &head)? {
            return Ok(Some(source));
        }
    }
    Ok(None)
}

/// Text of ftrace and of `trace-cmd report`.
fn text(path: &Path, head: &[u8]) -> Result<Option<Box<dyn Source>>> {
    if !looks_like_text(head) {
        return Ok(None);
    }
    let file = File::open(path)?;
    let length = file.metadata()?.len();
    let file = BufReader::with_capacity(1 << 20, file);
    Ok(Some(Box::new(open_text(file, length))))
}

//! Records as files in a directory.

use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use super::escape::escape_name;
use super::output::NotWritten;
use crate::{Content, Packing, Record};

/// Returns Linux's name for a record's file.
pub fn name(record: &Record<'_>) -> String {
    let extension = match &record.content {
        Content::Dmesg(dmesg) if dmesg.packing == Packing::Packed => ".enc.z",
        _ => "",
    };
    format!("{}-ramoops-{}{extension}", record.kind(), record.index)
}

/// Creates the directory if necessary. Fails if one of the files exists and `force` is not set.
pub fn prepare(folder: &Path, names: &[String], force: bool) -> Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| shown(folder))
        .map_err(NotWritten::from)?;
    for path in names.iter().map(|name| folder.join(name)) {
        if !force && path.symlink_metadata().is_ok() {
            bail!(
                "{} exists, and nothing was written; give --force to overwrite it, or another folder",
                shown(&path)
            );
        }
    }
    Ok(())
}

/// Returns a path for a message, without characters that control a terminal.
fn shown(path: &Path) -> String {
    escape_name(&path.to_string_lossy())
}

/// Writes one file. `seconds` is its modification time, if it is not the current time.
pub fn write<T>(
    folder: &Path,
    name: &str,
    seconds: Option<i64>,
    force: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> Result<T> {
    let path = folder.join(name);
    let written = try_write(&path, seconds, force, write);
    let written = written.with_context(|| shown(&path));
    Ok(written.map_err(NotWritten::from)?)
}

fn try_write<T>(
    path: &Path,
    seconds: Option<i64>,
    force: bool,
    write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> io::Result<T> {
    if force && let Err(error) = fs::remove_file(path) {
        // An existing file is not followed, because it may be a link to another place.
        if error.kind() != ErrorKind::NotFound {
            return Err(error);
        }
    }
    let to = OpenOptions::new().write(true).create_new(true).open(path)?;
    let mut to = BufWriter::new(to);
    let written = write(&mut to)?;
    let to = to.into_inner().map_err(io::IntoInnerError::into_error)?;
    let since_1970 = seconds.and_then(|seconds| seconds.try_into().ok());
    let modified = since_1970
        .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    if let Some(modified) = modified {
        // An unsupported time must not make the whole write fail.
        let _ = to.set_modified(modified);
    }
    Ok(written)
}

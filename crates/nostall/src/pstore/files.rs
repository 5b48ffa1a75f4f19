//! Records as files: in a folder, or one after the other on standard output.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use nostall_pstore::{Content, LinuxFile, Packing, Record};

use super::text;
use crate::output::Style;

/// A file that is to be.
pub struct File {
    /// Its name; ours, not the dead machine's.
    pub name: String,
    /// When it was last modified, if that is not now.
    pub seconds: Option<i64>,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl From<LinuxFile> for File {
    fn from(file: LinuxFile) -> Self {
        Self {
            name: file.name,
            seconds: file.seconds,
            bytes: file.bytes,
        }
    }
}

/// The name that Linux gives a record's file.
pub fn name(record: &Record) -> String {
    let extension = match &record.content {
        Content::Dmesg(dmesg) if dmesg.packing == Packing::Packed => ".enc.z",
        _ => "",
    };
    format!("{}-ramoops-{}{extension}", record.kind(), record.index)
}

/// Writes all files, or none if one of them exists and may not be overwritten.
pub fn write(folder: &Path, files: &[File], force: bool) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    if !force {
        for file in files {
            let path = folder.join(&file.name);
            if path.symlink_metadata().is_ok() {
                bail!(
                    "{} exists, and nothing was written; give --force to overwrite it, or another folder",
                    path.display()
                );
            }
        }
    }
    for file in files {
        let path = folder.join(&file.name);
        write_one(&path, file, force).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn write_one(path: &Path, file: &File, force: bool) -> io::Result<()> {
    if force && let Err(error) = fs::remove_file(path) {
        // Not written through: it may be a link to somewhere else.
        if error.kind() != ErrorKind::NotFound {
            return Err(error);
        }
    }
    let mut to = OpenOptions::new().write(true).create_new(true).open(path)?;
    to.write_all(&file.bytes)?;
    let since_1970 = file.seconds.and_then(|seconds| seconds.try_into().ok());
    let modified = since_1970
        .and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
    if let Some(modified) = modified {
        // A time that the file system does not take is not worth the file.
        let _ = to.set_modified(modified);
    }
    Ok(())
}

/// All files, as `tail` prints several; to a terminal without what it would obey.
pub fn print(files: &[File], style: Style, out: &mut dyn Write) -> io::Result<()> {
    for (nth, file) in files.iter().enumerate() {
        let between = if nth > 0 { "\n" } else { "" };
        writeln!(out, "{between}==> {} <==", file.name)?;
        text::passage(&file.bytes, style, out)?;
    }
    Ok(())
}

//! The images that are meant: files, the files in a directory, standard input.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use nostall_pstore::image::{self, Image};

use super::swap::Swap;
use crate::escape::escape_name;

/// The most that is read into memory: of standard input, or to swap bytes.
const MOST: u64 = 1 << 30;

/// A place to read an image from.
pub enum Input {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl Input {
    /// Returns the inputs that the arguments stand for, `-` being standard input and a
    /// directory all regular files in it and below, in the order of their names.
    pub fn all(paths: &[PathBuf]) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for path in paths {
            if path.as_os_str() == "-" {
                all.push(Self::Stdin);
            } else if path.is_dir() {
                let before = all.len();
                below(path, &mut all).with_context(|| name(path))?;
                ensure!(all.len() > before, "{}: no file in it", name(path));
            } else {
                all.push(Self::File(path.clone()));
            }
        }
        Ok(all)
    }

    /// Opens the image. With a swap, its bytes are put right first, in memory.
    pub fn open(&self, swap: Option<Swap>) -> Result<Image> {
        let image = match (self, swap) {
            (Self::File(path), None) => Image::open(path),
            (Self::File(path), swap) => File::open(path)
                .map_err(image::Error::Io)
                .and_then(|file| in_memory(file, swap)),
            (Self::Stdin, swap) => in_memory(io::stdin().lock(), swap),
        };
        // Not as context: these errors contain their cause.
        image.map_err(|error| anyhow!("{self}: {error}"))
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => f.write_str(&name(path)),
            Self::Stdin => f.write_str("standard input"),
        }
    }
}

/// The regular files in a directory and below. Links are not followed.
fn below(folder: &Path, all: &mut Vec<Input>) -> io::Result<()> {
    let entries: io::Result<Vec<_>> = fs::read_dir(folder)?.collect();
    let mut entries = entries?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let kind = entry.file_type()?;
        if kind.is_dir() {
            below(&entry.path(), all)?;
        } else if kind.is_file() {
            all.push(Input::File(entry.path()));
        }
    }
    Ok(())
}

fn in_memory(from: impl Read, swap: Option<Swap>) -> Result<Image, image::Error> {
    let mut bytes = Vec::new();
    from.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(image::Error::TooLarge);
    }
    if let Some(swap) = swap {
        swap.undo(&mut bytes);
    }
    Image::from_bytes(bytes)
}

fn name(path: &Path) -> String {
    escape_name(&path.to_string_lossy())
}

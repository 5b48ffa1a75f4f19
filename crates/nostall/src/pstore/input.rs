//! The images that are meant: files, the files in a directory, standard input.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use nostall_pstore::image::Image;

use super::swap::Swap;
use crate::escape::escape_name;

/// The most that is read of standard input, as of any pipe.
const MOST_PIPED: u64 = 256 << 20;

/// The most of a file whose bytes are swapped, in memory.
const MOST_SWAPPED: u64 = 1 << 30;

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
            (Self::File(path), swap) => {
                let file = File::open(path).with_context(|| name(path))?;
                Image::from_bytes(self.read(file, MOST_SWAPPED, swap)?)
            }
            (Self::Stdin, swap) => {
                Image::from_bytes(self.read(io::stdin().lock(), MOST_PIPED, swap)?)
            }
        };
        // Not as context: these errors contain their cause.
        image.map_err(|error| anyhow!("{self}: {error}"))
    }

    fn read(&self, from: impl Read, most: u64, swap: Option<Swap>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = from.take(most + 1).read_to_end(&mut bytes);
        read.with_context(|| self.to_string())?;
        ensure!(
            bytes.len() as u64 <= most,
            "{self}: more than {} MiB, too much to be read into memory: give a part of it",
            most >> 20
        );
        if let Some(swap) = swap {
            swap.undo(&mut bytes);
        }
        Ok(bytes)
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

fn name(path: &Path) -> String {
    escape_name(&path.to_string_lossy())
}

//! Input images: files, files in directories, standard input.

use std::fmt;
use std::fs::{self, File, FileType};
use std::io;
use std::path::{Path, PathBuf};

use super::escape::escape_name;
use super::swap::Swap;
use crate::memory::{self, Memory};
use anyhow::{Context, Error, Result, anyhow, bail, ensure};

/// Size limit for a file whose words are swapped, in memory.
const MOST_SWAPPED: usize = 1 << 30;

/// A place to read an image from.
pub enum Input {
    /// A file.
    File(PathBuf),
    /// Parts of a split dump, at least two.
    Split(Vec<PathBuf>),
    /// Standard input.
    Stdin,
    /// A directory that cannot be read, and the system's error.
    Unreadable(PathBuf, io::Error),
}

impl Input {
    /// Returns the inputs that the arguments select. `-` is standard input. A directory stands for
    /// all regular files in it and below, by name. Parts of a split dump are one input.
    pub fn all(paths: &[PathBuf]) -> Result<Vec<Self>> {
        Ok(joined(Self::each(paths)?))
    }

    /// Returns the files that the arguments select.
    fn each(paths: &[PathBuf]) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        for path in paths {
            if path.as_os_str() == "-" {
                all.push(Self::Stdin);
            } else if path.is_dir() {
                let before = all.len();
                below(path, &mut all);
                ensure!(
                    all.len() > before,
                    "{}: no file in it",
                    escape_name(&path.to_string_lossy())
                );
            } else {
                all.push(Self::File(path.clone()));
            }
        }
        Ok(all)
    }

    /// Opens the image. With a swap, its bytes are first corrected in memory.
    pub fn open(&self, swap: Option<Swap>) -> Result<Memory> {
        let image = match (self, swap) {
            (Self::File(path), None) => Memory::open(path),
            (Self::File(path), swap) => {
                let file = memory::open_file(path).map_err(memory::Error::from);
                file.and_then(|file| read(&file, swap))
            }
            (Self::Stdin, swap) => {
                let file = stdin().map_err(memory::Error::from);
                file.and_then(|file| read(&file, swap))
            }
            (Self::Split(paths), None) => Memory::open_split(paths),
            (Self::Split(_), Some(_)) => {
                bail!("{self}: --swap is for images without a format, not for a split dump")
            }
            (Self::Unreadable(_, error), _) => bail!("{self}: {error}"),
        };
        // The error is not added as context, because it contains its cause.
        image.map_err(|error| anyhow!("{self}: {error}"))
    }

    /// Returns the name for programs; they must escape it.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) | Self::Unreadable(path, _) => path.to_string_lossy().into_owned(),
            Self::Split(paths) => {
                let names = paths.iter().map(|path| path.to_string_lossy());
                names.collect::<Vec<_>>().join(", ")
            }
            Self::Stdin => "standard input".to_owned(),
        }
    }
}

/// Reads the file, pipe or device at `path` into memory; `-` is standard input.
///
/// # Errors
///
/// If it has more than `most` bytes or no end, if a pipe sends nothing, or the system's error.
pub fn read_file(path: &Path, most: usize) -> Result<Vec<u8>> {
    let bytes = read_or(path, most, || {
        let mib = most >> 20;
        anyhow!("more than {mib} MiB, or without an end: give a part of it")
    });
    bytes.with_context(|| match path.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => escape_name(&path.to_string_lossy()),
    })
}

/// Reads a file like [`read_file`], without the file's name in errors. `too_large` returns the
/// error for more than `most` bytes.
///
/// # Errors
///
/// Returns the errors of [`read_file`].
pub fn read_or(path: &Path, most: usize, too_large: impl FnOnce() -> Error) -> Result<Vec<u8>> {
    let file = match path.to_str() {
        Some("-") => stdin()?,
        _ => memory::open_file(path)?,
    };
    memory::read_to_end(&file, most).map_err(|error| match error {
        memory::Error::TooLarge(_) => too_large(),
        // Not as a cause, which contexts would print again.
        memory::Error::Io(error) => error.into(),
        error => error.into(),
    })
}

fn read(file: &File, swap: Option<Swap>) -> Result<Memory, memory::Error> {
    let most = match swap {
        Some(_) if file.metadata()?.is_file() => MOST_SWAPPED,
        _ => memory::MAX_READ,
    };
    let mut bytes = memory::read_to_end(file, most)?;
    if let Some(swap) = swap {
        swap.undo(&mut bytes);
    }
    Memory::from_bytes(bytes)
}

/// Returns standard input as a file, so that the time limits of pipes apply.
fn stdin() -> io::Result<File> {
    #[cfg(unix)]
    let file = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?;
    #[cfg(windows)]
    let file = std::os::windows::io::AsHandle::as_handle(&io::stdin()).try_clone_to_owned()?;
    Ok(file.into())
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape_name(&self.name()))
    }
}

/// Joins the parts of split dumps. A joined dump is at the place of its first part.
fn joined(inputs: Vec<Input>) -> Vec<Input> {
    let paths = inputs.iter().filter_map(|input| match input {
        Input::File(path) => Some(path.clone()),
        _ => None,
    });
    let paths: Vec<_> = paths.collect();
    if paths.len() < 2 {
        return inputs;
    }
    let mut groups = memory::group_split(paths).into_iter().peekable();
    let mut all = Vec::new();
    for input in inputs {
        match input {
            // Other paths are in a group that is in `all` already.
            Input::File(path) => {
                if let Some(paths) = groups.next_if(|paths| paths[0] == path) {
                    all.push(match paths.len() {
                        1 => Input::File(path),
                        _ => Input::Split(paths),
                    });
                }
            }
            input => all.push(input),
        }
    }
    all
}

/// Adds the regular files in a directory and below, without following links.
fn below(folder: &Path, all: &mut Vec<Input>) {
    match list(folder) {
        Ok(entries) => {
            for (kind, path) in entries {
                if kind.is_dir() {
                    below(&path, all);
                } else if kind.is_file() {
                    all.push(Input::File(path));
                }
            }
        }
        Err(error) => all.push(Input::Unreadable(folder.to_owned(), error)),
    }
}

/// Returns the entries of a directory, by name.
fn list(folder: &Path) -> io::Result<Vec<(FileType, PathBuf)>> {
    let entries = fs::read_dir(folder)?.map(|entry| {
        let entry = entry?;
        Ok((entry.file_type()?, entry.path()))
    });
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by(|(_, a), (_, b)| a.cmp(b));
    Ok(entries)
}

//! The inputs: files, directories, and lists of these.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use sha2::{Digest, Sha256};

/// Longest line of a list.
const LONGEST_PATH: u64 = 64 << 10;

/// A part of the inputs, selected with the hash of each path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Number of the shard, from 1.
    pub number: u64,
    /// Number of shards.
    pub of: u64,
}

impl Shard {
    /// The only shard.
    pub const ALL: Self = Self { number: 1, of: 1 };

    /// Parses a shard such as `2/16`.
    ///
    /// # Errors
    ///
    /// If the text has another form, or if the number is not from 1 to the number of shards.
    pub fn parse(text: &str) -> Result<Self, String> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            let (number, of) = (number.parse().ok()?, of.parse().ok()?);
            (1..=of).contains(&number).then_some(Self { number, of })
        });
        numbers.ok_or_else(|| format!("not a shard such as 1/4: {text}"))
    }

    /// Returns whether a path, as listed, is in the shard. The first eight bytes of the path's
    /// SHA-256, highest byte first, are a number. Its remainder by the number of shards is the
    /// shard's number minus 1.
    pub fn has(self, path: &Path) -> bool {
        let hash = Sha256::digest(path.as_os_str().as_encoded_bytes());
        let first = hash.first_chunk().copied().map_or(0, u64::from_be_bytes);
        first % self.of == self.number - 1
    }

    /// Returns the part of files' names that distinguishes shards; empty for the only shard.
    pub fn name(self) -> String {
        match self {
            Self::ALL => String::new(),
            Self { number, of } => format!("{number}of{of}-"),
        }
    }
}

/// Checks that each input which is an argument exists.
///
/// # Errors
///
/// If a file, directory or list does not exist.
pub fn check(inputs: &[PathBuf]) -> Result<()> {
    for input in inputs {
        let name = input.to_str().unwrap_or_default();
        let path = name.strip_prefix('@').map_or(&**input, Path::new);
        if name != "-" {
            let found = path.symlink_metadata();
            found.with_context(|| input.to_string_lossy().into_owned())?;
        }
    }
    Ok(())
}

/// Passes each input to `each`. `@FILE` is a list of paths, and `-` a list on standard input. A
/// directory stands for all regular files in it and below, in the order of their names, but not for
/// those of kdump's tools. Links in directories are not followed, and the directory `besides` is left
/// out. A line of a list ends in a line feed. A carriage return before it is part of the name if a
/// file has that name.
///
/// A directory that cannot be read is an input itself, so that its error is not lost.
///
/// # Errors
///
/// If a list cannot be read, if `besides` is an input itself, or if `each` fails.
pub fn all(
    inputs: &[PathBuf],
    besides: &Path,
    each: &mut dyn FnMut(&Path) -> Result<()>,
) -> Result<()> {
    let besides = fs::canonicalize(besides).ok();
    for input in inputs {
        match input.to_str() {
            Some("-") => list(&mut io::stdin().lock(), besides.as_deref(), each),
            Some(name) if name.starts_with('@') => {
                let file = File::open(&name[1..]);
                let read = |file| list(&mut BufReader::new(file), besides.as_deref(), each);
                file.map_err(Into::into).and_then(read)
            }
            _ => below(input, besides.as_deref(), each),
        }
        .with_context(|| input.to_string_lossy().into_owned())?;
    }
    Ok(())
}

fn list(
    lines: &mut dyn BufRead,
    besides: Option<&Path>,
    each: &mut dyn FnMut(&Path) -> Result<()>,
) -> Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = lines.take(LONGEST_PATH).read_until(b'\n', &mut line)?;
        ensure!(
            read < LONGEST_PATH as usize,
            "a line of more than {} KiB is no path: is this a list?",
            LONGEST_PATH >> 10
        );
        if read == 0 {
            return Ok(());
        }
        let path = line.strip_suffix(b"\n").unwrap_or(&line);
        let path = match path.strip_suffix(b"\r") {
            Some(short) if path_of(path).symlink_metadata().is_err() => short,
            _ => path,
        };
        if !path.is_empty() {
            below(&path_of(path), besides, each)?;
        }
    }
}

/// Returns a path with these bytes.
#[cfg(unix)]
pub fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(bytes).into()
}

/// Returns a path with these bytes, which are UTF-8 on this system.
#[cfg(not(unix))]
pub fn path_of(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// Passes a file to `each`, or all regular files in a directory and below.
fn below(
    path: &Path,
    besides: Option<&Path>,
    each: &mut dyn FnMut(&Path) -> Result<()>,
) -> Result<()> {
    if !path.is_dir() {
        return each(path);
    }
    if besides.is_some() && fs::canonicalize(path).ok().as_deref() == besides {
        bail!("the directory of the tables is no input: give another --out");
    }
    // Remaining entries of each directory on the path to the current one.
    let mut way: Vec<(PathBuf, std::vec::IntoIter<(bool, OsString)>)> = Vec::new();
    let mut enter = Some(path.to_owned());
    loop {
        if let Some(folder) = enter.take() {
            match entries(&folder) {
                Ok(entries) => way.push((folder, entries.into_iter())),
                Err(_) => each(&folder)?,
            }
        }
        let Some((folder, entries)) = way.last_mut() else {
            return Ok(());
        };
        match entries.next() {
            Some((is_folder, name)) => {
                let path = folder.join(name);
                if !is_folder {
                    each(&path)?;
                } else if besides.is_none() || fs::canonicalize(&path).ok().as_deref() != besides {
                    enter = Some(path);
                }
            }
            None => drop(way.pop()),
        }
    }
}

/// Returns the directories and regular files in a directory, in the order of their names.
fn entries(folder: &Path) -> io::Result<Vec<(bool, OsString)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        // Files of kdump's tools are no dumps.
        let tools = ["kexec_cmd", "kdump_lock", "kexec-dmesg.log"];
        let is_tool = tools.iter().any(|tool| entry.file_name() == *tool);
        if kind.is_dir() || kind.is_file() && !is_tool {
            entries.push((kind.is_dir(), entry.file_name()));
        }
    }
    entries.sort_unstable_by(|(_, a), (_, b)| a.cmp(b));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_a_number_of_at_least_as_many() {
        assert_eq!(Shard::parse("2/16"), Ok(Shard { number: 2, of: 16 }));
        for wrong in ["", "1", "0/2", "3/2", "1/0", "-1/2", "a/b", "1/2/3"] {
            assert!(Shard::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_path_is_in_one_shard() {
        for number in 0..1000 {
            let path = PathBuf::from(format!("/var/crash/{number}"));
            let shards = (1..=7).filter(|&number| Shard { number, of: 7 }.has(&path));
            assert_eq!(shards.count(), 1);
        }
    }
}

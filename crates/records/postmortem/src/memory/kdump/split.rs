//! Dumps that are split into several files (`makedumpfile --split`).

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::header::{Header, Identity, KDUMP, damaged};
use super::{Kdump, Part};
use crate::memory::container::Container;
use crate::memory::error::Error;
use crate::memory::file::{DumpFile, open_file};

/// Opens the parts of a split dump, in any order.
pub(in crate::memory) fn open(
    files: impl IntoIterator<Item = DumpFile>,
) -> Result<Box<dyn Container>, Error> {
    let mut parts: Vec<Part> = Vec::new();
    for file in files {
        let part = Part::open(&Arc::new(file))?;
        let part = part.filter(|part| part.header.is_split).ok_or(OTHER)?;
        let fits = |other: &Part| fits(&other.header, &part.header);
        if !parts.iter().all(fits) {
            return Err(damaged(
                "the files are not different parts of one split dump",
            ));
        }
        parts.push(part);
    }
    if parts.is_empty() {
        return Err(OTHER);
    }
    Ok(Box::new(Kdump::new(parts)?))
}

/// Error for a file that is no part.
const OTHER: Error = Error::Unsupported {
    format: "no part of a split dump",
    advice: "open the file alone",
};

/// Returns whether two files are different parts of one dump.
fn fits(one: &Header, other: &Header) -> bool {
    one.identity == other.identity && are_apart(&one.frames, &other.frames)
}

fn are_apart(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.end <= other.start || other.end <= one.start
}

/// Groups files: parts of one split dump are together, at the place of the first one. Any other
/// file is alone. Files that cannot be read, and those that are not regular, are alone, too.
///
/// Parts are of one dump if their headers have the same system, time, memory size and VMCOREINFO
/// text, and different pages.
pub fn group_split(paths: Vec<PathBuf>) -> Vec<Vec<PathBuf>> {
    let mut groups = Vec::<Vec<PathBuf>>::new();
    // Group, dump and page frames of each part.
    let mut parts = Vec::<(usize, Identity, Range<u64>)>::new();
    for path in paths {
        let Some((identity, frames)) = part_of(&path) else {
            groups.push(vec![path]);
            continue;
        };
        let is_taken = |group| {
            let mut others = parts.iter().filter(|(other, ..)| *other == group);
            others.any(|(_, _, others)| !are_apart(others, &frames))
        };
        let known = parts.iter().filter(|(_, known, _)| *known == identity);
        let group = known
            .map(|(group, ..)| *group)
            .find(|group| !is_taken(*group));
        let group = group.unwrap_or_else(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(path);
        parts.push((group, identity, frames));
    }
    groups
}

/// Returns which dump a file is a part of, and its page frames; `None` if it is no part.
fn part_of(path: &Path) -> Option<(Identity, Range<u64>)> {
    let mut file = open_file(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    // Most files have another format, and need not be mapped.
    let mut magic = [0; KDUMP.len()];
    file.read_exact(&mut magic).ok()?;
    if magic != KDUMP {
        return None;
    }
    let header = Header::read(&DumpFile::open(file).ok()?).ok()??;
    header.is_split.then_some((header.identity, header.frames))
}

//! The manifest: all inputs of an export in batches, fixed before the first is decoded.
//!
//! It has one JSON object a line: a head with the options, each input with its number and batch,
//! and an end with the sums. An export that was killed is resumed from it.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{self, Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use nostall_postmortem::cli::escape::escape_json;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::decode::hex;
use crate::list::{self, Shard, path_of};
use crate::output::{Format, lock};
use crate::schema;

/// Version of the manifest.
const VERSION: u32 = 1;

/// Maximum number of inputs in a batch.
const MOST_INPUTS: u64 = 16 << 10;

/// Minimum number of bytes that an input counts for in a batch.
const LEAST: u64 = 4 << 10;

/// Number of bytes at the end of a manifest that contain its last line.
const END: u64 = 64 << 10;

/// A path without loss: its text, or its bytes if they are not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Name {
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&Path> for Name {
    fn from(path: &Path) -> Self {
        path.to_str().map_or_else(
            || Self::Bytes(path.as_os_str().as_encoded_bytes().to_vec()),
            |text| Self::Text(text.to_owned()),
        )
    }
}

impl From<Name> for PathBuf {
    fn from(name: Name) -> Self {
        match name {
            Name::Text(text) => text.into(),
            Name::Bytes(bytes) => path_of(&bytes),
        }
    }
}

/// Options that the files depend on, besides the inputs' bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    nostall_manifest: u32,
    schema: u32,
    format: Format,
    shard: [u64; 2],
    redact: bool,
    timings: bool,
    symbols: Option<Name>,
    batch_bytes: u64,
    inputs: Vec<Name>,
}

/// The sums of an export's shard.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sums {
    /// Number of inputs of the shard.
    pub inputs: u64,
    /// Number of batches.
    pub batches: u64,
    /// Number of bytes in the inputs when they were listed.
    pub bytes: u64,
    /// Current directory of the export, if one of its paths is relative.
    directory: Option<Name>,
    /// SHA-256 of the options, the number of shards and the paths of all shards, in hexadecimal. It
    /// is the same in each shard of an export.
    pub export: String,
    /// SHA-256 of the preceding lines and of these sums without it, in hexadecimal.
    pub digest: String,
}

/// An input, as a line.
#[derive(Serialize, Deserialize)]
struct Line {
    input: u64,
    batch: u64,
    path: Name,
}

/// An input of a batch.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its number, counted over all shards.
    pub input: u64,
    /// Its path as listed.
    pub path: PathBuf,
}

impl Head {
    /// Creates the head of an export's manifest.
    pub fn new(
        format: Format,
        shard: Shard,
        (redact, timings): (bool, bool),
        symbols: Option<&Path>,
        batch_bytes: u64,
        inputs: &[PathBuf],
    ) -> Self {
        Self {
            nostall_manifest: VERSION,
            schema: schema::VERSION,
            format,
            shard: [shard.number, shard.of],
            redact,
            timings,
            symbols: symbols.map(|path| Name::from(&*absolute(path))),
            batch_bytes,
            inputs: inputs.iter().map(|input| of_argument(input)).collect(),
        }
    }

    /// Checks that the head in a manifest has the options of this export. An export without inputs
    /// accepts any.
    fn check(&self, found: &Self) -> Result<()> {
        let mut found = found.clone();
        if self.inputs.is_empty() {
            found.inputs.clear();
        }
        let is = |value: &Self| serde_json::to_value(value).unwrap_or_default();
        let (wanted, found) = (is(self), is(&found));
        let differs = wanted
            .as_object()
            .into_iter()
            .flatten()
            .find(|(key, value)| found.get(key) != Some(value));
        differs.map_or(Ok(()), |(key, value)| {
            let other = found.get(key).map(ToString::to_string).unwrap_or_default();
            Err(anyhow!(
                "is of another export: its {key} is {other}, and not {value}; give the same options, \
                 or another --out or --manifest"
            ))
        })
    }
}

/// Returns an input of the command line, with an absolute path.
fn of_argument(input: &Path) -> Name {
    match input.to_str() {
        Some("-") => input.into(),
        Some(name) if name.starts_with('@') => {
            let mut list = OsString::from("@");
            list.push(absolute(Path::new(&name[1..])));
            Path::new(&list).into()
        }
        _ => Name::from(&*absolute(input)),
    }
}

fn absolute(path: &Path) -> PathBuf {
    path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A manifest that is read batch by batch.
pub struct Manifest {
    lines: BufReader<File>,
    next: Option<Line>,
    /// The sums.
    pub sums: Sums,
}

impl Manifest {
    /// Opens the manifest at `path`, or writes it if it is missing. The directory `out` is left out
    /// of the inputs.
    ///
    /// # Errors
    ///
    /// If the manifest belongs to a running export, or to one with other options. Otherwise if it
    /// cannot be read or written, or if there are no inputs.
    pub fn open(
        path: &Path,
        head: &Head,
        shard: Shard,
        inputs: &[PathBuf],
        out: &Path,
    ) -> Result<Self> {
        if !path.exists() {
            ensure!(
                !inputs.is_empty(),
                "there is no manifest {} yet: give inputs",
                path.display()
            );
            make(path, head, shard, inputs, out)?;
        }
        Self::read(path, head).with_context(|| format!("manifest {}", path.display()))
    }

    fn read(path: &Path, head: &Head) -> Result<Self> {
        let mut file = File::open(path)?;
        file.try_lock().context("another export uses it")?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(END)))?;
        let mut end = Vec::new();
        (&file).take(END).read_to_end(&mut end)?;
        let end = end.trim_ascii_end().rsplit(|byte| *byte == b'\n').next();
        let sums = serde_json::from_slice(end.unwrap_or_default());
        let sums = sums.context("its last line has no sums: it is cut off, or no manifest")?;
        file.seek(SeekFrom::Start(0))?;
        let mut lines = BufReader::new(file);
        verify(&mut lines, &sums)?;
        lines.seek(SeekFrom::Start(0))?;
        let found = serde_json::from_str(&line(&mut lines)?).context("its first line")?;
        head.check(&found)?;
        if let Some(directory) = sums.directory.clone().map(PathBuf::from) {
            ensure!(
                directory == env::current_dir()?,
                "its paths are relative to {}: run the export there",
                directory.display()
            );
        }
        let mut manifest = Self {
            lines,
            next: None,
            sums,
        };
        manifest.advance()?;
        Ok(manifest)
    }

    fn advance(&mut self) -> Result<()> {
        let line = line(&mut self.lines)?;
        let is_end = serde_json::from_str::<Sums>(&line).is_ok();
        self.next = match is_end {
            true => None,
            false => Some(serde_json::from_str(&line).context("a line is damaged")?),
        };
        Ok(())
    }

    /// Reads the next batch: its number and its inputs.
    ///
    /// # Errors
    ///
    /// If the manifest cannot be read.
    pub fn batch(&mut self) -> Result<Option<(u64, Vec<Entry>)>> {
        let Some(number) = self.next.as_ref().map(|line| line.batch) else {
            return Ok(None);
        };
        let mut entries = Vec::new();
        while let Some(line) = self.next.take_if(|line| line.batch == number) {
            entries.push(Entry {
                input: line.input,
                path: line.path.into(),
            });
            self.advance()?;
        }
        Ok(Some((number, entries)))
    }
}

/// Returns a value as a line.
fn line_of(value: &impl Serialize) -> Result<String> {
    Ok(escape_json(&serde_json::to_string(value)?).into_owned() + "\n")
}

fn without_digest(sums: &Sums) -> Sums {
    Sums {
        digest: String::new(),
        ..sums.clone()
    }
}

/// Checks that the lines are exactly those of the digest, with the same ends.
fn verify(lines: &mut impl BufRead, sums: &Sums) -> Result<()> {
    let mut digest = Sha256::new();
    let mut last = Vec::new();
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        digest.update(&last);
        std::mem::swap(&mut last, &mut line);
        line.clear();
    }
    digest.update(serde_json::to_vec(&without_digest(sums))?);
    ensure!(
        hex(&digest.finalize()) == sums.digest && last == line_of(sums)?.as_bytes(),
        "its lines are not those of its last line's digest: it was changed; remove it, and give \
         the inputs again"
    );
    Ok(())
}

fn line(lines: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    lines.read_line(&mut line)?;
    Ok(line)
}

/// Lists all inputs, and writes the manifest under its name when it is complete.
fn make(path: &Path, head: &Head, shard: Shard, inputs: &[PathBuf], out: &Path) -> Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    // Truncated only with the lock: another export may be writing it.
    let file = lock(&part, "another export makes it")
        .with_context(|| format!("manifest {}", path.display()))?;
    if path.exists() {
        // Another export completed it before this one got the lock.
        let _ = fs::remove_file(&part);
        return Ok(());
    }
    let written = write(&file, [path, &part], head, shard, inputs, out);
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written?;
    fs::rename(&part, path).with_context(|| path.display().to_string())
}

/// Writes the list of all inputs, without the manifest's own files. The last of `own` is written.
fn write(
    file: &File,
    own: [&Path; 2],
    head: &Head,
    shard: Shard,
    inputs: &[PathBuf],
    out: &Path,
) -> Result<()> {
    file.set_len(0)?;
    let folder = |path: &Path| fs::canonicalize(path.parent()?).ok();
    let is_own = |path: &Path| {
        let mut own = own.iter();
        own.any(|own| own.file_name() == path.file_name() && folder(own) == folder(path))
    };
    let of_part = || own[1].display().to_string();
    // The listing adds an input's name to its errors, and this one belongs to another file.
    let mut failed = None;
    let mut file = BufWriter::new(file);
    let mut digest = Sha256::new();
    let mut write = |line: String| {
        digest.update(&line);
        file.write_all(line.as_bytes())
    };
    write(line_of(head)?).with_context(of_part)?;
    let of_all_shards = Head {
        shard: [0, shard.of],
        inputs: Vec::new(),
        ..head.clone()
    };
    let mut is_relative = false;
    let mut export = Sha256::new_with_prefix(serde_json::to_vec(&of_all_shards)?);
    let mut sums = Sums::default();
    let (mut input, mut batch, mut batch_inputs, mut batch_bytes) = (0, 0, 0, 0);
    let listed = list::all(inputs, out, &mut |path| {
        if is_own(path) {
            return Ok(());
        }
        input += 1;
        let name = Name::from(path);
        export.update(serde_json::to_vec(&name)?);
        is_relative |= path.is_relative();
        if !shard.has(path) {
            return Ok(());
        }
        let size = fs::metadata(path).map_or(0, |meta| meta.len());
        let weight = size.max(LEAST);
        let is_full = batch_inputs == MOST_INPUTS || batch_bytes + weight > head.batch_bytes;
        if batch_inputs > 0 && is_full {
            (batch, batch_inputs, batch_bytes) = (batch + 1, 0, 0);
        }
        batch_inputs += 1;
        batch_bytes += weight;
        sums.inputs += 1;
        sums.bytes = sums.bytes.saturating_add(size);
        let line = Line {
            input: input - 1,
            batch,
            path: name,
        };
        write(line_of(&line)?).map_err(|error| {
            failed = Some(error);
            anyhow!("the manifest cannot be written")
        })
    });
    if let Some(error) = failed {
        return Err(error).with_context(of_part);
    }
    listed?;
    ensure!(input > 0, "there is no file in the inputs");
    sums.batches = if sums.inputs == 0 { 0 } else { batch + 1 };
    if is_relative {
        sums.directory = Some(Name::from(&*env::current_dir()?));
        export.update(serde_json::to_vec(&sums.directory)?);
    }
    sums.export = hex(&export.finalize());
    digest.update(serde_json::to_vec(&sums)?);
    sums.digest = hex(&digest.finalize());
    let written = file
        .write_all(line_of(&sums)?.as_bytes())
        .and_then(|()| file.flush());
    let synced = written.and_then(|()| file.get_ref().sync_all());
    synced.with_context(of_part)
}

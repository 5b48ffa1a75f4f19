//! Files of the tables.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use arrow_array::RecordBatch;
use clap::ValueEnum;
use nostall_postmortem::cli::escape::escape_json;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use serde::{Deserialize, Serialize};

use crate::decode::hash_of;
use crate::schema::{Kind, Lacks, TABLES, VERSION, VERSION_KEY};
use crate::tables::{CALLS, CRASHES, DUMPS, RECORDS, TableNumber};

/// Sizes of the files' parts.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// File size in bytes at which a table continues in its next file.
    file: usize,
    /// Number of encoded bytes per table at which a row group is written.
    row_group: usize,
}

const LIMITS: Limits = Limits {
    file: 128 << 20,
    row_group: 16 << 20,
};

/// Number of dumps for which a row group's Bloom filter is sized: a batch of 1 GiB with dumps of 16
/// KiB. With more dumps, it excludes fewer row groups, but never hides a row. With fewer, it is
/// smaller.
const DUMPS_OF_ROW_GROUP: u64 = 64 << 10;

/// Maximum number of rows in a page. Each page costs time, independent of its size.
const ROWS_OF_PAGE: usize = 64 << 10;

/// Maximum length of a text in statistics, in bytes. Hashes and signatures fit.
const LONGEST_KEY: usize = 64;

/// First part of a lock file's name.
const LOCK: &str = ".export-";

/// Zstandard's compression level. Higher levels take longer than decoding.
const LEVEL: i32 = 1;

/// Format of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Apache Parquet, compressed using Zstandard
    #[default]
    Parquet,
    /// JSON lines, compressed using Zstandard
    Jsonl,
}

impl Format {
    const fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Jsonl => "jsonl",
        }
    }

    const fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Jsonl => "jsonl.zst",
        }
    }
}

/// Lock with which one export writes the files of a shard and format in a directory.
///
/// The lock file records these files. Its first line has two digests: that of their manifest, and
/// that of the export, which all shards share. A line of JSON for each batch follows.
pub struct Claim {
    format: Format,
    file: File,
    path: PathBuf,
    written: BTreeMap<u64, Written>,
}

/// Files of a batch, which are recorded before they get their names.
#[derive(Serialize, Deserialize)]
struct Written {
    batch: u64,
    files: Vec<TableFile>,
}

/// A complete file of a table.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct TableFile {
    name: String,
    len: u64,
    /// SHA-256 of its bytes, in hexadecimal.
    hash: String,
}

impl TableFile {
    /// Reads the file at `path`, which has or gets this name.
    fn read(path: &Path, name: &str) -> Result<Self> {
        let read = || {
            let file = File::open(path)?;
            let len = file.metadata()?.len();
            Ok::<_, io::Error>((len, hash_of(file)?))
        };
        let (len, hash) = read().with_context(|| path.display().to_string())?;
        let name = name.to_owned();
        Ok(Self { name, len, hash })
    }
}

impl Claim {
    /// Locks the directory for this shard and format until the claim is dropped.
    ///
    /// # Errors
    ///
    /// If another export holds the lock, or if the lock file cannot be created. If a file of a table
    /// is recorded by no export into this directory.
    pub fn new(folder: &Path, format: Format, shard: &str) -> Result<Self> {
        let path = folder.join(format!("{LOCK}{shard}{}", format.name()));
        let file = file_of(lock(&path, "another export uses it"), &path)?;
        let claim = Self {
            format,
            file,
            path,
            written: BTreeMap::new(),
        };
        refuse_foreign(folder, format)?;
        Ok(claim)
    }

    /// Claims the directory for the manifest with the digest `manifest`, of the export with the
    /// digest `export`. Its complete batches are then known.
    ///
    /// # Errors
    ///
    /// If the recorded files belong to another manifest, whose batches have the same names. If another
    /// export has files in the directory, whose rows queries would read too. Otherwise the file
    /// system's error.
    pub fn of(&mut self, manifest: &str, export: &str) -> Result<()> {
        let owner = format!("{manifest} {export}");
        let path = &self.path;
        let mut known = String::new();
        file_of(self.file.read_to_string(&mut known), path)?;
        let first = known.lines().next().unwrap_or_default();
        // Writing a shorter text was interrupted, so no batch has been written yet.
        ensure!(
            first == owner || known.len() < owner.len(),
            "{}: the directory has files of another manifest; give another --out",
            path.display()
        );
        self.written = batches(&known).map(|one| (one.batch, one)).collect();
        // A record that was not completed has no end of its line.
        let sound = known.rfind('\n').map_or(0, |end| end as u64 + 1);
        let mut begin = || {
            self.file.set_len(sound)?;
            self.file.seek(SeekFrom::Start(sound))?;
            if sound == 0 {
                writeln!(&self.file, "{owner}")?;
            }
            self.file.sync_all()
        };
        file_of(begin(), path)?;
        // If two exports begin at once, at least one reads the other's record.
        let agreed = self.refuse_others(export);
        if agreed.is_err() {
            file_of(self.file.set_len(sound), path)?;
        }
        agreed
    }

    /// Refuses a directory that is claimed by a shard of another export.
    fn refuse_others(&self, export: &str) -> Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        for (path, known) in locks(folder, self.format)? {
            let owner = known.split_once('\n').map(|(owner, _)| owner);
            ensure!(
                owner.is_none_or(|owner| owner.ends_with(export)),
                "{}: the directory has files of an export with other inputs, options or number of \
                 shards; give another --out",
                path.display()
            );
        }
        Ok(())
    }

    /// Returns whether the files of a batch are complete.
    ///
    /// # Errors
    ///
    /// If one of them is not as it was written.
    pub fn has(&self, folder: &Path, batch: u64) -> Result<bool> {
        let Some(written) = self.written.get(&batch) else {
            return Ok(false);
        };
        let mut is_whole = true;
        for file in &written.files {
            let path = folder.join(&file.name);
            match path.symlink_metadata() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => is_whole = false,
                _ => ensure!(
                    TableFile::read(&path, &file.name)? == *file,
                    "{}: the file was changed after its export; remove it to export its batch again",
                    path.display()
                ),
            }
        }
        Ok(is_whole)
    }

    /// Removes the files of a batch that an earlier run left incomplete.
    fn remove(&self, folder: &Path, batch: u64) -> Result<()> {
        let files = self.written.get(&batch).into_iter();
        for file in files.flat_map(|written| &written.files) {
            let path = folder.join(&file.name);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    file_of(Err(error), &path)?
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Records the files of a batch.
    fn record(&self, written: &Written) -> Result<()> {
        let line = serde_json::to_string(written)? + "\n";
        let write = || {
            (&self.file).write_all(line.as_bytes())?;
            self.file.sync_all()
        };
        file_of(write(), &self.path)
    }
}

/// Returns the batches that a lock file's text records.
fn batches(text: &str) -> impl Iterator<Item = Written> {
    let lines = text.lines().skip(1);
    lines.filter_map(|line| serde_json::from_str(line).ok())
}

/// Refuses files of tables that no lock file in the directory records. Queries would read them.
fn refuse_foreign(folder: &Path, format: Format) -> Result<()> {
    let mut found = BTreeSet::new();
    for entry in file_of(fs::read_dir(folder), folder)? {
        let name = file_of(entry, folder)?.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_of = |table: &str| {
            name.strip_prefix(table)
                .is_some_and(|rest| rest.starts_with('-'))
        };
        if name.ends_with(format.extension()) && TABLES.iter().any(|table| is_of(table.name)) {
            found.insert(name.to_owned());
        }
    }
    // Read after the directory: each file is recorded before it gets its name.
    for (_, known) in locks(folder, format)? {
        for file in batches(&known).flat_map(|written| written.files) {
            found.remove(&file.name);
        }
    }
    match found.first() {
        None => Ok(()),
        Some(name) => bail!(
            "{}: no export into this directory wrote it; give another --out",
            folder.join(name).display()
        ),
    }
}

/// Returns the lock files of a format in a directory, with their texts.
fn locks(folder: &Path, format: Format) -> Result<Vec<(PathBuf, String)>> {
    let mut locks = Vec::new();
    for entry in file_of(fs::read_dir(folder), folder)? {
        let path = file_of(entry, folder)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(LOCK) && name.ends_with(format.name())) {
            match fs::read_to_string(&path) {
                // An export that was refused has removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                known => locks.push((path.clone(), file_of(known, &path)?)),
            }
        }
    }
    Ok(locks)
}

/// Adds a file's path to an error.
fn file_of<T>(result: std::result::Result<T, impl Into<anyhow::Error>>, path: &Path) -> Result<T> {
    result.map_err(|error| error.into().context(path.display().to_string()))
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A refused export leaves no lock file: the directory may contain dumps.
        let is_empty = self.file.metadata().is_ok_and(|meta| meta.len() == 0);
        if is_empty && cfg!(unix) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Maximum number of attempts to lock a file that other exports create and remove.
const ATTEMPTS: u32 = 1_000;

/// Opens a file, which is created if needed, and locks it until it is closed. `held` is the error
/// if another process has the lock.
///
/// # Errors
///
/// If the file cannot be created, or is locked.
pub(crate) fn lock(path: &Path, held: &'static str) -> Result<File> {
    for _ in 0..ATTEMPTS {
        if let Some(file) = lock_opened(open_lock(path)?, path, held)? {
            return Ok(file);
        }
    }
    bail!("this file system shows another file under the name than the opened one")
}

fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    let options = options.read(true).write(true).create(true).truncate(false);
    options.open(path)
}

/// Locks a file. Returns `None` if the path no longer refers to it: its last owner may have removed
/// or renamed it before releasing the lock. Another export could then lock a new file of this name.
fn lock_opened(file: File, path: &Path, held: &'static str) -> Result<Option<File>> {
    file.try_lock().context(held)?;
    Ok(has_name(&file, path)?.then_some(file))
}

/// Returns whether a path still refers to an open file.
#[cfg(unix)]
fn has_name(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;

    let identity = |meta: fs::Metadata| (meta.dev(), meta.ino());
    match fs::metadata(path) {
        Ok(named) => Ok(identity(named) == identity(file.metadata()?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns true: on other systems, a [`Claim`] does not remove its file.
#[cfg(not(unix))]
fn has_name(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

/// Files of one batch. They get their names when all of them are complete.
pub struct Batch<'a> {
    limits: Limits,
    folder: &'a Path,
    format: Format,
    /// Part of the files' names after the table.
    name: String,
    open: Vec<Part>,
    numbers: [u32; 4],
    complete: Vec<String>,
    number: u64,
}

enum Part {
    Parquet(Box<ArrowWriter<File>>),
    Jsonl(Box<arrow_json::LineDelimitedWriter<Escaped<zstd::Encoder<'static, Counted>>>>),
}

impl<'a> Batch<'a> {
    /// Starts the files of batch number `batch`. Their names contain `shard`. Files that an earlier
    /// run left of this batch are removed.
    ///
    /// # Errors
    ///
    /// If they cannot be created, or removed.
    pub fn new(
        claim: &Claim,
        folder: &'a Path,
        format: Format,
        shard: &str,
        batch: u64,
    ) -> Result<Self> {
        claim.remove(folder, batch)?;
        Self::with_limits(LIMITS, folder, format, shard, batch)
    }

    fn with_limits(
        limits: Limits,
        folder: &'a Path,
        format: Format,
        shard: &str,
        batch: u64,
    ) -> Result<Self> {
        let mut new = Self {
            limits,
            folder,
            format,
            name: format!("{shard}{batch:05}"),
            open: Vec::new(),
            numbers: [0; 4],
            complete: Vec::new(),
            number: batch,
        };
        new.remove_parts();
        // A table without rows also has a file, for query engines that need its columns.
        for table in 0..TABLES.len() {
            let part = new.part(table)?;
            new.open.push(part);
        }
        Ok(new)
    }

    /// Removes the unfinished files that a killed run left of this batch.
    fn remove_parts(&mut self) {
        for table in 0..TABLES.len() {
            while fs::remove_file(self.temporary(&self.file_name(table))).is_ok() {
                self.numbers[table] += 1;
            }
        }
        self.numbers = [0; 4];
    }

    fn file_name(&self, table: TableNumber) -> String {
        let (name, part) = (&self.name, self.numbers[table]);
        format!(
            "{}-{name}-{part:02}.{}",
            TABLES[table].name,
            self.format.extension()
        )
    }

    /// Returns the path of a file before it is complete.
    fn temporary(&self, name: &str) -> PathBuf {
        self.folder.join(format!(".{name}.part"))
    }

    fn part(&self, table: TableNumber) -> Result<Part> {
        let path = self.temporary(&self.file_name(table));
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        Ok(match self.format {
            Format::Parquet => {
                let schema = TABLES[table].schema();
                Part::Parquet(Box::new(ArrowWriter::try_new(
                    file,
                    schema,
                    Some(properties(table)?),
                )?))
            }
            Format::Jsonl => {
                let file = Counted { file, bytes: 0 };
                let file = Escaped(zstd::Encoder::new(file, LEVEL)?);
                Part::Jsonl(Box::new(arrow_json::LineDelimitedWriter::new(file)))
            }
        })
    }

    /// Adds rows to a table.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn write(&mut self, table: TableNumber, rows: &RecordBatch) -> Result<()> {
        let path = self.temporary(&self.file_name(table));
        file_of(self.append(table, rows), &path)
    }

    fn append(&mut self, table: TableNumber, rows: &RecordBatch) -> Result<()> {
        let bytes = match &mut self.open[table] {
            Part::Parquet(writer) => {
                writer.write(rows)?;
                if writer.in_progress_size() >= self.limits.row_group {
                    writer.flush()?;
                }
                writer.bytes_written() + writer.in_progress_size()
            }
            Part::Jsonl(writer) => {
                writer.write(rows)?;
                writer.get_ref().0.get_ref().bytes
            }
        };
        if bytes >= self.limits.file && table != DUMPS {
            self.end(table)?;
            self.numbers[table] += 1;
            self.open[table] = self.part(table)?;
        }
        Ok(())
    }

    fn end(&mut self, table: TableNumber) -> Result<()> {
        let file = match &mut self.open[table] {
            Part::Parquet(writer) => {
                writer.finish()?;
                writer.inner().try_clone()?
            }
            Part::Jsonl(writer) => {
                writer.finish()?;
                writer.get_mut().0.do_finish()?;
                writer.get_ref().0.get_ref().file.try_clone()?
            }
        };
        file.sync_all()?;
        self.complete.push(self.file_name(table));
        Ok(())
    }

    /// Completes all files, records them with the claim, and renames them to their final names.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn finish(mut self, claim: &Claim) -> Result<()> {
        for table in [RECORDS, CALLS, CRASHES, DUMPS] {
            let path = self.temporary(&self.file_name(table));
            file_of(self.end(table), &path)?;
        }
        let read = |name: &String| TableFile::read(&self.temporary(name), name);
        let files = self.complete.iter().map(read).collect::<Result<_>>()?;
        let batch = self.number;
        claim.record(&Written { batch, files })?;
        // The `dumps` file is the last.
        for name in &self.complete {
            let path = self.folder.join(name);
            file_of(fs::rename(self.temporary(name), &path), &path)?;
        }
        #[cfg(unix)]
        file_of(
            File::open(self.folder).and_then(|it| it.sync_all()),
            self.folder,
        )?;
        Ok(())
    }
}

fn properties(table: TableNumber) -> Result<WriterProperties> {
    let version = KeyValue::new(VERSION_KEY.to_owned(), VERSION.to_string());
    let by_input = SortingColumn {
        column_idx: 0,
        descending: false,
        nulls_first: false,
    };
    let mut properties = WriterProperties::builder();
    for column in TABLES[table].columns {
        // The tables with one row per input or crash have statistics of their keys, but not of free
        // text. In the large tables, statistics would take long and exclude nothing. Hashes are
        // unordered there, and most row groups have all values of the other texts.
        let is_key = matches!(table, DUMPS | CRASHES) && column.lacks != Lacks::Redacted;
        if column.kind == Kind::Text && !is_key {
            properties = properties
                .set_column_statistics_enabled(column.name.into(), EnabledStatistics::None);
        }
        if matches!(column.name, "dump" | "signature") {
            properties = properties
                .set_column_bloom_filter_enabled(column.name.into(), true)
                .set_column_bloom_filter_max_ndv(column.name.into(), DUMPS_OF_ROW_GROUP);
        }
        // Differences of adjacent numbers are small, and a dictionary takes longer. Only addresses
        // are repeated often.
        let is_address = matches!(column.name, "address" | "parent");
        if matches!(column.kind, Kind::Long | Kind::Int | Kind::Time) && !is_address {
            properties = properties
                .set_column_dictionary_enabled(column.name.into(), false)
                .set_column_encoding(column.name.into(), Encoding::DELTA_BINARY_PACKED);
        }
    }
    Ok(properties
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_data_page_row_count_limit(ROWS_OF_PAGE)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_sorting_columns(Some(vec![by_input]))
        .set_statistics_truncate_length(Some(LONGEST_KEY))
        .set_key_value_metadata(Some(vec![version]))
        .set_created_by(format!("nostall {}", env!("CARGO_PKG_VERSION")))
        .build())
}

/// Writer of JSON rows, without characters that control a terminal.
struct Escaped<W>(W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, rows: &[u8]) -> io::Result<usize> {
        // Arrow writes whole rows.
        let text = str::from_utf8(rows).map_err(io::Error::other)?;
        self.0.write_all(escape_json(text).as_bytes())?;
        Ok(rows.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// A file that counts its bytes.
struct Counted {
    file: File,
    bytes: usize,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.bytes += count;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    use super::*;
    use crate::decode::{Options, Source, decode};

    const SMALL: Limits = Limits {
        file: 64 << 10,
        row_group: 8 << 10,
    };

    /// Writes the tables of 60 logs to small files, and returns their names and hashes.
    fn small_files(folder: &Path, format: Format) -> (Vec<String>, Vec<String>) {
        let mut claim = Claim::new(folder, format, "").unwrap();
        claim.of("", "").unwrap();
        let mut batch = Batch::with_limits(SMALL, folder, format, "", 3).unwrap();
        let mut hashes = BTreeSet::new();
        let mut in_order = Vec::new();
        for input in 0..60_u64 {
            // Text that does not compress well.
            let lines = (0..200_u64).map(|line| {
                let number = (input * 200 + line + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                format!(
                    "<6>[    1.000000] {number:x} {:x}\n",
                    number.rotate_left(29) ^ line
                )
            });
            let log = "Panic#1 Part1\n".to_owned() + &lines.collect::<String>();
            let options = Options::default();
            decode(
                Source::Bytes(log.as_bytes()),
                input,
                &options,
                &mut |table, rows| {
                    if table == DUMPS {
                        let hash = rows.column(1).as_string::<i32>().value(0).to_owned();
                        assert!(hashes.insert(hash.clone()));
                        in_order.push(hash);
                    }
                    batch.write(table, &rows)
                },
            )
            .unwrap();
        }
        batch.finish(&claim).unwrap();
        (names_in(folder), in_order)
    }

    #[test]
    fn a_batch_that_is_written_again_with_fewer_files_leaves_none_of_the_earlier_ones() {
        let folder = tempfile::tempdir().unwrap();
        let (names, _) = small_files(folder.path(), Format::Parquet);
        let of_records = |names: &[String]| {
            let names = names.iter();
            names.filter(|name| name.starts_with("records-")).count()
        };
        assert!(of_records(&names) >= 3, "{names:?}");
        // The directory is as if the last rename had been interrupted.
        fs::remove_file(folder.path().join("dumps-00003-00.parquet")).unwrap();
        fs::write(folder.path().join(".records-00003-00.parquet.part"), "x").unwrap();
        fs::write(folder.path().join(".records-00003-01.parquet.part"), "x").unwrap();
        let mut claim = Claim::new(folder.path(), Format::Parquet, "").unwrap();
        claim.of("", "").unwrap();
        assert!(!claim.has(folder.path(), 3).unwrap());
        let batch = Batch::new(&claim, folder.path(), Format::Parquet, "", 3).unwrap();
        batch.finish(&claim).unwrap();
        let names = names_in(folder.path());
        assert_eq!(of_records(&names), 1, "{names:?}");
        assert!(
            !names.iter().any(|name| name.ends_with(".part")),
            "{names:?}"
        );
    }

    fn names_in(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| {
            let name = entry.unwrap().file_name();
            name.into_string().unwrap()
        });
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }

    fn open(path: PathBuf) -> ParquetRecordBatchReaderBuilder<File> {
        ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap()
    }

    #[test]
    fn a_table_that_fills_a_file_goes_on_in_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let (names, _) = small_files(folder.path(), Format::Parquet);
        let records: Vec<_> = names
            .iter()
            .filter(|name| name.starts_with("records-00003-"))
            .collect();
        assert!(records.len() >= 3, "{names:?}");
        for (number, name) in records.iter().enumerate() {
            assert_eq!(**name, format!("records-00003-{number:02}.parquet"));
        }
        let dumps: Vec<_> = names
            .iter()
            .filter(|name| name.starts_with("dumps-"))
            .collect();
        assert_eq!(dumps, ["dumps-00003-00.parquet"]);
        let mut rows = Vec::new();
        for name in records {
            let path = folder.path().join(name);
            // One batch of rows may come on top, and the file's own description.
            let len = fs::metadata(&path).unwrap().len();
            assert!(len < 4 * SMALL.file as u64, "{name}: {len}");
            for batch in open(path).build().unwrap() {
                let batch = batch.unwrap();
                let inputs = batch.column(0).as_primitive::<Int64Type>();
                let lines = batch.column(4).as_primitive::<Int64Type>();
                rows.extend(
                    inputs
                        .values()
                        .iter()
                        .copied()
                        .zip(lines.values().iter().copied()),
                );
            }
        }
        let wanted = (0..60).flat_map(|input| (0..201).map(move |line| (input, line)));
        assert!(
            rows.into_iter().eq(wanted),
            "a row is lost, double, or out of order"
        );
    }

    #[test]
    fn json_lines_that_fill_a_file_go_on_in_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let (names, _) = small_files(folder.path(), Format::Jsonl);
        let records = names.iter().filter(|name| name.starts_with("records-"));
        let texts: Vec<_> = records
            .map(|name| {
                let file = File::open(folder.path().join(name)).unwrap();
                String::from_utf8(zstd::decode_all(file).unwrap()).unwrap()
            })
            .collect();
        assert!(texts.len() >= 2, "{names:?}");
        let lines: usize = texts.iter().map(|text| text.lines().count()).sum();
        assert_eq!(lines, 60 * 201);
        assert!(texts.iter().all(|text| text.ends_with('\n')));
    }

    #[test]
    fn a_search_for_one_dump_skips_the_row_groups_without_it() {
        let folder = tempfile::tempdir().unwrap();
        let (names, hashes) = small_files(folder.path(), Format::Parquet);
        let (mut groups, mut with_it, mut not_excluded) = (0, 0, 0);
        for name in names.iter().filter(|name| name.starts_with("records-")) {
            let builder = open(folder.path().join(name));
            for (number, group) in builder.metadata().row_groups().iter().enumerate() {
                let filter = builder.get_row_group_column_bloom_filter(number, 1);
                let filter = filter.unwrap().unwrap();
                let input = group.column(0).statistics().unwrap();
                let of =
                    |bytes: Option<&[u8]>| i64::from_le_bytes(bytes.unwrap().try_into().unwrap());
                let inputs = of(input.min_bytes_opt())..=of(input.max_bytes_opt());
                for (input, hash) in hashes.iter().enumerate() {
                    let has = inputs.contains(&(input as i64));
                    groups += 1;
                    with_it += usize::from(has);
                    not_excluded += usize::from(filter.check(hash.as_str()));
                    assert!(!has || filter.check(hash.as_str()), "a dump is not found");
                }
            }
        }
        // Each dump is in a row group or two of many.
        assert!(groups > 60 * 10, "{groups}");
        assert!(with_it < 60 * 4, "{with_it}");
        // One of a hundred may be a false alarm.
        assert!(
            not_excluded <= with_it + groups / 50,
            "{not_excluded} of {groups}, {with_it}"
        );
    }

    #[test]
    fn keys_have_statistics_in_the_footer_and_texts_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let claim = Claim::new(folder.path(), Format::Parquet, "").unwrap();
        let mut batch = Batch::new(&claim, folder.path(), Format::Parquet, "", 0).unwrap();
        let mut signatures = BTreeSet::new();
        for (input, release) in [(0, "6.1.0"), (1, "6.12.9")] {
            let log = format!(
                "Panic#1 Part1\n\
                <6>[    0.000000] Linux version {release} (root@vm) #1 SMP\n\
                <0>[    1.000000] Kernel panic - not syncing: x\n\
                <0>[    1.000001] Call Trace:\n\
                <0>[    1.000002]  function_{input}+0x1/0x2\n"
            );
            let options = Options::default();
            decode(
                Source::Bytes(log.as_bytes()),
                input,
                &options,
                &mut |table, rows| {
                    if table == CRASHES {
                        let column = rows.column_by_name("signature").unwrap();
                        signatures.insert(column.as_string::<i32>().value(0).to_owned());
                    }
                    batch.write(table, &rows)
                },
            )
            .unwrap();
        }
        batch.finish(&claim).unwrap();
        let [first, last] = [signatures.first().unwrap(), signatures.last().unwrap()];
        assert_eq!(first.len(), 16);
        assert_ne!(first, last);
        let range = |table: TableNumber, column: &str| {
            let name = format!("{}-00000-00.parquet", TABLES[table].name);
            let builder = open(folder.path().join(name));
            let group = builder.metadata().row_group(0).clone();
            let columns = group.columns().iter();
            let mut columns = columns.filter(|it| it.column_path().string() == column);
            let statistics = columns.next().unwrap().statistics()?;
            let text = |bytes: Option<&[u8]>| String::from_utf8(bytes?.to_vec()).ok();
            Some((
                text(statistics.min_bytes_opt())?,
                text(statistics.max_bytes_opt())?,
            ))
        };
        let wanted = |first: &str, last: &str| Some((first.to_owned(), last.to_owned()));
        assert_eq!(range(CRASHES, "signature"), wanted(first, last));
        assert_eq!(range(CRASHES, "kind"), wanted("panic", "panic"));
        assert_eq!(range(DUMPS, "kernel"), wanted("6.1.0", "6.12.9"));
        let (least, _) = range(DUMPS, "dump").unwrap();
        assert_eq!(least.len(), 64);
        for (table, column) in [
            (RECORDS, "text"),
            (CRASHES, "reason"),
            (CRASHES, "panic"),
            (DUMPS, "error"),
        ] {
            assert_eq!(range(table, column), None, "{column}");
        }
        // A filter excludes a signature between the smallest and the largest one.
        let crashes = open(folder.path().join("crashes-00000-00.parquet"));
        let column = TABLES[CRASHES].columns.iter();
        let number = column.take_while(|column| column.name != "signature");
        let filter = crashes.get_row_group_column_bloom_filter(0, number.count());
        let filter = filter.unwrap().unwrap();
        assert!(filter.check(first.as_str()) && filter.check(last.as_str()));
        assert!(!filter.check("8000000000000000"));
    }

    #[cfg(unix)]
    #[test]
    fn an_export_whose_lock_lost_its_name_does_not_share_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let claim = || Claim::new(folder.path(), Format::Parquet, "");
        let first = claim().unwrap();
        let path = first.path.clone();
        // The second export has opened the file, and not locked it yet. The first one ends before
        // its first batch, and removes the file.
        let second = open_lock(&path).unwrap();
        drop(first);
        let third = claim().unwrap();
        assert!(lock_opened(second, &path, "held").unwrap().is_none());
        assert!(claim().is_err());
        drop(third);
        assert!(!path.exists());
        claim().unwrap();
    }
}

//! Files of the tables.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use arrow_array::RecordBatch;
use clap::ValueEnum;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use serde::{Deserialize, Serialize};

use crate::schema::{TABLES, VERSION, VERSION_KEY};
use crate::tables::{CALLS, CRASHES, DUMPS, RECORDS, TableNumber};

/// Bytes from which on a table goes on in its next file.
const FILE: usize = 128 << 20;

/// Encoded bytes in memory, for each table, from which on a row group is written.
const ROW_GROUP: usize = 16 << 20;

/// Zstandard's level. Higher ones take longer than decoding.
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

/// The right of one export to write the files of a shard and format in a directory.
pub struct Claim {
    file: File,
    path: PathBuf,
}

impl Claim {
    /// Locks the directory for this shard and format until the claim is dropped.
    ///
    /// # Errors
    ///
    /// If another export has it, or the file of the lock cannot be made.
    pub fn new(folder: &Path, format: Format, shard: &str) -> Result<Self> {
        let path = folder.join(format!(".export-{shard}{}", format.name()));
        let open = || {
            let mut options = File::options();
            let options = options.read(true).write(true).create(true).truncate(false);
            let file = options.open(&path)?;
            file.try_lock().context("another export uses it")?;
            Ok(file)
        };
        let file: Result<File> = open();
        let file = file.with_context(|| path.display().to_string())?;
        Ok(Self { file, path })
    }

    /// Records that the files are of the manifest with this digest.
    ///
    /// # Errors
    ///
    /// If they are of another manifest: batches of two manifests have the same names.
    pub fn of(&mut self, digest: &str) -> Result<()> {
        let mut known = String::new();
        self.file.read_to_string(&mut known)?;
        // A shorter text was cut off, before the first batch was written.
        ensure!(
            known == digest || known.len() < digest.len(),
            "{}: the directory has files of another manifest; give another --out",
            self.path.display()
        );
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(digest.as_bytes())?;
        self.file.sync_all()?;
        Ok(())
    }
}

/// The files of one batch. None has its name before all are complete.
pub struct Batch<'a> {
    folder: &'a Path,
    format: Format,
    /// Part of the files' names after the table.
    name: String,
    open: Vec<Part>,
    numbers: [u32; 4],
    complete: Vec<(TableNumber, String)>,
}

enum Part {
    Parquet(Box<ArrowWriter<File>>),
    Jsonl(Box<arrow_json::LineDelimitedWriter<zstd::Encoder<'static, Counted>>>),
}

impl<'a> Batch<'a> {
    /// Starts the files of batch number `batch`. `shard` is in their names.
    ///
    /// # Errors
    ///
    /// If they cannot be made.
    pub fn new(folder: &'a Path, format: Format, shard: &str, batch: u64) -> Result<Self> {
        let mut new = Self {
            folder,
            format,
            name: format!("{shard}{batch:05}"),
            open: Vec::new(),
            numbers: [0; 4],
            complete: Vec::new(),
        };
        // A table without rows has a file, too, for engines that look for its columns.
        for table in 0..TABLES.len() {
            let part = new.part(table)?;
            new.open.push(part);
        }
        Ok(new)
    }

    /// Whether the files of a batch are complete. Its file of dumps gets its name last.
    pub fn is_there(folder: &Path, format: Format, shard: &str, batch: u64) -> bool {
        let extension = format.extension();
        folder
            .join(format!("dumps-{shard}{batch:05}-00.{extension}"))
            .exists()
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
                    Some(properties()?),
                )?))
            }
            Format::Jsonl => {
                let file = Counted { file, bytes: 0 };
                let file = zstd::Encoder::new(file, LEVEL)?;
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
        let bytes = match &mut self.open[table] {
            Part::Parquet(writer) => {
                writer.write(rows)?;
                if writer.in_progress_size() >= ROW_GROUP {
                    writer.flush()?;
                }
                writer.bytes_written() + writer.in_progress_size()
            }
            Part::Jsonl(writer) => {
                writer.write(rows)?;
                writer.get_ref().get_ref().bytes
            }
        };
        // The file of dumps is the mark of a complete batch, so there is one.
        if bytes >= FILE && table != DUMPS {
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
                writer.get_mut().do_finish()?;
                writer.get_ref().get_ref().file.try_clone()?
            }
        };
        file.sync_all()?;
        self.complete.push((table, self.file_name(table)));
        Ok(())
    }

    /// Completes all files, and gives them their names.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn finish(mut self) -> Result<()> {
        for table in [RECORDS, CALLS, CRASHES, DUMPS] {
            self.end(table)?;
        }
        // The file of dumps is the last.
        for (_, name) in &self.complete {
            fs::rename(self.temporary(name), self.folder.join(name))?;
        }
        #[cfg(unix)]
        File::open(self.folder)?.sync_all()?;
        Ok(())
    }
}

fn properties() -> Result<WriterProperties> {
    let version = KeyValue::new(VERSION_KEY.to_owned(), VERSION.to_string());
    let by_input = SortingColumn {
        column_idx: 0,
        descending: false,
        nulls_first: false,
    };
    Ok(WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(LEVEL)?))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_sorting_columns(Some(vec![by_input]))
        .set_key_value_metadata(Some(vec![version]))
        .set_created_by(format!("nostall {}", env!("CARGO_PKG_VERSION")))
        .build())
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

//! `export`: many dumps into tables.

use std::collections::VecDeque;
use std::fmt;
use std::fs;
use std::iter;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Context, Result, anyhow};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use indicatif::{ProgressBar, ProgressStyle};
use nostall_postmortem::cli::{counted, number};

use crate::decode::{self, Options, Source};
use crate::list::{self, Shard};
use crate::manifest::{Entry, Head, Manifest};
use crate::names::Maps;
use crate::output::{Batch, Claim, Format};
use crate::tables::{DUMPS, TableNumber};

/// Maximum number of an input's row batches that wait for the writer. Most small inputs have one
/// batch per table. A thread thus completes them while the writer waits for an earlier input.
const QUEUE: usize = 4;

/// Number of inputs begun in addition to one per thread. Small dumps are thus decoded while the
/// writer waits for a large one.
const AHEAD: usize = 6;

/// Turn many dumps into tables: Parquet or JSON lines
///
/// Writes four tables to DIR. `dumps` has a row for each input, and `records` for each line of a
/// log. `calls` has one for each function entry or exit, and `crashes` for each panic or oops.
/// Their columns are listed in crates/records/fleet/TABLES.md.
///
/// The inputs are listed in DIR/manifest.jsonl first, in batches. Each batch is one set of files,
/// the same for any --jobs. A killed export continues with its first incomplete batch when the same
/// command runs again. A dump that cannot be read is a row with its error.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    /// Directory for the files, which is created if needed
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,

    /// Format of the files
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,

    /// Decode part I of N of the inputs. The hash of an input's path, as listed, selects its part
    #[arg(long, value_name = "I/N", value_parser = Shard::parse)]
    pub shard: Option<Shard>,

    /// List of the inputs in batches, which is created if it is missing; the default is
    /// DIR/manifest.jsonl
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,

    /// Threads that decode; the default is the number of CPUs
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,

    /// Leave out text: paths, log lines and messages. Signatures, counts and names of functions
    /// stay
    #[arg(long)]
    pub redact: bool,

    /// Symbols: a file for all dumps, or a directory with System.map-RELEASE (also .gz) or
    /// vmlinux-RELEASE of each kernel
    #[arg(long, value_name = "PATH")]
    pub symbols: Option<PathBuf>,

    /// Fill the column decode_time; files then differ between runs
    #[arg(long)]
    pub timings: bool,

    /// Bytes of inputs in a batch
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = batch)]
    pub batch: u64,

    /// Dumps: files, directories (all files in them and below), @FILE or - for a list of paths,
    /// one a line
    #[arg(value_name = "INPUT", required_unless_present = "manifest")]
    pub inputs: Vec<PathBuf>,
}

fn batch(text: &str) -> Result<u64, String> {
    match number::parse(text)? {
        0 => Err("a batch has one byte at least".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Numbers of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Number of decoded inputs, including unreadable ones.
    pub inputs: u64,
    /// Number of written rows per table: dumps, records, calls, crashes.
    pub rows: [u64; 4],
    /// Number of inputs with the status `error`.
    pub errors: u64,
    /// Number of inputs with the status `empty`, `damaged` or `none`.
    pub without_records: u64,
    /// Number of decoded bytes: the sum of the column `decoded`.
    pub decoded: u64,
    /// Number of written batches.
    pub batches: u64,
    /// Batches that an earlier run had completed.
    pub skipped: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, records, calls, crashes] = self.rows;
        write!(
            f,
            "{}, {} of them unreadable, {} without records: {}, {}, {}; {} written, {} already there",
            counted(self.inputs, "dump"),
            self.errors,
            self.without_records,
            counted(records, "record"),
            counted(calls, "call"),
            counted(crashes, "crash"),
            counted(self.batches, "batch"),
            self.skipped
        )
    }
}

/// Runs the command with these arguments.
///
/// # Errors
///
/// If the manifest belongs to another export, or if another export uses the directory or has files
/// there. Otherwise if symbols cannot be loaded, or if a file cannot be read or written.
pub fn run(args: &Args) -> Result<Summary> {
    let out = &args.out;
    let options = Options {
        maps: args.symbols.as_deref().map_or(Ok(Maps::None), Maps::load)?,
        redact: args.redact,
        timings: args.timings,
    };
    let shard = args.shard.unwrap_or(Shard::ALL);
    let head = Head::new(
        args.format,
        shard,
        (args.redact, args.timings),
        args.symbols.as_deref(),
        args.batch,
        &args.inputs,
    );
    let name = shard.name();
    let unless_given =
        || out.join(format!("manifest-{name}").trim_end_matches('-').to_owned() + ".jsonl");
    let path = args.manifest.clone().unwrap_or_else(unless_given);
    let is_new = !path.exists();
    if is_new {
        list::check(&args.inputs)?;
    }
    fs::create_dir_all(out).with_context(|| format!("--out {}", out.display()))?;
    let mut claim = Claim::new(out, args.format, &name)?;
    let mut manifest = Manifest::open(&path, &head, shard, &args.inputs, out)?;
    if let Err(refused) = claim.of(&manifest.sums.digest, &manifest.sums.export) {
        if is_new {
            let _ = fs::remove_file(&path);
        }
        return Err(refused);
    }
    let jobs = args.jobs.map_or_else(
        || thread::available_parallelism().map_or(1, Into::into),
        Into::into,
    );
    let bar = bar(manifest.sums.inputs);
    let mut summary = Summary::default();
    thread::scope(|scope| {
        let mut last = None;
        while let Some((number, entries)) = manifest.batch()? {
            if claim.has(out, number)? {
                summary.skipped += 1;
                // The bar's rate counts only the inputs that this run decodes.
                bar.set_length(
                    bar.length()
                        .unwrap_or(0)
                        .saturating_sub(entries.len() as u64),
                );
                continue;
            }
            let mut files = Batch::new(&claim, out, args.format, &name, number)?;
            let decode = |entry: &Entry, rows: &SyncSender<Rows>| one(entry, &options, rows);
            let decoded = decode_all(entries.iter(), jobs, &decode, &mut |given| {
                match given {
                    Given::Rows(table, rows) => {
                        summary.add(table, &rows);
                        files.write(table, &rows)?;
                    }
                    Given::End => bar.inc(1),
                }
                Ok(())
            });
            // Another thread has completed the previous batch's files. Its error comes first.
            end(last.take())?;
            decoded?;
            last = Some(scope.spawn(|| files.finish(&claim)));
            summary.inputs += entries.len() as u64;
            summary.batches += 1;
        }
        end(last)
    })?;
    bar.finish_and_clear();
    Ok(summary)
}

/// Waits until the files of a batch are complete.
fn end(batch: Option<ScopedJoinHandle<'_, Result<()>>>) -> Result<()> {
    batch.map_or(Ok(()), |batch| {
        batch.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

impl Summary {
    fn add(&mut self, table: TableNumber, rows: &RecordBatch) {
        self.rows[table] += rows.num_rows() as u64;
        if table == DUMPS {
            let column = |name| rows.column_by_name(name);
            let status = column("status").map(|column| column.as_string::<i32>());
            for status in status.into_iter().flatten().flatten() {
                match status {
                    "records" => {}
                    "error" => self.errors += 1,
                    _ => self.without_records += 1,
                }
            }
            let decoded = column("decoded");
            let decoded =
                decoded.map(|column| column.as_primitive::<arrow_array::types::Int64Type>());
            let decoded = decoded.into_iter().flatten().flatten();
            self.decoded += decoded
                .map(|bytes| u64::try_from(bytes).unwrap_or(0))
                .sum::<u64>();
        }
    }
}

/// Creates a progress bar with the rate and the remaining time, shown only on a terminal.
fn bar(inputs: u64) -> ProgressBar {
    let bar = ProgressBar::new(inputs);
    let template = "{wide_bar} {pos} of {len} dumps, {per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

type Rows = (TableNumber, RecordBatch);

/// Part of an input's result.
enum Given {
    /// Rows of a table.
    Rows(TableNumber, RecordBatch),
    /// The end of the input.
    End,
}

/// Decodes the inputs on `jobs` threads, and passes their rows to `each` in the inputs' order.
///
/// Memory is bounded. At most [`QUEUE`] row batches of an input wait, and at most [`AHEAD`] more
/// inputs than threads are begun.
fn decode_all<'e>(
    mut entries: impl ExactSizeIterator<Item = &'e Entry>,
    jobs: usize,
    decode: &(impl Fn(&Entry, &SyncSender<Rows>) + Sync),
    each: &mut dyn FnMut(Given) -> Result<()>,
) -> Result<()> {
    let (work, taken) = mpsc::channel::<(&Entry, SyncSender<Rows>)>();
    let taken = Mutex::new(taken);
    thread::scope(|scope| {
        for _ in 0..jobs.min(entries.len()) {
            scope.spawn(|| {
                // Inputs are taken in order, so a thread is decoding the one that is needed next.
                while let Ok((entry, rows)) = next(&taken) {
                    decode(entry, &rows);
                }
            });
        }
        // Dropped with an error of `each`: the threads then stop.
        let work = work;
        let mut begun: VecDeque<Receiver<Rows>> = VecDeque::new();
        loop {
            let free = jobs.saturating_add(AHEAD).saturating_sub(begun.len());
            for entry in entries.by_ref().take(free) {
                let (rows, receiver) = mpsc::sync_channel(QUEUE);
                work.send((entry, rows))
                    .map_err(|_| anyhow!("no thread decodes"))?;
                begun.push_back(receiver);
            }
            let Some(first) = begun.pop_front() else {
                return Ok(());
            };
            for (table, rows) in first {
                each(Given::Rows(table, rows))?;
            }
            each(Given::End)?;
        }
    })
}

fn next<T>(work: &Mutex<Receiver<T>>) -> Result<T, mpsc::RecvError> {
    work.lock().unwrap_or_else(PoisonError::into_inner).recv()
}

/// Decodes an input. A panic of the decoder only becomes this input's error.
fn one(entry: &Entry, options: &Options, rows: &SyncSender<Rows>) {
    let mut send = |table, batch: RecordBatch| {
        // A batch without rows comes before much memory is needed. When more are sent than can wait,
        // the writer takes the rows of this input, and all earlier inputs are complete.
        let copies = if batch.num_rows() == 0 { QUEUE } else { 0 };
        let batches = iter::repeat_n(batch, 1 + copies);
        let mut sent = batches.map(|batch| rows.send((table, batch)));
        sent.try_for_each(|sent| sent.map_err(|_| anyhow!("the rows are not wanted any more")))
    };
    let decode = || decode::decode(Source::Path(&entry.path), entry.input, options, &mut send);
    // The only possible error is a receiver that has stopped, which reports its own error.
    if catch_unwind(AssertUnwindSafe(decode)).is_err() {
        let _ = decode::failed(
            Some(&entry.path),
            entry.input,
            options,
            &mut |table, batch| Ok(rows.send((table, batch))?),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;
    use crate::schema::TABLES;
    use crate::tables::{CALLS, CRASHES, RECORDS};

    /// Ends a hang.
    const HANG_LIMIT: Duration = Duration::from_secs(300);

    #[test]
    fn inputs_begun_and_rows_that_wait_do_not_grow_with_the_number_of_inputs() {
        const JOBS: usize = 3;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dump");
        // Several batches of rows.
        let line = "<6>[    1.000000] a line of a log\n";
        fs::write(&path, "Panic#1 Part1\n".to_owned() + &line.repeat(20_000)).unwrap();
        for number in [10, 40] {
            let entries: Vec<_> = (0..number)
                .map(|input| Entry {
                    input,
                    path: path.clone(),
                })
                .collect();
            let (begun, ended, most_rows) = (Cell::new(0), Cell::new(0), Cell::new(0));
            let counted = entries.iter().inspect(|_| begun.set(begun.get() + 1));
            let options = Options::default();
            let decode = |entry: &Entry, rows: &SyncSender<Rows>| one(entry, &options, rows);
            decode_all(counted, JOBS, &decode, &mut |given| {
                assert!(begun.get() - ended.get() <= AHEAD + JOBS, "{number} inputs");
                match given {
                    Given::Rows(_, rows) => most_rows.set(rows.num_rows().max(most_rows.get())),
                    Given::End => ended.set(ended.get() + 1),
                }
                Ok(())
            })
            .unwrap();
            assert_eq!(
                (begun.get(), ended.get()),
                (number as usize, number as usize)
            );
            assert_eq!(most_rows.get(), crate::tables::MOST_ROWS);
        }
    }

    #[test]
    fn an_input_that_needs_much_memory_waits_until_its_rows_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dump");
        // A console, and messages of user space in a zone of 16 MiB.
        let text = b"[    1.000000] text\n";
        let zone = [&b"DBGC"[..], &[20, 0, 0, 0], &[20, 0, 0, 0], text].concat();
        let mut dump = vec![0; 17 << 20];
        for at in [0, 1 << 20] {
            dump[at..at + zone.len()].copy_from_slice(&zone);
        }
        fs::write(&path, dump).unwrap();
        let (rows, received) = mpsc::sync_channel(QUEUE);
        let entry = Entry { input: 0, path };
        let options = Options::default();
        let decode = move || one(&entry, &options, &rows);
        let (waited, records) = thread::scope(|scope| {
            scope.spawn(decode);
            let waited: Vec<_> = received.iter().take(QUEUE + 1).collect();
            let records = received.iter().filter(|(table, _)| *table == RECORDS);
            (
                waited,
                records.map(|(_, rows)| rows.num_rows()).sum::<usize>(),
            )
        });
        // The queue was full of them before a record was decoded.
        assert!(waited.iter().all(|(_, rows)| rows.num_rows() == 0));
        assert_eq!(records, 2);
    }

    #[test]
    fn small_inputs_are_decoded_while_the_writer_waits_for_a_large_one() {
        const JOBS: usize = 2;
        let entries: Vec<_> = (0..(AHEAD + JOBS) as u64)
            .map(|input| Entry {
                input,
                path: PathBuf::new(),
            })
            .collect();
        let (ended, small) = mpsc::channel();
        let small = Mutex::new(small);
        let decode = |entry: &Entry, rows: &SyncSender<Rows>| {
            if entry.input == 0 {
                // The first input is the large one: it has no row before all others are decoded.
                let small = small.lock().unwrap();
                for _ in 1..entries.len() {
                    small.recv_timeout(HANG_LIMIT).expect("a small input waits");
                }
            }
            for table in [RECORDS, CALLS, CRASHES, DUMPS] {
                let none = RecordBatch::new_empty(TABLES[table].schema());
                rows.send((table, none)).unwrap();
            }
            if entry.input > 0 {
                ended.send(()).unwrap();
            }
        };
        let mut given = 0;
        decode_all(entries.iter(), JOBS, &decode, &mut |_| {
            given += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(given, entries.len() * 5);
    }
}

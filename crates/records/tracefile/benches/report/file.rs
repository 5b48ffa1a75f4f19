//! Speed of reading a file that a program recorded.

use std::env;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use nostall_bench::Effort;
use nostall_trace::{Image, ProgramOptions, ProgramTrace, recover, trace_scope};
use nostall_tracefile::ZoneEvents;
use nostall_tracefile::report::Table;

use crate::memory;
use crate::records::add;

/// Environment variable with the file to record into, and the number of slots per zone.
const CHILD: &str = "NOSTALL_BENCH_RECORD";

/// Number of recording threads. Three zones of 2^25 slots contain 100 million records.
const THREADS: u32 = 3;

/// Contents of the file, read in small parts.
struct Contents(File, u64);

impl Image for Contents {
    fn len(&self) -> u64 {
        self.1
    }
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self.0.read_exact_at(into, at).is_ok()
    }
}

/// Records in a child process, whose mapping does not count as this process's memory. Returns
/// whether this process is that child.
pub fn is_recording() -> bool {
    let Ok(wanted) = env::var(CHILD) else {
        return false;
    };
    let (slots, path) = wanted.split_once(' ').unwrap();
    let slots = slots.parse().unwrap();
    let options = ProgramOptions {
        threads: THREADS,
        slots,
        ..ProgramOptions::DEFAULT
    };
    ProgramTrace::create(path, &options).unwrap();
    for _ in 0..THREADS {
        let thread = std::thread::spawn(move || {
            // A call with an inner call takes four slots. The thread's name takes two.
            for _ in 0..slots / 4 - 1 {
                trace_scope!("outer");
                trace_scope!("inner");
            }
        });
        thread.join().unwrap();
    }
    true
}

pub fn tables(effort: Effort) {
    let slots: u32 = if effort.is_test() { 1 << 12 } else { 1 << 25 };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let recorded = Command::new(env::current_exe().unwrap())
        .env(CHILD, format!("{slots} {}", path.display()))
        .status();
    assert!(recorded.unwrap().success());
    let records = u64::from(THREADS * (slots - 4));
    let megabytes = fs::metadata(&path).unwrap().len() >> 20;
    println!("\nA file with {records} records, {megabytes} MiB");
    memory::forget_most();
    read("table", records, &path, |source| {
        add(&mut Table::default(), source)
    });
    #[cfg(feature = "perfetto")]
    read("Perfetto", records, &path, |source| {
        use nostall_tracefile::export::{ExportError, Perfetto};
        let mut perfetto = Perfetto::new(std::io::sink());
        let ended = nostall_tracefile::graph::walk(source, |catalog, step| {
            perfetto.step(catalog, &step)?;
            Ok::<_, ExportError>(())
        });
        ended.unwrap();
        perfetto.finish().unwrap();
    });
    memory::print_most();
}

fn read(name: &str, records: u64, path: &Path, read: impl FnOnce(&mut ZoneEvents<Contents>)) {
    let file = File::open(path).unwrap();
    let length = file.metadata().unwrap().len();
    let start = Instant::now();
    let region = recover(Contents(file, length)).unwrap();
    read(&mut ZoneEvents::new(region, Box::new(|_| None)));
    let seconds = start.elapsed().as_secs_f64();
    let rate = records as f64 / seconds / 1e6;
    println!("  {name:10} {seconds:8.2} s, {rate:6.1} million records a second");
}

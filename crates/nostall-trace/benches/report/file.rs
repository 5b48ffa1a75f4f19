//! The reader of recordings, on a file that a program recorded.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;

use nostall_bench::Effort;
use nostall_trace::report::Table;
use nostall_trace::{Image, ProgramOptions, ProgramTrace, ZoneEvents, recover, trace_scope};

use crate::records::add;

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

pub fn tables(effort: Effort) {
    let slots: u32 = if effort.is_test() { 1 << 12 } else { 1 << 25 };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let options = ProgramOptions {
        threads: 1,
        slots,
        ..ProgramOptions::DEFAULT
    };
    ProgramTrace::create(&path, &options).unwrap();
    // A call and the call in it take four slots. The thread's name takes two.
    for _ in 0..slots / 4 - 1 {
        trace_scope!("outer");
        trace_scope!("inner");
    }
    let file = File::open(&path).unwrap();
    let length = file.metadata().unwrap().len();
    let start = Instant::now();
    let region = recover(Contents(file, length)).unwrap();
    let mut source = ZoneEvents::new(region, Box::new(|_| None));
    let mut table = Table::default();
    add(&mut table, &mut source);
    let seconds = start.elapsed().as_secs_f64();
    let records = f64::from(slots - 4);
    println!("\nA table of a file with {records} records: {seconds:.2} s");
    println!("  {:.1} million records a second", records / seconds / 1e6);
}

//! Memory of the reports and of the export for Perfetto: it does not grow with the records.
#![cfg(feature = "perfetto")]

#[path = "../../../drivers/trace/tests/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use nostall_trace::{Image, Options, Region, recover};
use nostall_tracefile::ZoneEvents;
use nostall_tracefile::export::Perfetto;
use nostall_tracefile::graph::walk;
use nostall_tracefile::model::{ReadError, TimeUnit};
use nostall_tracefile::report::{Graph, Look, Rate, Selection, Table};

/// Allocator that counts the bytes in use and their maximum.
struct Counting;

static USED: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls are passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(used, Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Contents of a file, read in small parts.
struct Contents(File, u64);

impl Image for Contents {
    fn len(&self) -> u64 {
        self.1
    }
    fn read(&self, at: u64, into: &mut [u8]) -> bool {
        self.0.read_exact_at(into, at).is_ok()
    }
}

/// Records two nested calls repeatedly until both CPUs' zones are full, and returns a temporary
/// file with them.
fn recorded(slots: usize) -> File {
    let (recorder, cpu) = common::recorder();
    let options = Options {
        zones: 2,
        names: 4096,
        ticks_per_second: 1_000_000_000,
        stop_when_full: true,
        ..Options::default()
    };
    let memory = common::memory(512 + 4096 + 2 * (128 + 16 * slots));
    recorder.start(Region::format(memory, &options).unwrap());
    for pair in 0..slots / 2 {
        cpu.0.store(pair / 3 % 2, Ordering::Relaxed);
        let outer = recorder.enter(0x1000);
        recorder.exit(recorder.enter(0x2000 + pair as u64 % 64));
        recorder.exit(outer);
    }
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&common::snapshot(recorder), 0).unwrap();
    file
}

/// Returns the number of records read, and the maximum number of bytes in use during `read`.
fn most(file: &File, read: impl FnOnce(&mut ZoneEvents<Contents>) -> u64) -> (u64, usize) {
    let contents = Contents(file.try_clone().unwrap(), file.metadata().unwrap().len());
    let before = USED.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let region = recover(contents).unwrap();
    let mut source = ZoneEvents::new(region, Box::new(|_| None));
    let records = read(&mut source);
    (records, MOST.load(Ordering::Relaxed) - before)
}

type Reader = fn(&mut ZoneEvents<Contents>) -> u64;

fn table(source: &mut ZoneEvents<Contents>) -> u64 {
    let mut table = Table::default();
    let mut steps = 0;
    let ended = walk(source, |catalog, step| {
        steps += 1;
        table.push(&step, catalog);
        Ok::<_, ReadError>(())
    });
    ended.unwrap();
    steps
}

fn rate(source: &mut ZoneEvents<Contents>) -> u64 {
    let mut rate = Rate::new(Selection::default(), 100);
    let mut steps = 0;
    let ended = walk(source, |catalog, step| {
        steps += 1;
        drop(rate.push(&step, catalog));
        Ok::<_, ReadError>(())
    });
    ended.unwrap();
    steps
}

fn graph(source: &mut ZoneEvents<Contents>) -> u64 {
    let look = Look {
        width: None,
        has_colour: false,
        escape: |text| text.into(),
        unit: TimeUnit::Nanoseconds,
    };
    let mut out = io::sink();
    let mut graph = Graph::new(Selection::default(), None, false, look, &mut out);
    let mut steps = 0;
    let ended = walk(source, |catalog, step| {
        steps += 1;
        graph.push(&step, catalog).map_err(ReadError::new)
    });
    ended.unwrap();
    steps
}

fn perfetto(source: &mut ZoneEvents<Contents>) -> u64 {
    let mut perfetto = Perfetto::new(io::sink());
    let mut steps = 0;
    let ended = walk(source, |catalog, step| {
        steps += 1;
        perfetto.step(catalog, &step)
    });
    ended.unwrap();
    perfetto.finish().unwrap();
    steps
}

#[test]
fn a_file_with_sixteen_times_the_records_is_read_in_the_same_memory() {
    let (short, long) = (recorded(1 << 14), recorded(1 << 18));
    let readers: [(&str, Reader); 4] = [
        ("table", table),
        ("rate", rate),
        ("graph", graph),
        ("Perfetto", perfetto),
    ];
    for (name, read) in readers {
        let (few, little) = most(&short, read);
        let (many, much) = most(&long, read);
        assert!(many > 15 * few && few > 10_000, "{name}: {few}, {many}");
        // Names and open calls are the same. A buffer may be larger by some rounding.
        assert!(
            much <= little + little / 8 && much < 4 << 20,
            "{name}: {little} bytes for {few} steps, {much} for {many}"
        );
    }
}

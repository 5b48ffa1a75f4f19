//! Entries and exits of nostall's recorder.

use std::hint::black_box;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nostall_bench::{Effort, Limit, Table, Unit};
use nostall_trace::{ProgramOptions, ProgramTrace, Ticks, Tsc, trace_scope};

/// Length of a zone in slots, and of the bare loop's memory: 256 KiB.
pub const SLOTS: u32 = 1 << 14;

/// Starts recording, once per process. The file is in memory if the system has a suitable
/// directory.
pub fn start() {
    static TRACE: OnceLock<tempfile::TempDir> = OnceLock::new();
    TRACE.get_or_init(|| {
        let shared = Path::new("/dev/shm");
        let folder = match shared.is_dir() {
            true => tempfile::tempdir_in(shared),
            false => tempfile::tempdir(),
        };
        let folder = folder.unwrap();
        let options = ProgramOptions {
            threads: 8,
            slots: SLOTS,
            ..ProgramOptions::DEFAULT
        };
        ProgramTrace::create(folder.path().join("trace"), &options).unwrap();
        folder
    });
}

#[inline(never)]
fn untraced(n: u64) -> u64 {
    // Without this, the compiler removes the call.
    black_box(());
    n
}

fn traced(n: u64) -> u64 {
    trace_scope!("traced");
    black_box(());
    n
}

fn untraced_calls(n: u64) -> u64 {
    untraced(black_box(n)) + untraced(black_box(1))
}

fn traced_calls(n: u64) -> u64 {
    trace_scope!("two calls");
    untraced(black_box(n)) + untraced(black_box(1))
}

fn call(function: fn(u64) -> u64, times: u64) {
    let function = black_box(function);
    for n in 0..times {
        black_box(function(black_box(n)));
    }
}

/// Calls a function that records its entry and its exit.
pub fn scopes(times: u64) {
    call(traced, times);
}

/// Memory of the bare loop, and its position.
pub struct Bare {
    memory: Vec<u64>,
    at: usize,
}

impl Bare {
    pub fn new() -> Self {
        Self {
            memory: vec![0; SLOTS as usize * 2],
            at: 0,
        }
    }

    /// Reads the time stamp counter twice and stores both values, `times` times.
    pub fn run(&mut self, times: u64) {
        let mask = self.memory.len() - 1;
        for _ in 0..times {
            self.memory[self.at & mask] = Tsc.now();
            self.memory[(self.at + 1) & mask] = Tsc.now();
            self.at += 2;
        }
        black_box(&mut self.memory);
    }
}

/// Measures scopes with recording off.
pub fn off(effort: Effort) {
    assert!(!nostall_trace::is_on(), "another part has begun to record");
    let mut table = Table::new("Recording off: ns a pass", Unit::Nanoseconds);
    table.row("empty loop", None, |times| {
        for n in 0..times {
            black_box(n);
        }
    });
    table.row("loop with trace_scope!", Limit::RatioAtMost(1.5), |times| {
        for n in 0..times {
            trace_scope!("off");
            black_box(n);
        }
    });
    table.print(effort);
    for (title, without, with) in [
        (
            "Recording off: ns a call of an empty function",
            untraced as fn(u64) -> u64,
            traced as fn(u64) -> u64,
        ),
        (
            "Recording off: ns a call of a function that calls two",
            untraced_calls,
            traced_calls,
        ),
    ] {
        let mut table = Table::new(title, Unit::Nanoseconds);
        table.row("without trace_scope!: the limit", None, |times| {
            call(without, times)
        });
        table.row("with trace_scope!", Limit::RatioAtMost(1.5), |times| {
            call(with, times);
        });
        table.print(effort);
    }
}

/// Measures an entry and its exit, compared with a bare loop.
pub fn pair(effort: Effort) {
    start();
    let mut bare = Bare::new();
    let mut table = Table::new("An entry and its exit: ns a pair", Unit::Nanoseconds);
    table.row(
        "bare loop: counter read twice, stored twice",
        None,
        |times| {
            bare.run(times);
        },
    );
    table.row(
        "nostall-trace, trace_scope!",
        Limit::RatioAtMost(2.3),
        scopes,
    );
    table.print(effort);
}

/// Measures two threads, compared with one: the time for all pairs of all threads.
pub fn threads(effort: Effort) {
    start();
    let mut table = Table::new(
        "Threads that record, each in its zone: ns a pair of all threads",
        Unit::Nanoseconds,
    );
    table.timed("one thread", None, |times| race(times, 1));
    let half = Limit::RatioAtMost(1.0 / 1.9);
    table.timed("two threads", half, |times| race(times, 2));
    table.timed("bare loop, one thread", None, |times| bare_race(times, 1));
    table.timed("bare loop, two threads", None, |times| bare_race(times, 2));
    table.print(effort);
}

fn race(times: u64, threads: usize) -> Duration {
    together(times, threads, || scopes)
}

fn bare_race(times: u64, threads: usize) -> Duration {
    together(times, threads, || {
        let mut bare = Bare::new();
        move |times| bare.run(times)
    })
}

/// Returns the time in which `threads` threads run `times` times in all, from a common start.
fn together<F: FnMut(u64)>(times: u64, threads: usize, prepare: impl Fn() -> F + Sync) -> Duration {
    let ready = AtomicUsize::new(0);
    let each = times / threads as u64 + 1;
    let ran: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let run = || {
            let mut run = prepare();
            // Claims the thread's zone, and touches its memory.
            run(u64::from(SLOTS));
            ready.fetch_add(1, Ordering::AcqRel);
            while ready.load(Ordering::Acquire) < threads {
                std::hint::spin_loop();
            }
            let start = Instant::now();
            run(each);
            (start, Instant::now())
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let ended = running.into_iter().map(|thread| thread.join().unwrap());
        ended.collect()
    });
    let start = ran.iter().map(|(start, _)| *start).min();
    let end = ran.iter().map(|(_, end)| *end).max();
    start
        .zip(end)
        .map_or(Duration::ZERO, |(start, end)| end - start)
}

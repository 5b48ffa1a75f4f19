//! Records logged by two threads at once. The time is that of one record of either thread.

use std::hint::black_box;
use std::io::Write;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use nostall_console::{Ring, Slot};
use thingbuf::ThingBuf;

use crate::peers::{Entry, Nowhere, TEXT, meta};
use nostall_bench::{Effort, Table, Unit};

const THREADS: usize = 2;

static RING: Ring<[Slot; 9360]> = Ring::new();

/// Runs half of the acts on each of two threads.
fn shared(times: u64, act: impl Fn(u64) + Sync) -> Duration {
    let barrier = Barrier::new(THREADS);
    let each = times.div_ceil(THREADS as u64);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let start = Instant::now();
                    act(each);
                    start.elapsed()
                })
            })
            .collect();
        let took = threads
            .into_iter()
            .map(|thread| thread.join().expect("nothing panics"));
        took.max().unwrap_or_default()
    })
}

pub fn tables(effort: Effort) {
    let things = ThingBuf::<Entry>::new(8192);
    let (file, _guard) = tracing_appender::non_blocking(Nowhere);
    let mut table = Table::new(
        "A record of 60 bytes, its time given, two threads",
        Unit::Nanoseconds,
    );
    table.timed("Ring::log", None, |times| {
        shared(times, |times| {
            for _ in 0..times {
                black_box(RING.log(&meta(), black_box(TEXT)));
            }
        })
    });
    table.timed("thingbuf 0.1.6, push_ref and pop_ref", None, |times| {
        shared(times, |times| {
            for _ in 0..times {
                if let Ok(mut entry) = things.push_ref() {
                    entry.fill();
                }
                black_box(things.pop_ref().is_some());
            }
        })
    });
    table.timed(
        "tracing-appender 0.2.5, non_blocking, lossy",
        None,
        |times| {
            shared(times, |times| {
                let mut file = file.clone();
                for _ in 0..times {
                    let _ = file.write(black_box(TEXT));
                }
            })
        },
    );
    table.print(effort);
}

//! Records logged by two threads at once. The time is per record of either thread.

use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nostall_console::{Cursor, Ring, Slot};
use thingbuf::ThingBuf;

use crate::peers::{Entry, Nowhere, Overwriting, RECORDS, meta, text};
use nostall_bench::{Effort, Limit, Table, Unit};

static RING: Ring<[Slot; RECORDS]> = Ring::new();

/// Runs half of the acts on each of two threads at the same time.
///
/// On a busy machine, one thread may run alone. A run is repeated, up to 39 times, if the threads
/// overlapped for less than nine tenths of its time.
fn shared(times: u64, act: impl Fn(u64) + Sync) -> Duration {
    let mut tries = 0;
    loop {
        let [one, other] = spans(times, &act);
        let whole = one[1].max(other[1]) - one[0].min(other[0]);
        let both = one[1]
            .min(other[1])
            .saturating_duration_since(one[0].max(other[0]));
        tries += 1;
        if both >= whole * 9 / 10 || tries == 40 || times < 1_000 {
            return whole;
        }
    }
}

/// Returns the start and end times of each thread.
fn spans(times: u64, act: &(impl Fn(u64) + Sync)) -> [[Instant; 2]; 2] {
    let ready = AtomicUsize::new(0);
    let each = times.div_ceil(2);
    let run = || {
        ready.fetch_add(1, Ordering::Relaxed);
        // A sleeping thread would wake up too late.
        while ready.load(Ordering::Relaxed) < 2 {
            thread::yield_now();
        }
        let start = Instant::now();
        act(each);
        [start, Instant::now()]
    };
    thread::scope(|scope| {
        let other = scope.spawn(run);
        [run(), other.join().expect("nothing panics")]
    })
}

pub fn tables(effort: Effort) {
    let things = ThingBuf::<Entry>::new(8192);
    let (file, _guard) = tracing_appender::non_blocking(Nowhere);
    let spinning = spin::Mutex::new(Overwriting::default());
    let sleeping = std::sync::Mutex::new(Overwriting::default());
    let mut table = Table::new(
        "A record of 60 bytes, its time given, two threads",
        Unit::Nanoseconds,
    );
    table.timed("overwriting queue in spin::Mutex, push", None, |times| {
        shared(times, |times| {
            for _ in 0..times {
                spinning.lock().push(&meta(), text());
            }
        })
    });
    table.timed(
        "overwriting queue in std::sync::Mutex, push",
        None,
        |times| {
            shared(times, |times| {
                for _ in 0..times {
                    let mut queue = sleeping.lock().expect("nothing panics");
                    queue.push(&meta(), text());
                }
            })
        },
    );
    table.timed("Ring::log", Limit::RatioAtMost(1.0), |times| {
        shared(times, |times| {
            for _ in 0..times {
                black_box(RING.log(&meta(), text()));
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
                    let _ = file.write(text());
                }
            })
        },
    );
    table.print(effort);

    let mut table = Table::new(
        "A record of 60 bytes, logged and read, two threads that do both",
        Unit::Nanoseconds,
    );
    table.timed(
        "overwriting queue in spin::Mutex, push and pop",
        None,
        |times| {
            shared(times, |times| {
                for _ in 0..times {
                    spinning.lock().push(&meta(), text());
                    black_box(spinning.lock().pop());
                }
            })
        },
    );
    table.timed(
        "Ring::log, and Cursor::read, which reads both threads' records",
        None,
        |times| {
            shared(times, |times| {
                let mut cursor = Cursor::end(&RING);
                for _ in 0..times {
                    RING.log(&meta(), text());
                    black_box(cursor.read(&RING));
                }
            })
        },
    );
    table.timed("thingbuf 0.1.6, push_ref and pop_ref", None, |times| {
        shared(times, |times| {
            for _ in 0..times {
                if let Ok(mut entry) = things.push_ref() {
                    entry.fill(&meta(), text());
                }
                black_box(things.pop_ref().is_some());
            }
        })
    });
    table.print(effort);
}

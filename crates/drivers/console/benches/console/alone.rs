//! Records logged by one thread.

use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use bbqueue::nicknames::Churrasco;
use nostall_console::{Caller, Cursor, Drain, Offered, Priority, Ring, Sink, SinkOptions, Slot};
use nostall_io::{Clock, HostClock, Nanos};
use thingbuf::ThingBuf;

use crate::peers::{Entry, Nowhere, Overwriting, RECORDS, meta, text};
use nostall_bench::{Effort, Limit, Table, Unit};

static RING: Ring<[Slot; RECORDS]> = Ring::new();
static QUEUE: Churrasco<{ 1 << 20 }> = Churrasco::new();

/// A word in a cache line of its own.
#[repr(align(64))]
struct Line(AtomicUsize);

/// The words of the two exchanges that a record of the ring needs.
static TAKEN: Line = Line(AtomicUsize::new(0));
static OWNED: Line = Line(AtomicUsize::new(0));

struct All;

impl Sink for All {
    fn offer(&self, text: &[u8], _: Caller) -> Offered {
        Offered {
            taken: black_box(text).len(),
            ready_at: Some(Nanos(0)),
        }
    }
}

/// A clock that always shows the same time.
struct Still;

impl Clock for Still {
    fn now(&self) -> Nanos {
        Nanos::ZERO
    }
}

pub fn tables(effort: Effort) {
    let things = ThingBuf::<Entry>::new(8192);
    let small = Ring::<[Slot; 64]>::new();
    let (producer, consumer) = (QUEUE.framed_producer(), QUEUE.framed_consumer());
    let spinning = spin::Mutex::new(Overwriting::default());
    let sleeping = std::sync::Mutex::new(Overwriting::default());
    let mut table = Table::new(
        "A record of 60 bytes, its time given, uncontended",
        Unit::Nanoseconds,
    );
    table.row("overwriting queue in spin::Mutex, push", None, |times| {
        for _ in 0..times {
            spinning.lock().push(&meta(), text());
        }
    });
    table.row(
        "overwriting queue in std::sync::Mutex, push",
        None,
        |times| {
            for _ in 0..times {
                let mut queue = sleeping.lock().expect("nothing panics");
                queue.push(&meta(), text());
            }
        },
    );
    table.row("Ring::log", Limit::RatioAtMost(1.5), |times| {
        for _ in 0..times {
            black_box(RING.log(&meta(), text()));
        }
    });
    table.row("Ring::log, into a ring of 64 records", None, |times| {
        for _ in 0..times {
            black_box(small.log(&meta(), text()));
        }
    });
    table.row("Ring::format, of three parts", None, |times| {
        for n in 0..times {
            black_box(RING.format(
                &meta(),
                format_args!("sd 2:0:{n}:3: [{}] Attached SCSI disk", black_box("sdq")),
            ));
        }
    });
    table.row("two exchanges alone: the ring's limit", None, |times| {
        for n in 0..times {
            let _ = black_box(TAKEN.0.fetch_add(1, Ordering::Relaxed));
            let _ = black_box(OWNED.0.swap(n as usize, Ordering::Acquire));
        }
    });
    let mut unshared = Overwriting::default();
    table.row(
        "an overwriting queue, not shared: the limit",
        None,
        move |times| {
            for _ in 0..times {
                black_box(&mut unshared).push(&meta(), text());
            }
        },
    );
    let (mut file, _guard) = tracing_appender::non_blocking(Nowhere);
    table.row(
        "tracing-appender 0.2.5, non_blocking, lossy",
        None,
        move |times| {
            for _ in 0..times {
                let _ = file.write(text());
            }
        },
    );
    table.print(effort);

    let spinning = spin::Mutex::new(Overwriting::default());
    let mut table = Table::new(
        "A record of 60 bytes, logged and read, uncontended",
        Unit::Nanoseconds,
    );
    table.row("thingbuf 0.1.6, push_ref and pop_ref", None, |times| {
        for _ in 0..times {
            things
                .push_ref()
                .expect("there is room")
                .fill(&meta(), text());
            black_box(&*things.pop_ref().expect("it is there"));
        }
    });
    table.row(
        "overwriting queue in spin::Mutex, push and pop",
        None,
        |times| {
            for _ in 0..times {
                spinning.lock().push(&meta(), text());
                black_box(spinning.lock().pop());
            }
        },
    );
    let mut unshared = Overwriting::default();
    table.row(
        "an overwriting queue, not shared: the limit",
        None,
        move |times| {
            for _ in 0..times {
                black_box(&mut unshared).push(&meta(), text());
                black_box(unshared.pop());
            }
        },
    );
    let mut cursor = Cursor::end(&RING);
    let limit = Limit::RatioAtMost(1.5);
    table.row("Ring::log, and Cursor::read", limit, |times| {
        for _ in 0..times {
            RING.log(&meta(), text());
            black_box(cursor.read(&RING));
        }
    });
    table.row(
        "bbqueue 0.7.0, grant and read; one producer only",
        None,
        |times| {
            for _ in 0..times {
                let (meta, text) = (meta(), text());
                let len = 8 + text.len();
                let mut grant = producer.grant(len as u16).expect("there is room");
                grant[..8].copy_from_slice(&meta.time.0.to_ne_bytes());
                grant[8..].copy_from_slice(text);
                grant.commit(len as u16);
                let read = consumer.read().expect("it is there");
                black_box(&*read);
                read.release();
            }
        },
    );
    table.print(effort);

    let ring = Ring::<[Slot; RECORDS]>::new();
    let drain = Drain::new(&ring, All, SinkOptions::DEFAULT);
    let mut table = Table::new(
        "A record of 60 bytes, to a sink that takes everything",
        Unit::Nanoseconds,
    );
    table.row("Ring::log, and Drain::drain_bounded", None, |times| {
        for _ in 0..times {
            ring.log(&meta(), text());
            let _ = black_box(drain.drain_bounded(0, Priority::Normal, &Still));
        }
    });
    table.print(effort);

    let clock = HostClock::new();
    let mut table = Table::new("A slice with nothing to do", Unit::Nanoseconds);
    table.row("one read of the clock: the limit", None, |times| {
        for _ in 0..times {
            black_box(clock.now());
        }
    });
    let limit = Limit::RatioAtMost(1.5);
    table.row("Drain::drain_bounded with nothing to do", limit, |times| {
        for _ in 0..times {
            let _ = black_box(drain.drain_bounded(0, Priority::Normal, &clock));
        }
    });
    table.print(effort);
}

//! Sinks that break their contract.

use std::cell::Cell;

use crate::common::{At, CLOCK_READ, Line, META, P, Virtual, drain_all, of};
use nostall_console::{
    Caller, Drain, FlushLimits, Level, Next, Offered, Priority, Ring, Sink, SinkOptions, Slot,
    flush,
};
use nostall_io::{Clock, Nanos};
use nostall_postmortem::log_ring;

#[test]
fn a_sink_that_is_gone_or_never_ready_delays_no_producer_and_is_polled_later() {
    const RECORDS: usize = if cfg!(miri) { 10 } else { 20 };
    let ring = Ring::<[Slot; 8]>::new();
    let gone = Drain::new(&ring, Line::new(0), SinkOptions::DEFAULT);
    let fine = Drain::new(&ring, Line::new(999), SinkOptions::DEFAULT);
    *gone.sink().ready_at.lock().unwrap() = None;
    for n in 0..RECORDS {
        ring.format(&META, format_args!("{n}"));
        let again = gone.drain_bounded(0, Priority::Normal, &At(5));
        assert_eq!(again, Next::At(Nanos(5) + Nanos::from_secs(1)));
        drain_all(&fine, Priority::Normal);
    }
    let all: String = (0..RECORDS).map(|n| format!("{P}{n}\n")).collect();
    assert_eq!(fine.sink().text(), all);
    assert_eq!(gone.unread() as usize, RECORDS);
    // The sink returns. The newest records are still there, and the lost ones are counted.
    *gone.sink().load.lock().unwrap() = 10;
    *gone.sink().ready_at.lock().unwrap() = Some(Nanos(0));
    let second = Nanos::from_secs(1).0;
    assert_eq!(*gone.sink().offers.lock().unwrap(), 1);
    assert_eq!(
        gone.drain_bounded(0, Priority::Normal, &At(5 + second)),
        Next::Empty
    );
    let lost = RECORDS - 8;
    let rest: String = (lost..RECORDS).map(|n| format!("{P}{n}\n")).collect();
    assert_eq!(gone.sink().text(), format!("[{lost} records lost]\n{rest}"));
    assert_eq!(gone.lost() as usize, lost);
}

#[test]
fn a_ready_sink_that_takes_nothing_is_not_polled_continuously() {
    let ring = Ring::<[Slot; 64]>::new();
    ring.log(&META, b"text");
    for (ready_at, then) in [(0, 1_000_007), (7, 1_000_007), (8, 8), (u64::MAX, u64::MAX)] {
        let drain = Drain::new(&ring, Line::new(0), SinkOptions::DEFAULT);
        *drain.sink().ready_at.lock().unwrap() = Some(Nanos(ready_at));
        let next = drain.drain_bounded(0, Priority::Normal, &At(7));
        assert_eq!(next, Next::At(Nanos(then)));
    }
}

#[test]
fn a_sink_that_panics_is_released_and_offered_the_same_bytes_again() {
    struct Broken(Line, Cell<bool>);
    impl Sink for Broken {
        fn offer(&self, text: &[u8], caller: Caller) -> Offered {
            if self.1.get() {
                std::panic::resume_unwind(Box::new("broken"));
            }
            self.0.offer(text, caller)
        }
    }
    let ring = Ring::<[Slot; 64]>::new();
    let sink = Broken(Line::new(7), Cell::new(false));
    let drain = Drain::new(&ring, sink, SinkOptions::DEFAULT.slice(1));
    ring.log(&META, b"one");
    ring.log(&META, b"two");
    let act = |act: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_ok();
    let slice = || {
        let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
    };
    assert!(act(&slice));
    drain.sink().1.set(true);
    assert!(!act(&slice) && !act(&slice));
    ring.log(&of(Priority::Panic), b"panic");
    let clock = Virtual::default();
    let in_panic = || {
        flush(&[&drain], 1, &clock, FlushLimits::DEFAULT);
    };
    assert!(!act(&in_panic));
    drain.sink().1.set(false);
    let flushed = flush(&[&drain], 2, &clock, FlushLimits::DEFAULT);
    assert_eq!((flushed.complete, flushed.seized), (1, 0));
    assert!(clock.now() < CLOCK_READ * 200);
    let start = &P[..7];
    let text = drain.sink().0.text();
    assert_eq!(
        text,
        format!("{start}\n{{again}}\n{P}panic\n{P}one\n{P}two\n")
    );
}

#[test]
fn records_that_a_sink_excludes_are_not_unread() {
    let mut memory = vec![0; 4096];
    let skip = memory.as_ptr().align_offset(64);
    let memory = &mut memory[skip..][..2048];
    let ring = Ring::in_memory(memory).unwrap();
    let options = SinkOptions::DEFAULT.level(Level::Error).progress_slot(1);
    let drain = Drain::new(ring, Line::new(99), options);
    for _ in 0..9 {
        ring.log(&META, b"a trifle");
    }
    assert_eq!(
        drain.drain_bounded(0, Priority::Normal, &At(0)),
        Next::Empty
    );
    assert_eq!(log_ring::decode(memory).unwrap().sent(), [0, 10, 0, 0]);
}

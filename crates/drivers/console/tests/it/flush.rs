//! Panics, and the output of a real port in virtual time.

use std::cell::Cell;

use crate::common::{Advancing, At, CLOCK_READ, Line, META, P, Virtual, drain_all, of};
use nostall_console::{
    Caller, Drain, FlushLimits, Next, Offered, OverflowPolicy, PanicOrder, Priority, Record, Ring,
    Sink, SinkOptions, Slot, UartSink, Watchdog, flush,
};
use nostall_devices::uart::{Profile, Uart};
use nostall_io::{Clock, Nanos};
use nostall_uart::{Console, LineSettings};

#[test]
fn a_panics_text_is_first_and_the_backlog_follows_in_order() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(20), SinkOptions::DEFAULT.slice(1));
    ring.log(&META, b"one");
    ring.log(&META, b"two");
    let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
    ring.log(&of(Priority::Emergency), b"oops");
    ring.log(&of(Priority::Panic), b"panic\nCall Trace:");
    let clock = Virtual::default();
    let flushed = flush(&[&drain], 0, &clock, FlushLimits::DEFAULT);
    assert_eq!((flushed.complete, flushed.seized), (1, 0));
    assert_eq!(
        drain.sink().text(),
        format!(
            "{P}one\n[\n{{cut 0}}\n{P}panic\n{P}Call Trace:\n{P}oops\n{{rest 0}}{}two\n",
            &P[1..]
        )
    );
    // From now on, a panic owns the sink.
    ring.log(&META, b"later");
    assert_eq!(drain.drain_bounded(0, Priority::Normal, &At(0)), Next::Over);
    assert_eq!(
        drain.drain_bounded(0, Priority::Emergency, &At(0)),
        Next::Over
    );
}

#[test]
fn a_panic_can_send_only_the_newest_of_the_backlog() {
    for load in [1, 7, 99] {
        for (most, kept) in [(0, 10..10), (1, 9..10), (3, 7..10), (usize::MAX, 1..10)] {
            let ring = Ring::<[Slot; 64]>::new();
            let options = SinkOptions::DEFAULT
                .slice(1)
                .panic_order(PanicOrder::PanicThenNewest(most));
            let drain = Drain::new(&ring, Line::new(load), options);
            ring.log(&META, b"sent");
            drain_all(&drain, Priority::Normal);
            for n in 1..10 {
                ring.format(&META, format_args!("{n}"));
                // Urgent records do not count.
                if n % 4 == 0 {
                    ring.format(&of(Priority::Emergency), format_args!("urgent {n}"));
                }
            }
            ring.log(&of(Priority::Panic), b"panic\nCall Trace:");
            let flushed = flush(&[&drain], 0, &Virtual::default(), FlushLimits::DEFAULT);
            assert_eq!((flushed.complete, drain.unread()), (1, 0));
            let mut wanted =
                format!("{P}sent\n{P}panic\n{P}Call Trace:\n{P}urgent 4\n{P}urgent 8\n");
            // From the first record after "sent": one for each number, and urgent ones between.
            let left_out = match most {
                0 => 13,
                1 => 10,
                3 => 7,
                _ => 0,
            };
            assert_eq!(drain.lost(), left_out);
            if left_out > 0 && most > 0 {
                wanted += &format!("[{left_out} records lost]\n");
            }
            for n in kept {
                wanted += &format!("{P}{n}\n");
            }
            assert_eq!(drain.sink().text(), wanted, "load {load}, newest {most}");
        }
    }
}

#[test]
fn a_panic_in_the_newest_part_of_the_backlog_leaves_out_no_more_and_a_cut_line_is_marked() {
    let ring = Ring::<[Slot; 64]>::new();
    let clock = Virtual::default();
    let handler = |drain: &Drain<'_, Panics<'_>>| {
        // Once the newest are chosen, records of other CPUs do not change the choice.
        if drain.lost() > 0 {
            for _ in 0..5 {
                ring.log(&META, b"late");
            }
        }
        ring.log(&of(Priority::Panic), b"second");
        flush(&[drain], 0, &clock, FlushLimits::DEFAULT);
    };
    for after in 1..10 {
        let options = SinkOptions::DEFAULT
            .slice(1)
            .panic_order(PanicOrder::PanicThenNewest(3));
        let sink = Panics {
            line: Line::new(10),
            after,
            ..Panics::new(&handler)
        };
        let drain = Drain::new(&ring, sink, options);
        drain.start_at(ring.newest() + 1);
        for n in 0..9 {
            ring.format(&META, format_args!("record {n}"));
        }
        let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
        ring.log(&of(Priority::Panic), b"first");
        drain.sink().drain.set(Some(&drain));
        flush(&[&drain], 0, &clock, FlushLimits::DEFAULT);
        let text = drain.sink().line.text();
        let times = |line| text.matches(line).count();
        // The sink's panic takes an offer twice.
        assert!((1..=2).contains(&times("first")), "{after}: {text}");
        assert_eq!(times("second"), 1, "{after}: {text}");
        assert_eq!(times("record 0") + times("record 5"), 0, "{after}: {text}");
        for line in ["record 6", "record 7", "record 8"] {
            assert!((1..=2).contains(&times(line)), "{after}: {text}");
        }
        assert!(text.contains("[6 records lost]\n"), "{after}: {text}");
    }
}

#[test]
fn a_flush_ends_in_time_and_a_stuck_sink_delays_no_other_sink() {
    let ring = Ring::<[Slot; 64]>::new();
    let stuck = Drain::new(&ring, Line::new(0), SinkOptions::DEFAULT);
    let gone = Drain::new(&ring, Line::new(0), SinkOptions::DEFAULT);
    let fine = Drain::new(&ring, Line::new(7), SinkOptions::DEFAULT);
    *gone.sink().ready_at.lock().unwrap() = None;
    ring.log(&META, b"backlog");
    ring.log(&of(Priority::Panic), b"panic");
    let clock = Virtual::default();
    let limit = CLOCK_READ * if cfg!(miri) { 100 } else { 100_000 };
    let flushed = flush(
        &[&stuck, &gone, &fine],
        0,
        &clock,
        FlushLimits::DEFAULT.total(limit),
    );
    assert_eq!((flushed.complete, flushed.incomplete), (1, 2));
    assert!(clock.now() >= limit && clock.now() <= limit + CLOCK_READ * 600);
    assert_eq!(fine.sink().text(), format!("{P}panic\n{P}backlog\n"));
}

/// A sink with a defect: it panics after this number of offers.
struct Panics<'a> {
    line: Line,
    after: usize,
    drain: Cell<Option<&'a Drain<'a, Self>>>,
    handler: &'a dyn Fn(&Drain<'_, Self>),
}

impl Sink for Panics<'_> {
    fn offer(&self, text: &[u8], caller: Caller) -> Offered {
        if *self.line.offers.lock().unwrap() == self.after
            && let Some(drain) = self.drain.take()
        {
            (self.handler)(drain);
        }
        self.line.offer(text, caller)
    }
}

impl<'a> Panics<'a> {
    fn new(handler: &'a dyn Fn(&Drain<'_, Self>)) -> Self {
        Self {
            line: Line::new(30),
            after: 1,
            drain: Cell::new(None),
            handler,
        }
    }
}

#[test]
fn a_panic_in_the_drain_itself_seizes_the_sink_and_completes() {
    for cpu in [0, 1] {
        for first_in_slice in [true, false] {
            // Under Miri, 100 ms of polls take too long.
            if cfg!(miri) && (cpu, first_in_slice) == (1, false) {
                continue;
            }
            let ring = Ring::<[Slot; 64]>::new();
            let clock = Virtual::default();
            let handler = |drain: &Drain<'_, Panics<'_>>| {
                ring.log(&of(Priority::Panic), b"in the drain");
                let start = clock.now();
                let flushed = flush(&[drain], cpu, &clock, FlushLimits::DEFAULT);
                assert_eq!((flushed.complete, flushed.seized), (1, 1));
                let waited = match (cpu, first_in_slice) {
                    // A panic on the owner's own CPU does not wait.
                    (0, _) => Nanos::ZERO,
                    (_, true) => Nanos::from_millis(1),
                    (_, false) => Nanos::from_millis(100),
                };
                assert!(clock.now() - start <= waited + CLOCK_READ * 120);
            };
            let outer = Drain::new(&ring, Panics::new(&handler), SinkOptions::DEFAULT);
            outer.sink().drain.set(Some(&outer));
            ring.log(&META, b"one");
            ring.log(&META, b"two");
            if first_in_slice {
                for _ in 0..4 {
                    let _ = outer.drain_bounded(0, Priority::Normal, &At(0));
                }
            } else {
                flush(&[&outer], 0, &clock, FlushLimits::DEFAULT);
            }
            let text = outer.sink().line.text();
            let start = format!("{P}one\n{P}two\n");
            assert_eq!(text[..30], start[..30]);
            let rest = &text[30..];
            let head = format!("\n{{again}}\n{P}in the drain\n");
            assert!(rest.starts_with(&head), "{text}");
            // The lines of that offer are sent again. This owner is alive, so the bytes that it was
            // about to send follow.
            assert!(
                rest[head.len()..].starts_with(&format!("{P}two\n")),
                "{text}"
            );
        }
    }
}

#[test]
fn the_second_of_two_panics_leaves_its_text_to_the_first_while_that_one_runs() {
    let ring = Ring::<[Slot; 64]>::new();
    let clock = Virtual::default();
    // Another CPU panics while the first is in an offer. Its limits allow no wait.
    let handler = |drain: &Drain<'_, Panics<'_>>| {
        ring.log(&of(Priority::Panic), b"second");
        let limits =
            FlushLimits::DEFAULT.total(Nanos::from_millis(if cfg!(miri) { 1 } else { 50 }));
        let flushed = flush(&[drain], 1, &clock, limits);
        assert_eq!((flushed.left_to_another, flushed.complete), (1, 0));
    };
    let drain = Drain::new(&ring, Panics::new(&handler), SinkOptions::DEFAULT);
    drain.sink().drain.set(Some(&drain));
    ring.log(&META, b"backlog");
    ring.log(
        &of(Priority::Panic),
        b"first, and it is a long line, of several offers",
    );
    let flushed = flush(&[&drain], 0, &clock, FlushLimits::DEFAULT);
    assert_eq!(flushed.complete, 1);
    let first = "first, and it is a long line, of several offers";
    assert_eq!(
        drain.sink().line.text(),
        format!("{P}{first}\n{P}second\n{P}backlog\n")
    );
}

#[test]
fn a_flush_and_a_wait_for_room_end_with_a_stopped_clock() {
    struct Still;
    impl Clock for Still {
        fn now(&self) -> Nanos {
            Nanos(5)
        }
        fn wait_until(&self, _: Nanos) {}
    }
    let ring = Ring::<[Slot; 4]>::new();
    let at_most = Nanos::from_micros(if cfg!(miri) { 3 } else { 100 });
    let options = SinkOptions::DEFAULT.overflow(OverflowPolicy::Wait(at_most));
    let stuck = Drain::new(&ring, Line::new(0), options);
    for n in 0..4 {
        ring.format(&META, format_args!("{n}"));
    }
    assert_eq!(stuck.make_room(0, &Still, || ()), at_most);
    let flushed = flush(&[&stuck], 0, &Still, FlushLimits::DEFAULT.total(at_most));
    assert_eq!((flushed.complete, flushed.incomplete), (0, 1));
}

#[test]
#[cfg_attr(miri, ignore = "a port in virtual time")]
fn a_flood_on_a_slow_line_occupies_no_cpu_for_100_us_and_loses_nothing() {
    const LINES: usize = 2_000;
    for profile in [Profile::PC_16550A, Profile::HP_DL380_GEN9] {
        let (port, clock) = Uart::in_virtual_time(profile, Vec::new());
        let console = Console::open(&port, &clock, LineSettings::baud(115_200)).unwrap();
        let ring = Ring::<[Slot; 4096]>::new();
        let drain = Drain::new(&ring, UartSink::new(console), SinkOptions::DEFAULT);
        let mut wanted = String::new();
        for n in 0..LINES {
            let text = format!("sd 2:0:{n}:0: [sd{n}] Attached SCSI disk");
            wanted += &format!("{P}{text}\r\n");
            ring.log(&META, text.as_bytes());
        }
        let watchdog = Watchdog::new();
        let mut longest = Nanos::ZERO;
        let mut held = Nanos::ZERO;
        let start = clock.now();
        loop {
            let now = clock.now();
            watchdog.touch(now);
            let next = drain.drain_bounded(0, Priority::Normal, &clock);
            let took = clock.now() - now;
            longest = longest.max(took);
            held = held + took;
            assert_eq!(watchdog.check(clock.now(), Watchdog::THRESHOLD), None);
            match next {
                Next::At(time) => clock.sleep_until(time),
                _ => break,
            }
        }
        let all = clock.now() - start;
        assert!(longest <= Nanos::from_micros(100), "{longest}");
        assert!(held * 10 <= all, "held {held} of {all}");
        assert_eq!((drain.lost(), drain.unread()), (0, 0));
        if profile == Profile::PC_16550A {
            // 99 % of the line's capacity: 86.8 us a byte.
            let least = Nanos(86_806) * wanted.len() as u64;
            assert!(all.0 * 99 <= least.0 * 100, "{all} for {least}");
        }
        drain.sink().finish();
        assert!(String::from_utf8(port.into_sink()).unwrap() == wanted);
    }
}

#[test]
#[cfg_attr(miri, ignore = "a port in virtual time")]
fn a_panic_in_a_flood_is_sent_within_one_fifo_and_the_rest_follows() {
    let (port, clock) = Uart::in_virtual_time(Profile::PC_16550A, Vec::new());
    let console = Console::open(&port, &clock, LineSettings::baud(115_200)).unwrap();
    let ring = Ring::<[Slot; 256]>::new();
    let drain = Drain::new(&ring, UartSink::new(console), SinkOptions::DEFAULT);
    for n in 0..100 {
        ring.format(&META, format_args!("flood {n}"));
    }
    for _ in 0..10 {
        if let Next::At(time) = drain.drain_bounded(0, Priority::Normal, &clock) {
            clock.sleep_until(time);
        }
    }
    ring.log(&of(Priority::Panic), b"panic");
    let limit = Nanos::from_millis(20);
    let start = clock.now();
    flush(
        &[&drain],
        0,
        &Advancing(&clock),
        FlushLimits::DEFAULT.total(limit),
    );
    // The limit, the last offer, and a full FIFO.
    assert!(clock.now() - start <= limit + Nanos::from_millis(4));
    assert!(drain.unread() > 0);
    let text = String::from_utf8(port.into_sink()).unwrap();
    let (before, after) = text.split_once("\r\n{cut 0}\r\n").unwrap();
    assert!(before.len() <= 16 * 10);
    assert!(
        after.starts_with(&format!("{P}panic\r\n{{rest 0}}")),
        "{text}"
    );
    let whole = format!("{before}{}", after.split_once("{rest 0}").unwrap().1);
    let wanted: String = (0..100).map(|n| format!("{P}flood {n}\r\n")).collect();
    assert!(wanted.starts_with(&whole), "{text}");
}

#[test]
fn a_flush_without_a_backlog_interrupts_no_line() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(99), SinkOptions::DEFAULT);
    ring.log(&META, b"one");
    drain_all(&drain, Priority::Normal);
    ring.log(&of(Priority::Panic), b"panic");
    flush(&[&drain], 0, &Virtual::default(), FlushLimits::DEFAULT);
    assert_eq!(drain.sink().text(), format!("{P}one\n{P}panic\n"));
}

#[test]
#[cfg_attr(miri, ignore = "counts, of many records")]
fn a_fast_sink_gets_its_backlog_after_the_slow_one_has_had_a_turn() {
    /// A sink that notes the progress of the other one at each offer.
    struct Slow<'a>(&'a Line, Cell<Option<usize>>);
    impl Sink for Slow<'_> {
        fn offer(&self, text: &[u8], _: Caller) -> Offered {
            if self.1.get().is_none() {
                self.1.set(Some(self.0.taken.lock().unwrap().len()));
            }
            Offered {
                taken: text.len(),
                ready_at: Some(Nanos(0)),
            }
        }
    }
    let ring = Ring::<[Slot; 1024]>::new();
    let fast = Line::new(usize::MAX);
    let slow = Drain::new(&ring, Slow(&fast, Cell::new(None)), SinkOptions::DEFAULT);
    let fast = Drain::new(&ring, &fast, SinkOptions::DEFAULT);
    for n in 0..1024 {
        ring.format(&META, format_args!("backlog {n}"));
    }
    ring.log(&of(Priority::Panic), b"panic");
    let clock = Virtual::default();
    let flushed = flush(&[&fast, &slow], 0, &clock, FlushLimits::DEFAULT);
    assert_eq!(flushed.complete, 2);
    let before = slow.sink().1.get().unwrap();
    assert!(before < 1024 * 30 / 4, "{before} bytes");
}

/// A sink that panics in each offer of a panic. The kernel's handler flushes again.
struct Broken {
    calls: Cell<usize>,
    handler: Cell<Option<&'static dyn Fn()>>,
}

impl Sink for Broken {
    fn offer(&self, text: &[u8], _: Caller) -> Offered {
        self.calls.set(self.calls.get() + 1);
        if let Some(handler) = self.handler.get() {
            handler();
        }
        Offered {
            taken: text.len(),
            ready_at: Some(Nanos::ZERO),
        }
    }
}

#[test]
fn a_sink_that_panics_in_each_offer_is_left_out_and_the_others_get_the_text() {
    let ring: &'static Ring<[Slot; 64]> = Box::leak(Box::new(Ring::new()));
    let broken: &'static _ = Box::leak(Box::new(Drain::new(
        ring,
        Broken {
            calls: Cell::new(0),
            handler: Cell::new(None),
        },
        SinkOptions::DEFAULT,
    )));
    let line: &'static _ = Box::leak(Box::new(Drain::new(
        ring,
        Line::new(20),
        SinkOptions::DEFAULT,
    )));
    let panics = || {
        ring.log(&of(Priority::Panic), b"panic");
        let clock = Virtual::default();
        // A panic handler never returns to the panicking code.
        _ = flush(&[broken, line], 0, &clock, FlushLimits::DEFAULT);
    };
    broken.sink().handler.set(Some(Box::leak(Box::new(panics))));
    panics();
    assert!(
        broken.sink().calls.get() < 10,
        "{}",
        broken.sink().calls.get()
    );
    let text = line.sink().text();
    assert!(text.matches("panic").count() >= 3, "{text}");
}

#[test]
fn a_prefix_that_panics_is_left_out_and_the_text_is_sent_without_it() {
    thread_local! {
        static HANDLER: Cell<Option<&'static dyn Fn()>> = const { Cell::new(None) };
        static CALLS: Cell<usize> = const { Cell::new(0) };
    }
    fn broken(_: &Record, _: &mut dyn std::fmt::Write) -> std::fmt::Result {
        CALLS.set(CALLS.get() + 1);
        if let Some(handler) = HANDLER.get() {
            handler();
        }
        Ok(())
    }
    let ring: &'static Ring<[Slot; 64]> = Box::leak(Box::new(Ring::new()));
    let line: &'static _ = Box::leak(Box::new(Drain::new(
        ring,
        Line::new(20),
        SinkOptions::DEFAULT.prefix(broken),
    )));
    let panics = || {
        ring.log(&of(Priority::Panic), b"the end");
        let clock = Virtual::default();
        let flushed = flush(&[line], 0, &clock, FlushLimits::DEFAULT);
        assert_eq!(flushed.complete, 1);
        // A panic handler never returns to the panicking code.
        std::panic::resume_unwind(Box::new(()));
    };
    HANDLER.set(Some(Box::leak(Box::new(panics))));
    ring.log(&of(Priority::Panic), b"the start");
    let start = || flush(&[line], 0, &Virtual::default(), FlushLimits::DEFAULT);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(start)).is_err());
    assert_eq!(CALLS.get(), 1);
    let text = line.sink().text();
    assert!(
        text.contains("the start\n") && text.contains("the end\n"),
        "{text}"
    );
}

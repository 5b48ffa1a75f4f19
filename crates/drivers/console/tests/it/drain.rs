//! The bytes that sinks receive.

use std::cell::{Cell, RefCell};

use crate::common::{At, CLOCK_READ, Line, META, P, Virtual, drain_all, of};
use nostall_console::layout::PAYLOAD;
use nostall_console::{
    Caller, Drain, Level, Meta, Next, OverflowPolicy, Priority, Ring, Sink, SinkOptions, Slot,
};
use nostall_io::{Clock, Nanos, Offered};
use proptest::prelude::*;

#[test]
fn lines_are_sent_as_logged_however_many_bytes_the_sink_takes_at_once() {
    const ALL: &[usize] = &[1, 2, 3, 15, 16, 17, 64, 256, 1000];
    const FEW: &[usize] = &[64];
    for &load in if cfg!(miri) { FEW } else { ALL } {
        let ring = Ring::<[Slot; 64]>::new();
        let drain = Drain::new(&ring, Line::new(load), SinkOptions::DEFAULT);
        ring.log(&META, b"one\n");
        ring.log(&META, b"two\nthree");
        let long = "0123456789".repeat(if cfg!(miri) { 12 } else { 30 });
        ring.log(&META, long.as_bytes());
        ring.format(&META, format_args!("{long}{}", 12));
        let meta = Meta {
            target: "pci",
            ..META
        };
        ring.log(&meta, long.as_bytes());
        drain_all(&drain, Priority::Normal);
        assert_eq!(
            drain.sink().text(),
            format!("{P}one\n{P}two\n{P}three\n{P}{long}\n{P}{long}12\n{P}pci: {long}\n")
        );
        assert_eq!(drain.lost(), 0);
    }
}

#[test]
fn a_slice_ends_when_the_sink_is_full_and_returns_the_time_to_retry() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(16), SinkOptions::DEFAULT);
    for n in 0..10 {
        ring.format(&META, format_args!("line {n}"));
    }
    *drain.sink().ready_at.lock().unwrap() = Some(Nanos(1_400));
    assert_eq!(
        drain.drain_bounded(0, Priority::Normal, &At(7)),
        Next::At(Nanos(1_400))
    );
    assert_eq!(*drain.sink().offers.lock().unwrap(), 1);
    // Until then the drain does not access the sink.
    assert_eq!(
        drain.drain_bounded(0, Priority::Normal, &At(9)),
        Next::At(Nanos(1_400))
    );
    assert_eq!(*drain.sink().offers.lock().unwrap(), 1);
    *drain.sink().ready_at.lock().unwrap() = Some(Nanos(0));
    // The slice ends after its limit of bytes, even if the sink takes everything.
    *drain.sink().load.lock().unwrap() = usize::MAX;
    for n in 0..if cfg!(miri) { 50 } else { 1000 } {
        ring.format(&META, format_args!("line {n}"));
    }
    let before = drain.bytes();
    assert_eq!(
        drain.drain_bounded(0, Priority::Normal, &At(1_400)),
        Next::At(Nanos(1_400))
    );
    assert!((1024..1024 + 256).contains(&(drain.bytes() - before)));
}

#[test]
#[cfg_attr(miri, ignore = "counts, of many records")]
fn a_slice_reads_a_bounded_number_of_records_that_it_does_not_send() {
    const RECORDS: usize = 1 << 13;
    let ring = Box::new(Ring::<[Slot; RECORDS]>::new());
    let options = SinkOptions::DEFAULT.level(Level::Warning);
    let drain = Drain::new(&ring, Line::new(usize::MAX), options);
    for n in 0..RECORDS {
        let level = [Level::Warning, Level::Info][usize::from(n % 100 > 0)];
        ring.log(&Meta { level, ..META }, b"");
    }
    let mut slices = 0;
    loop {
        let before = drain.unread();
        let next = drain.drain_bounded(0, Priority::Normal, &At(0));
        assert!(before - drain.unread() <= 256 + 8);
        slices += 1;
        if next == Next::Empty {
            break;
        }
    }
    assert!(
        (RECORDS / 264..=RECORDS / 256 + 1).contains(&slices),
        "{slices}"
    );
    assert_eq!(drain.sink().text().lines().count(), RECORDS.div_ceil(100));
}

#[test]
fn a_fifo_is_filled_across_the_ends_of_lines() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(64), SinkOptions::DEFAULT);
    *drain.sink().ready_at.lock().unwrap() = Some(Nanos(1));
    for _ in 0..4 {
        ring.log(&META, b"");
        ring.log(&META, b"x");
    }
    let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
    assert_eq!(drain.bytes(), 2 * (16 + 17) - 2);
}

#[test]
fn a_partly_sent_line_is_finished_even_if_it_is_overwritten() {
    let ring = Ring::<[Slot; 4]>::new();
    let drain = Drain::new(&ring, Line::new(20), SinkOptions::DEFAULT.slice(1));
    ring.log(&META, b"a line that is long");
    let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
    for n in 0..10 {
        ring.format(&META, format_args!("{n}"));
    }
    drain_all(&drain, Priority::Normal);
    let rest: String = (6..10).map(|n| format!("{P}{n}\n")).collect();
    assert_eq!(
        drain.sink().text(),
        format!("{P}a line that is long\n[6 records lost]\n{rest}")
    );
}

#[test]
fn a_level_excludes_records_but_no_emergencies() {
    let ring = Ring::<[Slot; 8]>::new();
    let drain = Drain::new(
        &ring,
        Line::new(99),
        SinkOptions::DEFAULT.level(Level::Warning).progress_slot(1),
    );
    let level = |level| Meta { level, ..META };
    ring.log(&level(Level::Info), b"info");
    ring.log(&level(Level::Warning), b"warning");
    ring.log(&level(Level::Debug), b"debug");
    let urgent = Meta {
        level: Level::Debug,
        ..of(Priority::Emergency)
    };
    ring.log(&urgent, b"urgent");
    drain_all(&drain, Priority::Normal);
    assert_eq!(drain.sink().text(), format!("{P}urgent\n{P}warning\n"));
    assert_eq!((drain.lost(), drain.unread()), (0, 0));
}

#[test]
fn an_emergency_is_sent_first_interrupts_the_line_and_sends_no_backlog() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(20), SinkOptions::DEFAULT.slice(1));
    for n in 0..5 {
        ring.format(&META, format_args!("backlog {n}"));
    }
    let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
    ring.log(&of(Priority::Emergency), b"BUG: soft lockup\nCall Trace:");
    ring.log(&META, b"later");
    drain_all(&drain, Priority::Emergency);
    let head = format!("{P}backl\n{{cut 0}}\n{P}BUG: soft lockup\n{P}Call Trace:\n");
    assert_eq!(drain.sink().text(), head);
    assert_eq!(
        drain.drain_bounded(3, Priority::Emergency, &At(0)),
        Next::Backlog(Nanos(0))
    );
    drain_all(&drain, Priority::Normal);
    let rest: String = (1..5).map(|n| format!("{P}backlog {n}\n")).collect();
    assert_eq!(
        drain.sink().text(),
        format!("{{rest 0}}og 0\n{rest}{P}later\n")
    );
}

#[test]
fn a_running_slice_sends_an_emergency_next() {
    struct Nested<'a> {
        line: Line,
        ring: &'a Ring,
        outer: Cell<Option<&'a Drain<'a, Self>>>,
    }
    impl Sink for Nested<'_> {
        fn offer(&self, text: &[u8], caller: Caller) -> nostall_console::Offered {
            // The timer interrupts the first offer.
            if let Some(drain) = self.outer.take() {
                self.ring.log(&of(Priority::Emergency), b"lockup");
                let busy = Next::Busy(Nanos::from_millis(10));
                assert_eq!(drain.drain_bounded(0, Priority::Emergency, &At(0)), busy);
                assert_eq!(drain.drain_bounded(1, Priority::Normal, &At(0)), busy);
            }
            self.line.offer(text, caller)
        }
    }
    let ring = Ring::<[Slot; 64]>::new();
    let sink = Nested {
        line: Line::new(20),
        ring: &ring,
        outer: Cell::new(None),
    };
    let drain = Drain::new(&ring, sink, SinkOptions::DEFAULT);
    drain.sink().outer.set(Some(&drain));
    ring.log(&META, b"some backlog");
    drain_all(&drain, Priority::Normal);
    let text = drain.sink().line.text();
    assert_eq!(
        text,
        format!("{P}some \n{{cut 0}}\n{P}lockup\n{{rest 0}}backlog\n")
    );
}

#[test]
fn back_pressure_makes_room_for_a_bounded_time() {
    const RECORDS: usize = if cfg!(miri) { 20 } else { 100 };
    let ring = Ring::<[Slot; 16]>::new();
    let at_most = Nanos::from_micros(if cfg!(miri) { 3 } else { 500 });
    let options = SinkOptions::DEFAULT.overflow(OverflowPolicy::Wait(at_most));
    let stuck = Drain::new(&ring, Line::new(0), options);
    let fine = Drain::new(&ring, Line::new(99), options);
    let dropping = Drain::new(&ring, Line::new(0), SinkOptions::DEFAULT);
    let clock = Virtual::default();
    for n in 0..RECORDS {
        assert_eq!(dropping.make_room(0, &clock, || ()), Nanos::ZERO);
        assert!(fine.make_room(0, &clock, || ()) <= at_most);
        ring.format(&META, format_args!("{n}"));
    }
    drain_all(&fine, Priority::Normal);
    assert_eq!(fine.lost(), 0);
    assert_eq!(fine.sink().text().lines().count(), RECORDS);
    let before = clock.now();
    let waited = stuck.make_room(0, &clock, || ());
    // The last slice is not interrupted, and reads the clock several times.
    assert!(
        waited >= at_most && waited <= at_most + CLOCK_READ * 60,
        "{waited}"
    );
    assert!(clock.now() - before <= at_most + CLOCK_READ * 180);
}

#[test]
fn terminal_controls_and_imitated_lines_are_escaped() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(9), SinkOptions::DEFAULT);
    ring.log(
        &META,
        b"nul \0, cr \r, esc \x1b[2J, tab \t, \xff\xfe, \xc3\xa4, \xc2\x9b",
    );
    const ZEROS: usize = if cfg!(miri) { 20 } else { 200 };
    ring.log(&META, &[0; ZEROS]);
    drain_all(&drain, Priority::Normal);
    let text = drain.sink().text();
    assert_eq!(
        text,
        format!(
            "{P}nul \\x00, cr \\x0d, esc \\x1b[2J, tab \t, \\xff\\xfe, \u{e4}, \\xc2\\x9b\n{P}{}\n",
            "\\x00".repeat(ZEROS)
        )
    );
}

#[test]
#[cfg_attr(miri, ignore = "counts, of many records")]
fn a_text_of_a_mebibyte_takes_a_bounded_part_of_the_ring_and_is_marked_as_cut() {
    const LONG: usize = 1 << 20;
    let ring = Ring::<[Slot; 1024]>::new();
    let text = vec![b'x'; LONG];
    let logged = ring.log(&META, &text);
    assert_eq!(logged.records, 64);
    assert_eq!(ring.cut() as usize, logged.cut);
    let drain = Drain::new(&ring, Line::new(999), SinkOptions::DEFAULT);
    drain_all(&drain, Priority::Normal);
    let out = drain.sink().text();
    assert_eq!(
        out.len(),
        P.len() + (text.len() - logged.cut) + "[cut]\n".len()
    );
    assert!(out.ends_with("x[cut]\n"));

    let formatted = ring.format(
        &META,
        format_args!("{}{}", str::from_utf8(&text).unwrap(), 1),
    );
    assert!(formatted.records <= 64 + 3, "{formatted:?}");
    assert!(formatted.cut > LONG - 70 * PAYLOAD);
    assert_eq!(ring.log(&META, &vec![b'\n'; LONG]).records, 64);

    let small = Ring::<[Slot; 2]>::new();
    assert_eq!(small.log(&META, &text).records, 1);
}

#[test]
#[cfg_attr(miri, ignore = "counts, of many records")]
fn a_formatted_text_that_is_cut_off_between_its_parts_is_marked_as_cut() {
    let ring = Ring::<[Slot; 256]>::new();
    // Texts are collected in 256 bytes before they are logged, here as 64 records, which is the
    // limit of a text.
    let logged = ring.format(&META, format_args!("{}{}", "abc\n".repeat(64), "and more"));
    assert_eq!((logged.records, logged.cut), (64, 8));
    let drain = Drain::new(&ring, Line::new(999), SinkOptions::DEFAULT);
    drain_all(&drain, Priority::Normal);
    let out = drain.sink().text();
    assert_eq!(
        out,
        format!("{}{P}abc[cut]\n", format!("{P}abc\n").repeat(63))
    );
}

#[test]
fn the_tail_has_the_newest_whole_lines() {
    let ring = Ring::<[Slot; 64]>::new();
    for n in if cfg!(miri) { 90 } else { 0 }..100 {
        ring.format(&META, format_args!("line {n}"));
    }
    ring.log(&META, "long ".repeat(50).as_bytes());
    let mut room = [0; 400];
    let tail = str::from_utf8(ring.tail(&mut room)).unwrap();
    let long = format!("{P}{}\n", "long ".repeat(50));
    let lines: String = (95..100).map(|n| format!("{P}line {n}\n")).collect();
    assert_eq!(tail, format!("{lines}{long}"));
    let mut room = [0; 200];
    assert_eq!(ring.tail(&mut room), b"");
}

#[test]
fn an_emergencys_slice_asks_for_another_slice_for_the_backlog() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(99), SinkOptions::DEFAULT);
    ring.log(&of(Priority::Emergency), b"lockup");
    assert_eq!(
        drain.drain_bounded(0, Priority::Emergency, &At(0)),
        Next::Backlog(Nanos(0))
    );
    drain_all(&drain, Priority::Normal);
    assert_eq!(
        drain.drain_bounded(0, Priority::Emergency, &At(0)),
        Next::Empty
    );
    ring.log(&META, b"backlog");
    assert_eq!(
        drain.drain_bounded(0, Priority::Emergency, &At(0)),
        Next::Backlog(Nanos(0))
    );
    ring.log(&of(Priority::Emergency), b"lockup");
    drain_all(&drain, Priority::Emergency);
    assert_eq!(drain.sink().text(), format!("{P}lockup\n{P}lockup\n"));
    drain_all(&drain, Priority::Normal);
    assert_eq!(drain.sink().text(), format!("{P}backlog\n"));
}

#[test]
fn a_slice_is_not_a_panic_and_sends_emergencies_on_request() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(99), SinkOptions::DEFAULT);
    ring.log(&of(Priority::Emergency), b"lockup");
    assert_eq!(
        drain.drain_bounded(0, Priority::Panic, &At(0)),
        Next::Backlog(Nanos(0))
    );
    assert_eq!(drain.sink().text(), format!("{P}lockup\n"));
}

/// A sink that is ready at once, and takes more than its load from then on.
struct Fluent {
    /// Numbers of bytes that it takes, in turn.
    takes: RefCell<Vec<usize>>,
    taken: RefCell<Vec<u8>>,
    longest: Cell<usize>,
}

impl Sink for Fluent {
    fn offer(&self, text: &[u8], caller: Caller) -> Offered {
        self.offer_until(&text[..text.len().min(self.load())], caller, Nanos::ZERO)
    }
    fn offer_until(&self, text: &[u8], _: Caller, _: Nanos) -> Offered {
        self.longest.set(self.longest.get().max(text.len()));
        let takes = self.takes.borrow_mut().pop().unwrap_or(usize::MAX);
        let taken = text.len().min(takes.max(1));
        self.taken.borrow_mut().extend(&text[..taken]);
        Offered {
            taken,
            ready_at: Some(Nanos::ZERO),
        }
    }
    fn load(&self) -> usize {
        16
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 2_000 }))]

    /// The text is that of a sink that takes everything, wherever the offers end.
    #[test]
    fn a_sink_that_takes_several_loads_at_once_gets_each_byte_once(
        texts in prop::collection::vec(("[a-z\n\u{1}ä]{0,150}", 0..4u8), 1..20),
        takes in prop::collection::vec(1..300usize, 0..60),
    ) {
        let ring = Ring::<[Slot; 256]>::new();
        let sink = Fluent { takes: takes.into(), taken: RefCell::default(), longest: Cell::new(0) };
        let fluent = Drain::new(&ring, sink, SinkOptions::DEFAULT);
        let whole = Drain::new(&ring, Line::new(usize::MAX), SinkOptions::DEFAULT);
        for (text, kind) in &texts {
            match kind {
                0 => drop(ring.log_raw(&META, text.as_bytes(), u64::MAX)),
                1 => drop(ring.log(&of(Priority::Emergency), text.as_bytes())),
                _ => drop(ring.log(&META, text.as_bytes())),
            }
        }
        drain_all(&fluent, Priority::Normal);
        drain_all(&whole, Priority::Normal);
        let taken = fluent.sink().taken.take();
        prop_assert_eq!(String::from_utf8_lossy(&taken), whole.sink().text());
        prop_assert!(taken.len() < 200 || fluent.sink().longest.get() > 16);
    }
}

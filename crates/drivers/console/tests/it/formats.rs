//! Formats of a line: prefixes, raw records, unknown times. Also the selection of records for a
//! sink.

use crate::common::{At, Line, META, P, Virtual, drain_all, of};
use nostall_console::{
    Charset, Cursor, Drain, FlushLimits, Level, Meta, PanicOrder, Priority, Read, Ring,
    SinkOptions, Slot, flush, write_time, write_time_cpu_level,
};
use nostall_io::Nanos;

const LOADS: &[usize] = if cfg!(miri) { &[7] } else { &[1, 2, 7, 16, 99] };

#[test]
fn raw_records_are_sent_as_they_are_in_order_with_the_log() {
    for &load in LOADS {
        let ring = Ring::<[Slot; 64]>::new();
        let drain = Drain::new(&ring, Line::new(load), SinkOptions::DEFAULT);
        ring.log(&META, b"before");
        let long = "\x1b[1m\u{e4}\x07".repeat(30);
        assert_eq!(ring.log_raw(&META, long.as_bytes(), 64), long.len());
        ring.log_raw(&META, b"a\r\nprompt> ", 64);
        ring.log_raw(&META, b"typed\n", 64);
        ring.log(&META, b"between");
        ring.log_raw(&META, b"50 %", 64);
        // A line of the log begins a new line, and the program's output continues at its old
        // position.
        ring.log(&META, b"after");
        ring.log_raw(&META, b"done", 64);
        drain_all(&drain, Priority::Normal);
        assert_eq!(
            drain.sink().text(),
            format!("{P}before\n{long}a\r\nprompt> typed\n{P}between\n50 %\n{P}after\ndone"),
            "{load}"
        );
    }
}

#[test]
fn a_raw_line_that_an_emergency_interrupts_continues_after_a_mark() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(4), SinkOptions::DEFAULT.slice(1));
    ring.log_raw(&META, b"progress ", 64);
    let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
    ring.log(&of(Priority::Emergency), b"lockup");
    drain_all(&drain, Priority::Normal);
    ring.log_raw(&META, b"50 %", 64);
    drain_all(&drain, Priority::Normal);
    ring.log(&of(Priority::Emergency), b"again");
    ring.log_raw(&META, b", 51 %", 64);
    drain_all(&drain, Priority::Normal);
    assert_eq!(
        drain.sink().text(),
        format!(
            "prog\n{{cut 0}}\n{P}lockup\n{{rest 0}}ress 50 %\n{{cut 0}}\n{P}again\n{{rest 0}}, 51 %"
        )
    );
}

#[test]
fn raw_bytes_take_only_the_sequences_that_their_caller_allows() {
    let ring = Ring::<[Slot; 64]>::new();
    let text = [b'x'; 1000];
    let record = nostall_console::layout::PAYLOAD;
    assert_eq!(ring.log_raw(&META, &text, 4), 3 * record);
    assert_eq!(ring.log_raw(&META, &text, 4), 0);
    assert_eq!(ring.newest(), 3);
    assert_eq!(ring.log_raw(&META, b"", 9), 0);
    // The limit is a quarter of the ring.
    assert_eq!(
        Ring::<[Slot; 8]>::new().log_raw(&META, &text, 10),
        2 * record
    );
}

#[test]
fn raw_bytes_of_the_tail_and_of_a_printed_record_are_escaped() {
    let ring = Ring::<[Slot; 64]>::new();
    ring.log_raw(&META, b"a \x1b[2J\nb\xff\n", 64);
    let mut room = [0; 400];
    assert_eq!(ring.tail(&mut room), b"a \\x1b[2J\nb\\xff\n");
    let record = { Cursor::START }.read(&ring);
    let Read::Record(record) = record else {
        panic!("{record:?}")
    };
    assert!(record.raw);
    assert_eq!(record.to_string(), "a \\x1b[2J\nb\\xff\n");
}

#[test]
fn a_prefix_hook_writes_the_beginning_of_each_line_and_64_bytes_at_most() {
    for &load in LOADS {
        let ring = Ring::<[Slot; 64]>::new();
        let options = SinkOptions::DEFAULT
            .charset(Charset::Ascii)
            .prefix(|record, out| {
                write_time(record, out)?;
                write!(out, "\x1b[31m{:?}\x1b[0m {} ", record.level, record.cpu)
            });
        let drain = Drain::new(&ring, Line::new(load), options);
        let none = Drain::new(
            &ring,
            Line::new(load),
            SinkOptions::DEFAULT.prefix(|_, _| Ok(())),
        );
        let long = Drain::new(
            &ring,
            Line::new(load),
            SinkOptions::DEFAULT.prefix(|_, out| write!(out, "{:>99}", 1)),
        );
        let meta = Meta {
            cpu: 5,
            level: Level::Error,
            target: "di\nsk",
            ..META
        };
        let text = "0123456789".repeat(12);
        ring.log(&meta, text.as_bytes());
        ring.log(&META, b"\x1b");
        for drain in [&drain, &none, &long] {
            drain_all(drain, Priority::Normal);
        }
        assert_eq!(
            drain.sink().text(),
            format!(
                "{P}\x1b[31mError\x1b[0m 5 di\\x0ask: {text}\n{P}\x1b[31mInfo\x1b[0m 0 \\x1b\n"
            )
        );
        assert_eq!(none.sink().text(), format!("di\\x0ask: {text}\n\\x1b\n"));
        let blanks = " ".repeat(64);
        assert_eq!(
            long.sink().text(),
            format!("{blanks}di\\x0ask: {text}\n{blanks}\\x1b\n")
        );
    }
}

#[test]
fn a_time_has_the_needed_width_and_an_unknown_one_is_blank() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(99), SinkOptions::DEFAULT);
    for time in [
        Nanos::UNKNOWN,
        Nanos::UNKNOWN + Nanos(7),
        Nanos::ZERO,
        Nanos(99_999_999_999_999),
        Nanos(100_000_000_000_000),
        Nanos((1 << 63) - 1),
    ] {
        ring.log(&Meta { time, ..META }, b"x");
    }
    drain_all(&drain, Priority::Normal);
    assert_eq!(
        drain.sink().text(),
        "[            ] x\n[            ] x\n[    0.000000] x\n[99999.999999] x\n\
         [100000.000000] x\n[9223372036.854775] x\n"
    );
}

#[test]
fn a_changed_level_applies_from_the_next_record_on() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(99), SinkOptions::DEFAULT);
    let debug = Meta {
        level: Level::Debug,
        ..META
    };
    for (level, text) in [
        (Level::Debug, "one"),
        (Level::Info, "two"),
        (Level::Debug, "three"),
    ] {
        drain.set_level(level);
        ring.log(&debug, text.as_bytes());
        drain_all(&drain, Priority::Normal);
    }
    assert_eq!(drain.sink().text(), format!("{P}one\n{P}three\n"));
}

#[test]
fn a_programs_output_is_sent_at_any_level() {
    let ring = Ring::<[Slot; 64]>::new();
    let drain = Drain::new(&ring, Line::new(99), SinkOptions::DEFAULT);
    drain.set_level(Level::Emergency);
    ring.log(&META, b"left out");
    ring.log_raw(&META, b"prompt> ", 64);
    drain_all(&drain, Priority::Normal);
    assert_eq!(drain.sink().text(), "prompt> ");
}

#[test]
fn a_panic_sends_records_of_all_levels() {
    let ring = Ring::<[Slot; 64]>::new();
    let options = SinkOptions::DEFAULT.level(Level::Error);
    let drain = Drain::new(&ring, Line::new(99), options);
    ring.log(&META, b"left out before");
    drain_all(&drain, Priority::Normal);
    ring.log(&META, b"of use now");
    ring.log(&of(Priority::Panic), b"the end");
    flush(&[&drain], 0, &Virtual::default(), FlushLimits::DEFAULT);
    assert_eq!(drain.sink().text(), format!("{P}the end\n{P}of use now\n"));
}

#[test]
fn a_panic_can_keep_the_order_of_the_log() {
    for &load in LOADS {
        let ring = Ring::<[Slot; 64]>::new();
        let options = SinkOptions::DEFAULT
            .panic_order(PanicOrder::Sequence)
            .slice(1);
        let drain = Drain::new(&ring, Line::new(load), options);
        ring.log(&META, b"one");
        ring.log(&of(Priority::Emergency), b"two");
        // This line is partly sent, so it is finished first.
        let _ = drain.drain_bounded(0, Priority::Emergency, &At(0));
        ring.log(&META, b"three");
        ring.log(&of(Priority::Emergency), b"four");
        ring.log(&of(Priority::Panic), b"five");
        ring.log(&META, b"six");
        flush(&[&drain], 0, &Virtual::default(), FlushLimits::DEFAULT);
        assert_eq!(
            drain.sink().text(),
            format!("{P}two\n{P}one\n{P}three\n{P}four\n{P}five\n{P}six\n")
        );
    }
}

#[test]
fn a_second_console_starts_at_the_position_of_the_first_one() {
    let ring = Ring::<[Slot; 64]>::new();
    let early = Drain::new(&ring, Line::new(99), SinkOptions::DEFAULT);
    let late = Drain::new(&ring, Line::new(16), SinkOptions::DEFAULT.progress_slot(0));
    let newest = Drain::new(&ring, Line::new(99), SinkOptions::DEFAULT);
    assert_eq!(early.position(), 0);
    ring.log(&META, b"one");
    ring.log(&of(Priority::Emergency), b"two");
    drain_all(&early, Priority::Normal);
    ring.log(&META, b"three");
    late.start_at(early.position());
    newest.start_at(ring.newest() + 1);
    assert_eq!((late.position(), late.unread(), late.lost()), (3, 1, 0));
    ring.log(&of(Priority::Emergency), b"four");
    for drain in [&late, &newest] {
        drain_all(drain, Priority::Normal);
    }
    assert_eq!(late.sink().text(), format!("{P}four\n{P}three\n"));
    assert_eq!(newest.sink().text(), format!("{P}four\n"));
    assert_eq!((late.lost(), newest.lost()), (0, 0));
}

#[test]
fn a_line_can_begin_with_time_cpu_and_level() {
    let lines = [
        (Level::Info, 0, "\x1b[32mINFO  \x1b[0m"),
        (Level::Warning, 7, "\x1b[33mWARN  \x1b[0m"),
        (Level::Error, 12, "\x1b[31mERROR \x1b[0m"),
        (Level::Emergency, 65535, "\x1b[31mEMERG \x1b[0m"),
    ];
    for (level, cpu, shown) in lines {
        let ring = Ring::<[Slot; 64]>::new();
        let options = SinkOptions::DEFAULT.prefix(write_time_cpu_level);
        let drain = Drain::new(&ring, Line::new(16), options);
        let time = Nanos(1_234_567_890);
        ring.log(
            &Meta {
                time,
                level,
                cpu,
                ..META
            },
            b"text",
        );
        drain_all(&drain, Priority::Normal);
        let expected = format!("[    1.234567] {cpu:>3} {shown} text\n");
        assert_eq!(drain.sink().text(), expected);
    }
}

#[test]
fn the_text_that_a_display_wrote_before_it_panicked_is_kept_and_marked() {
    struct Panics(usize);
    impl std::fmt::Display for Panics {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(&"x".repeat(self.0))?;
            std::panic::resume_unwind(Box::new(()))
        }
    }
    for len in [0, 5, 300] {
        let ring = Ring::<[Slot; 64]>::new();
        let drain = Drain::new(&ring, Line::new(99), SinkOptions::DEFAULT);
        let log = || ring.format(&META, format_args!("so far: {}", Panics(len)));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(log)).is_err());
        ring.log(&META, b"after");
        drain_all(&drain, Priority::Normal);
        let text = "x".repeat(len);
        let wanted = format!("{P}so far: {text}[cut]\n{P}after\n");
        assert_eq!(drain.sink().text(), wanted);
    }
}

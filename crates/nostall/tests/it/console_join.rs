//! `nostall console join` on the output of a console whose lines were cut, and whose owner crashed.

#[path = "../../../drivers/console/tests/common/mod.rs"]
mod common;

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use common::{At, P, Virtual, of};
use nostall_console::{Caller, Drain, FlushLimits, Offered, Priority, Ring};
use nostall_console::{Sink, SinkOptions, Slot, flush};
use nostall_io::Nanos;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("nostall"));
    command.args(["console", "join"]).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::piped());
    command
}

/// Joins a log on standard input.
fn join(log: &[u8]) -> Output {
    let mut child = command(&[]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(log).unwrap());
        child.wait_with_output().unwrap()
    })
}

fn joined(log: &[u8]) -> String {
    let output = join(log);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// A serial port that takes 16 bytes at once, and whose owner crashes after a number of bytes.
struct Port {
    wire: RefCell<Vec<u8>>,
    crashes_after: Cell<usize>,
}

impl Sink for Port {
    fn offer(&self, text: &[u8], _: Caller) -> Offered {
        let taken = text.len().min(16);
        let left = self.crashes_after.get();
        let sent = taken.min(left);
        for byte in &text[..sent] {
            let end = if *byte == b'\n' { &b"\r\n"[..] } else { &[] };
            let bytes = if end.is_empty() { &[*byte][..] } else { end };
            self.wire.borrow_mut().extend_from_slice(bytes);
        }
        if sent < taken {
            self.crashes_after.set(usize::MAX);
            resume_unwind(Box::new("the owner crashes in an offer"));
        }
        self.crashes_after.set(left - taken);
        Offered {
            taken,
            ready_at: Some(Nanos::ZERO),
        }
    }
}

const LINES: [&str; 4] = ["the first line", "urgent", "the second line", "panic"];

/// Returns the output of a console: an emergency cuts a line, and the owner crashes later.
fn wire(crashes_after: usize) -> Vec<u8> {
    let ring = Ring::<[Slot; 64]>::new();
    let port = Port {
        wire: RefCell::default(),
        crashes_after: Cell::new(crashes_after),
    };
    let drain = Drain::new(&ring, port, SinkOptions::DEFAULT.slice(1));
    let [first, urgent, second, panic] = LINES.map(str::as_bytes);
    ring.log(&of(Priority::Normal), first);
    let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
    ring.log(&of(Priority::Emergency), urgent);
    ring.log(&of(Priority::Normal), second);
    let sends = || {
        for _ in 0..10 {
            let _ = drain.drain_bounded(0, Priority::Normal, &At(0));
        }
    };
    let _ = catch_unwind(AssertUnwindSafe(sends));
    ring.log(&of(Priority::Panic), panic);
    // Another CPU sends after the owner has crashed.
    let sends = || flush(&[&drain], 1, &Virtual::default(), FlushLimits::DEFAULT);
    while catch_unwind(AssertUnwindSafe(sends)).is_err() {}
    drain.sink().wire.take()
}

#[test]
fn every_line_of_a_console_is_whole_wherever_it_was_cut_and_its_owner_crashed() {
    let mut has_all_marks = 0;
    for crashes_after in 16..120 {
        let wire = String::from_utf8(wire(crashes_after)).unwrap();
        let marks = ["{cut 0}\r\n", "\r\n{rest 0}", "\r\n{again}\r\n"];
        has_all_marks += usize::from(marks.iter().all(|mark| wire.contains(mark)));
        let joined = joined(wire.as_bytes());
        let mut lines: Vec<_> = joined.lines().collect();
        lines.retain(|line| !["", "{again}"].contains(line));
        // Lines of the last offer may come twice.
        lines.sort_unstable();
        lines.dedup();
        let mut logged = LINES.map(|line| format!("{P}{line}"));
        logged.sort_unstable();
        assert_eq!(lines, logged, "{crashes_after}: {wire}\n{joined}");
        let again = wire.matches("{again}").count();
        assert_eq!(joined.matches("{again}").count(), again, "{joined}");
    }
    assert!(has_all_marks > 20, "{has_all_marks}");
}

#[test]
fn a_file_is_joined_like_standard_input_and_a_missing_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("serial.log");
    std::fs::write(&log, wire(60)).unwrap();
    let output = command(&[log.to_str().unwrap()]).output().unwrap();
    assert_eq!(output.stdout, join(&wire(60)).stdout);
    for (path, why) in [
        ("no\x1bfile", "nostall: no\\x1bfile: No such"),
        (".", "nostall: .: Is a"),
    ] {
        let output = command(&[path]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.starts_with(why), "{stderr}");
    }
}

#[test]
fn a_line_is_printed_before_the_log_ends() {
    let mut child = command(&["-"]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\r\ntw").unwrap();
    stdin.write_all(b"o\r\nthree").unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "one\n");
    drop(stdin);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "two\nthree");
    assert!(child.wait().unwrap().success());
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_controls_no_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("serial.log");
    std::fs::write(&log, "\x1b[2J\u{e4}\t{cut 0}\n\u{9b}1m\n").unwrap();
    let mut command = command(&[log.to_str().unwrap()]);
    command.stdin(Stdio::null());
    let shown = terminal::on_terminal(command, 80, true);
    assert_eq!(shown, "\\x1b[2J\u{e4}\t{cut 0}\n\\u{9b}1m\n");
}

#[cfg(target_os = "linux")]
use crate::terminal;

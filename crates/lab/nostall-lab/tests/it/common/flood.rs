//! Helpers that the tests of floods share.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use nostall_vm::qemu::{self, Error, Guest, GuestRam, Limits, Qemu};
use nostall_vm::{Ending, Machine as _};
use nostall_work::pstore::REGION;
use nostall_work::{Example, Failure};
use tempfile::TempDir;

use crate::common::frozen::Machine;

/// Runs `command`, one of the project's, in the folder `dir`.
pub fn run(command: &str, dir: &Path, args: &[&str]) -> Output {
    Command::new(cargo_bin(command))
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns a log of `lines` lines, logged at once.
pub fn log(lines: usize) -> String {
    let line = |n| format!("[    1.000000] sd {n}:0:0:0: Attached scsi generic sg{n} type 0\n");
    (0..lines).map(line).collect()
}

/// Replays a flood in real time on the machine that `on` selects, with and without a panic.
/// Nothing is lost, and nothing is sent twice. Returns the command's output.
pub fn replayed(kind: qemu::QemuBoard, on: &str) -> String {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("log"), log(50)).unwrap();
    let args = format!(
        "run console {on} --input log --cpus 3 --panic-at 0.1 --json figures --svg flood.svg"
    );
    let args: Vec<_> = args.split_whitespace().collect();
    let output = run("nostall-lab", dir.path(), &args);
    let out = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}{out}");
    assert_eq!(stderr, "", "nothing but the answer");
    assert!(!out.contains("FAILS"), "{out}");
    for line in out.lines() {
        assert!(line.len() <= 80 && line == line.trim_end(), "{line}");
    }
    assert!(out.contains(&format!(", {kind}, 3 CPUs on ")), "{out}");
    assert_eq!(out.matches("lines once, as logged").count(), 4, "{out}");
    assert_eq!(out.matches("brings all of a panic's text").count(), 4);
    assert_eq!(out.matches("text in persistent RAM").count(), 4);

    let figures = fs::read_to_string(dir.path().join("figures")).unwrap();
    let figures: serde_json::Value = serde_json::from_str(&figures).unwrap();
    assert_eq!(figures["host"]["machine"], kind.to_string());
    let results = figures["results"].as_array().unwrap();
    let of = |strategy: &str, metric: &str| {
        let found = results.iter().find(|result| {
            assert_eq!(
                (&result["path"], &result["on"]),
                (&"console".into(), &"qemu".into())
            );
            result["strategy"] == strategy && result["metric"] == metric
        });
        let found = found.unwrap_or_else(|| panic!("{strategy} {metric}"));
        found["value"].as_f64().unwrap()
    };
    for strategy in ["print-inline", "fifo-inline", "printer-thread", "bounded"] {
        // The line is never faster than its rate: 11,520 bytes a second.
        let rate = of(strategy, "bytes_per_second");
        assert!(rate > 0.0 && rate < 11_600.0, "{strategy}: {rate}");
        assert_eq!(of(strategy, "records_lost"), 0.0);
        assert!(of(strategy, "longest_hold_ns") > 0.0);
        assert!(of(strategy, "delay_max_ns") > 0.0);
        let first = of(strategy, "panic_first_byte_ns");
        assert!(first > 0.0 && first < of(strategy, "panic_last_byte_ns"));
        assert!(of(strategy, "panic_record_bytes") > 400.0, "{strategy}");
        let shares = ["second_task_least_share", "second_task_share"];
        let [least, share] = shares.map(|metric| of(strategy, metric));
        assert!(0.0 <= least && least <= share && share <= 1.0, "{strategy}");
    }
    assert!(of("bounded", "second_task_share") > 0.0);
    let svg = fs::read_to_string(dir.path().join("flood.svg")).unwrap();
    assert_eq!(svg.matches("class=\"lane\"").count(), 2 * 4 * 3);
    out
}

/// Returns the log of the dmesg record in this memory.
pub fn decoded(dir: &Path, memory: &str) -> String {
    let output = run("nostall", dir, &["postmortem", "-v", memory]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, log) = text.split_once("\nPanic#1 Part1\n").expect("a record");
    log.to_owned()
}

/// Checks that the kernel's own console prints the log from timer interrupts, and a panic's text.
pub fn prints_its_own_log(qemu: &Qemu, kernel: &[u8]) {
    let work = [Example::SystemConsole.into(), Failure::Panic.into()];
    let guest = Guest {
        work: &work,
        ..Guest::new(kernel, 2)
    };
    let ran = qemu.run(&guest, &Limits::of(1, 4_096), Ending::Panic, &mut |_| {});
    let serial = String::from_utf8(ran.unwrap().serial).unwrap();
    let lines = serial.split("\r\n");
    let texts: Vec<_> = lines
        .map(|line| line.split_once("] ").map_or(line, |(_, text)| text))
        .collect();
    let first = [
        "nostall's reference kernel, 2 CPUs",
        "nothing stalls, 4 times",
    ];
    assert_eq!(texts[..2], first, "{serial}");
    assert!(
        texts[2].starts_with("Kernel panic: on purpose ("),
        "{serial}"
    );
    assert_eq!(texts[3..], [""], "{serial}");
}

/// Checks that a crashed kernel leaves its log in persistent RAM, for every kind of crash.
pub fn dies_in_every_way(qemu: &Qemu, kernel: &[u8]) {
    let dir = TempDir::new().unwrap();
    for (failure, words) in [
        (Failure::Panic, &["panic: on purpose"][..]),
        (
            Failure::PanicInFlush,
            &["on purpose, before the flush", "on purpose, in the flush"],
        ),
        (Failure::PanicEverywhere, &["on purpose, on CPU "]),
        (Failure::StackOverflow, &["the stack is full"]),
    ] {
        let ram = GuestRam::new(128).unwrap();
        let guest = Guest {
            kernel,
            cpus: 3,
            work: &[failure.into()],
            repeat: 1,
            input: &[],
            ram: Some(&ram),
            flash: None,
            qemu_args: &[],
        };
        let ran = qemu.run(&guest, &Limits::of(1, 0), Ending::Panic, &mut |_| {});
        match ran {
            Err(Error::Guest(_)) if failure == Failure::StackOverflow => {}
            ran => drop(ran.unwrap()),
        }
        fs::write(dir.path().join("region"), ram.read(REGION).unwrap()).unwrap();
        let log = decoded(dir.path(), "region");
        assert!(log.contains("reference kernel, 3 CPUs\n"), "{log}");
        for words in words {
            assert!(log.contains(words), "{failure:?}: {log}");
        }
    }
}

/// Checks that the memory of a killed machine and the log of its serial line fit together. Each
/// record is in one of them, and at most the one in transit is in both. `sent` returns the
/// kernel's part of that log.
pub fn killed_in_mid_flood(kind: qemu::QemuBoard, sent: impl Fn(&Path) -> Vec<u8>) {
    /// All at once, and more than the line sends in 20 s.
    const LINES: usize = 4_000;
    let dir = TempDir::new().unwrap();
    let serial = || sent(&dir.path().join("serial"));
    // The records of the log ring only, and the line about them.
    let read = |args: &[&str]| {
        let args = [&["postmortem", "-v", "ram"], args].concat();
        let output = run("nostall", dir.path(), &args);
        let out = String::from_utf8(output.stdout).unwrap();
        let log = out.split("==> log 0: ").nth(1).unwrap_or_default();
        let (counts, records) = log.split_once('\n').unwrap_or_default();
        let (records, _) = records.split_once("\n\n").unwrap_or((records, ""));
        (records.to_owned(), counts.to_owned())
    };
    let flood = log(LINES);
    let words = "repeat=1 console:bounded:115200:1";
    let guest = Machine::of(kind, dir.path(), words, flood.as_bytes());
    guest.kill_when(|| serial().len() > 2_000 && read(&["--all"]).0.lines().count() > LINES);

    let (all, _) = read(&["--all"]);
    let (left, result) = read(&[]);
    let (all, left): (Vec<_>, Vec<_>) = (all.lines().collect(), left.lines().collect());
    assert!(result.contains(", printed up to "), "{result}");
    assert!(!result.contains("unfinished") && !result.contains("damaged"));
    // Each logged record is in the ring, once.
    let texts = |lines: &[&str]| {
        let texts = lines.iter().map(|line| line.split_once("] ").unwrap().1);
        let mut texts: Vec<_> = texts.map(str::to_owned).collect();
        texts.sort_unstable();
        texts
    };
    let first = ["[    0.000000] nostall's reference kernel, 4 CPUs"];
    let lines: Vec<_> = first.into_iter().chain(flood.lines()).collect();
    assert_eq!(texts(&all), texts(&lines));

    let serial = String::from_utf8(serial()).unwrap();
    let mut printed: Vec<_> = serial.split("\r\n").collect();
    // The kill cut this line, maybe before its first byte.
    let cut = printed.pop().unwrap();
    assert!(all.starts_with(&printed), "printed as logged");
    assert!(all[printed.len()].starts_with(cut.trim_end()), "{cut}");
    assert!(all.ends_with(&left), "the rest of the log");
    assert!(printed.len() > 20 && left.len() > LINES / 2);
    // A line whose last bytes had just been sent.
    let both = (printed.len() + left.len()).checked_sub(all.len());
    assert!(matches!(both, Some(0 | 1)), "{both:?} of {}", printed.len());
}

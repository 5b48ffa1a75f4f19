//! `nostall-lab run console`: a flood of messages, with strategies that lock up CPUs and with one
//! that does not.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;
use tempfile::TempDir;

const PC: &str = "pc-16550a";
const HP: &str = "hp-dl380-gen9";

fn run_in(dir: &Path, args: &[&str]) -> Output {
    Command::new(cargo_bin("nostall-lab"))
        .args(["run", "console"])
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns the output of a command that succeeds.
fn succeed(dir: &Path, args: &[&str]) -> String {
    let output = run_in(dir, args);
    let out = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}{out}");
    assert_eq!(stderr, "", "nothing but the answer");
    for line in out.lines() {
        assert!(line.len() <= 80 && line == line.trim_end(), "{line}");
    }
    assert!(!out.contains("FAILS"), "{out}");
    out
}

/// Returns the one error line of a command that fails.
fn fail(dir: &Path, args: &[&str]) -> String {
    let output = run_in(dir, args);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{args:?}");
    assert_eq!(output.stdout, b"", "{args:?}");
    stderr
}

/// Figures by profile, strategy and metric.
struct Figures(HashMap<(String, String, String), f64>);

impl Figures {
    fn read(file: &Path) -> Self {
        let json: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        assert_eq!(json["schema"], 2);
        let word = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let results = json["results"].as_array().unwrap().iter().map(|result| {
            assert_eq!(result["path"], "console");
            assert_eq!(result["on"], "model");
            let key = ["profile", "strategy", "metric"].map(|key| word(&result[key]));
            (key.into(), result["value"].as_f64().unwrap())
        });
        Self(results.collect())
    }

    fn of(&self, profile: &str, strategy: &str, metric: &str) -> f64 {
        let key = (profile.into(), strategy.into(), metric.into());
        *self.0.get(&key).unwrap_or_else(|| panic!("{key:?}"))
    }
}

#[test]
fn the_flood_locks_up_cpus_that_print_inline_and_no_cpu_with_slices() {
    let dir = TempDir::new().unwrap();
    let args = ["--json", "figures", "--svg", "flood.svg"];
    let out = succeed(dir.path(), &args);
    assert!(out.contains("scsi_debug flood: 9606 lines, 722780 bytes in 9.9 s"));
    assert_eq!(out.matches("bounded brings all 9606 lines once").count(), 2);
    assert_eq!(out.matches("bounded loses nothing").count(), 2);
    assert!(out.contains("more bytes a second than print-inline, and still"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);

    let figures = Figures::read(&dir.path().join("figures"));
    for profile in [PC, HP] {
        for strategy in ["print-inline", "fifo-inline"] {
            let of = |metric| figures.of(profile, strategy, metric);
            assert!(of("longest_hold_ns") > 20e9);
            assert!(of("delay_max_ns") > 20e9);
            assert!(of("lockup_reports") >= 1.0);
            assert!(of("stall_reports") >= 1.0);
            assert!(of("cascades") >= 1.0);
            assert!(of("ticks_missed") > 1_000.0);
            // The panic's text comes after the backlog.
            assert!(of("panic_first_byte_ns") > 10e9);
        }
        let of = |metric| figures.of(profile, "bounded", metric);
        assert_eq!(of("records_lost"), 0.0);
        assert!(of("longest_hold_ns") <= 100_000.0);
        for metric in [
            "lockup_reports",
            "stall_reports",
            "cascades",
            "ticks_missed",
        ] {
            assert_eq!(of(metric), 0.0, "{profile} {metric}");
        }
        assert!(of("line_use") >= 0.99);
        assert!(of("second_task_least_share") >= 0.90);
        assert!(of("delay_max_ns") <= of("longest_hold_ns"));

        // The rival's callers wait for nothing. Its panic's text follows the whole backlog.
        let rival = |metric| figures.of(profile, "printer-thread", metric);
        for metric in [
            "delay_max_ns",
            "records_lost",
            "ticks_missed",
            "lockup_reports",
            "stall_reports",
            "panic_records_unsent",
        ] {
            assert_eq!(rival(metric), 0.0, "{profile} {metric}");
        }
        assert!(rival("longest_hold_ns") <= of("longest_hold_ns"));
        assert!(rival("line_use") >= 0.99);
        assert!(rival("second_task_least_share") >= 0.90);
        assert!(rival("panic_first_byte_ns") > 10e9);
        assert!(of("panic_records_unsent") > 1_000.0);
    }
    // A poll and a load, of 1.7 us per access. On the slow port one of them takes 12.8 us.
    assert_eq!(figures.of(PC, "bounded", "longest_hold_ns"), 28_900.0);
    assert_eq!(figures.of(HP, "bounded", "longest_hold_ns"), 40_000.0);
    // 17 frames in the port, 11 of a marker, and one.
    assert!(figures.of(PC, "bounded", "panic_first_byte_ns") <= 29.0 * 86_805.6);
    // Handlers follow each other without a gap, so a hold is longer than any delay of a producer.
    let inline = |metric| figures.of(HP, "print-inline", metric);
    assert!(inline("longest_hold_ns") > 3.0 * inline("delay_max_ns"));
    // On a line of this speed, the FIFO gains nothing.
    let rate = |profile, strategy| figures.of(profile, strategy, "bytes_per_second");
    assert!((rate(PC, "fifo-inline") / rate(PC, "print-inline") - 1.0).abs() < 0.01);
    let gain = rate(HP, "fifo-inline") / rate(HP, "print-inline");
    assert!(gain > 1.15 && gain < 1.30, "{gain}");

    check_picture(&fs::read_to_string(dir.path().join("flood.svg")).unwrap());
}

fn check_picture(svg: &str) {
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    assert!(svg.ends_with("</svg>\n"));
    // The picture refers to nothing outside, and contains no script.
    assert_eq!(svg.matches("http").count(), 1);
    for word in ["href", "<script", "<image", "@import", "url("] {
        assert!(!svg.contains(word), "{word}");
    }
    assert!(svg.contains("prefers-color-scheme:dark"));
    // Two profiles, with and without a panic, four strategies, four CPUs.
    assert_eq!(svg.matches("class=\"lane\"").count(), 2 * 2 * 4 * 4);
    for kind in ["task", "interrupt", "panic", "wait"] {
        assert!(svg.matches(&format!("rect class=\"{kind}\"")).count() > 1);
    }
    assert!(svg.contains("soft lockup, stuck for 20.0 s"));
    assert!(svg.contains("its handler became the console's owner"));
    // Four strategies on each of two ports.
    assert_eq!(svg.matches("<title>panic at ").count(), 8);
    let opened = svg.matches('<').count();
    let closed = svg.matches("/>").count() + 2 * svg.matches("</").count();
    // Every element is closed.
    assert_eq!(opened, closed);
}

#[test]
fn a_log_of_ones_own_is_replayed_and_every_time_the_same() {
    let dir = TempDir::new().unwrap();
    let log = "<6>[  1.0] one\n[ 1.000001] two\r\n three\n\n[9.5] \u{1b}[31mfour \u{e4}\n";
    fs::write(dir.path().join("log"), log).unwrap();
    let once = succeed(dir.path(), &["--input", "log"]);
    assert!(once.contains("log: 4 lines, 59 bytes in 8.5 s"), "{once}");
    assert_eq!(once.matches("brings all 4 lines once").count(), 8);
    assert!(!once.contains('\u{1b}'));
    assert_eq!(
        once,
        succeed(dir.path(), &["--input", "log", "--on", "model"])
    );
    for args in [
        ["--cpus", "1"],
        ["--cpus", "64"],
        ["--baud", "9600"],
        ["--baud", "300"],
        ["--profile", "vm"],
        ["--profile", "fast-16550a"],
    ] {
        succeed(dir.path(), &[&["--input", "log"], &args[..]].concat());
    }
    for at in ["0", "0.000001", "30"] {
        // At the first two times a CPU is stopped while it owns the port.
        let args = ["--input", "log", "--json", "figures", "--panic-at", at];
        succeed(dir.path(), &args);
        let figures = Figures::read(&dir.path().join("figures"));
        for profile in [PC, HP] {
            let of = |metric| figures.of(profile, "bounded", metric);
            assert_eq!(of("panic_records_unsent"), 0.0);
            assert!(of("panic_last_byte_ns") >= of("panic_first_byte_ns"));
        }
    }
}

#[test]
fn a_log_that_gzip_has_compressed_is_read_as_what_is_in_it() {
    let dir = TempDir::new().unwrap();
    let file = fs::File::create(dir.path().join("log.gz")).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
    gzip.write_all(b"one\ntwo\n").unwrap();
    gzip.finish().unwrap();
    let out = succeed(dir.path(), &["--input", "log.gz", "--profile", PC]);
    assert!(out.contains("log.gz: 2 lines, 8 bytes"), "{out}");
}

#[test]
fn a_log_comes_from_standard_input_too() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("log"), b"one\ntwo\n").unwrap();
    let output = Command::new(cargo_bin("nostall-lab"))
        .args(["run", "console", "--input", "-", "--profile", PC])
        .stdin(fs::File::open(dir.path().join("log")).unwrap())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && out.contains("\n-: 2 lines, 8 bytes"),
        "{out}"
    );
    // Standard input is empty.
    let stderr = fail(dir.path(), &["--input", "-"]);
    assert!(stderr.contains("--input -: no line to log"), "{stderr}");
}

#[test]
fn records_beyond_the_ring_are_counted_and_reported() {
    let dir = TempDir::new().unwrap();
    let log: String = (0..10_000).map(|n| format!("line {n}\n")).collect();
    fs::write(dir.path().join("log"), log).unwrap();
    let args = ["--input", "log", "--profile", PC, "--json", "figures"];
    let out = succeed(dir.path(), &args);
    assert!(
        out.contains("10000 lines, 98890 bytes as fast as can be"),
        "{out}"
    );
    let figures = Figures::read(&dir.path().join("figures"));
    // All records are logged before the second load.
    let lost = figures.of(PC, "bounded", "records_lost");
    assert_eq!(lost, 10_000.0 - 9_360.0 - 1.0);
}

#[test]
fn lines_of_any_bytes_and_any_length_arrive_as_logged() {
    let dir = TempDir::new().unwrap();
    let mut log: Vec<u8> = (0..=u8::MAX).cycle().take(20_000).collect();
    log.extend([b'x'; 5_000]);
    log.extend(
        b"\n[1.0] [cut]\n[1.0] {cut 0}\n[1.0] {rest 0}\n[1.0] [3 records lost]\n[1.0] \r\n\0",
    );
    fs::write(dir.path().join("log"), log).unwrap();
    succeed(dir.path(), &["--input", "log", "--profile", PC]);
}

#[test]
fn mistakes_are_reported_in_a_line() {
    let dir = TempDir::new().unwrap();
    let file = |name: &str, bytes: &[u8]| fs::write(dir.path().join(name), bytes).unwrap();
    file("empty", b"");
    file("blank", b"\n\r\n[ 1.0] \n");
    file("long", &[b'x'; (4 << 20) + 1]);
    file("log", b"one\n");
    file("short.gz", &[0x1f, 0x8b, 8, 0, 0]);
    for (args, why) in [
        (&["--input", "none"][..], "--input none: No such file"),
        (&["--input", "."], "--input .: Is a directory"),
        (&["--input", "empty"], "--input empty: no line to log"),
        (&["--input", "blank"], "--input blank: no line to log"),
        (&["--input", "long"], "the log is longer than 4194304 bytes"),
        (&["--input", "short.gz"], "gzip cannot read it"),
        (&["--baud", "0"], "--baud 0: 300 at least"),
        (&["--baud", "299"], "--baud 299: 300 at least"),
        (&["--baud", "100000"], "--baud: "),
        (
            &["--baud", "9600", "--profile", HP],
            "--baud has no meaning with --profile hp-dl380",
        ),
        (
            &["--machine", "virt", "--on", "model"],
            "--machine virt has no meaning with --on model: it goes with --on qemu",
        ),
        (
            &["--on", "qemu", "--baud", "4800"],
            "--baud 4800: 9600 at least in QEMU",
        ),
        (
            &["--on", "qemu", "--panic-at", "11"],
            "--panic-at: 10.0 s at most in QEMU",
        ),
        (
            &["--on", "model", "--kernel", "log"],
            "--kernel has no meaning with --on model",
        ),
        (
            &["--machine", "virt", "--baud", "4800"],
            "--baud 4800: 9600 at least in QEMU",
        ),
        (
            &["--input", "log", "--svg", "none/x.svg"],
            "--svg none/x.svg: No such file",
        ),
        (
            &["--input", "log", "--json", "none/x"],
            "--json none/x: No such file",
        ),
        (&["--input", "log", "--svg", "."], "--svg .: Is a directory"),
    ] {
        let stderr = fail(dir.path(), args);
        assert!(
            stderr.starts_with("nostall: ") && stderr.contains(why),
            "{args:?}: {stderr}"
        );
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
    }
    for args in [
        ["--panic-at", "soon"],
        ["--panic-at", "-1"],
        ["--baud", "fast"],
        ["--cpus", "0"],
        ["--machine", "sifive_u"],
        ["--bytes", "9"],
        ["--fault", "all-ones"],
        ["--capture", "x"],
    ] {
        assert!(fail(dir.path(), &args).starts_with("nostall: "), "{args:?}");
    }
}

//! `nostall-lab run spi` as its user sees it.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::qemu_for;
use assert_cmd::cargo::cargo_bin;
use nostall_vm::qemu::QemuBoard;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

fn nostall(args: &[&str], dir: &Path) -> Output {
    Command::new(cargo_bin("nostall-lab"))
        .args(["run", "spi"])
        .args(args)
        .current_dir(dir)
        .env("TMPDIR", dir)
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

/// Returns the output of a command that succeeds, and the figures that it writes.
fn succeed(args: &[&str], dir: &Path) -> (String, Value) {
    let args = [args, &["--json", "figures"]].concat();
    let output = nostall(&args, dir);
    let stderr = String::from_utf8_lossy(&output.stderr);
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{args:?}: {stderr}{out}");
    assert_eq!(stderr, "", "nothing but the answer");
    assert!(!out.contains('\u{1b}'));
    for line in out.lines() {
        // Names may make a line longer.
        let is_name = line.ends_with("by the host");
        let fits = line.chars().count() <= 80 || is_name;
        assert!(fits && line == line.trim_end(), "{line}");
    }
    let document = fs::read_to_string(dir.join("figures")).unwrap();
    fs::remove_file(dir.join("figures")).unwrap();
    (out, serde_json::from_str(&document).unwrap())
}

/// Returns the one line on stderr of a command that failed.
fn error(args: &[&str], dir: &Path) -> String {
    let output = nostall(args, dir);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(output.stdout.is_empty());
    stderr
}

/// Returns each figure by its strategy and metric.
fn figures(document: &Value) -> BTreeMap<(String, String), f64> {
    let results = document["results"].as_array().unwrap().iter();
    let figures = results.map(|result| {
        assert_eq!(result["path"], "spi");
        let word = |name: &str| result[name].as_str().unwrap().to_owned();
        (
            (word("strategy"), word("metric")),
            result["value"].as_f64().unwrap(),
        )
    });
    figures.collect()
}

/// Checks the counts of the busy bus, which are the same every time.
fn assert_busy_bus(document: &Value, frames: f64) {
    let figures = figures(document);
    let of = |strategy: &str, metric: &str| figures[&(strategy.to_owned(), metric.to_owned())];
    let sent = (frames / 10.0).floor();
    for strategy in ["pump", "caller"] {
        assert_eq!(of(strategy, "frames"), frames);
        assert_eq!(of(strategy, "messages"), 4.0 + 3.0 * frames + 2.0 * sent);
        assert!(of(strategy, "messages_per_second") > 0.0);
        assert!(of(strategy, "worker_cpu_share") >= 0.0);
        let each = of(strategy, "wakeups") / of(strategy, "messages");
        // Reading JSON rounds.
        assert!((of(strategy, "wakeups_per_message") - each).abs() < 1e-9);
    }
    assert_eq!(of("caller", "messages_by_worker"), 0.0);
    assert_eq!(of("caller", "wakeups"), of("caller", "teardowns"));
    assert!(of("pump", "wakeups") > of("caller", "wakeups"));
}

/// Returns an image with these files, made with dosfstools and mtools. Without those it prints
/// that the test is skipped, and returns nothing.
fn image(dir: &Path, name: &str, bytes: u64, files: &[(&str, Vec<u8>)]) -> Option<PathBuf> {
    let image = dir.join(name);
    File::create(&image).unwrap().set_len(bytes).unwrap();
    let run = |program: &str, args: &[&str]| {
        let search = format!("{}:/usr/sbin:/sbin", env::var("PATH").unwrap_or_default());
        let mut command = Command::new(program);
        let command = command
            .args(args)
            .env("PATH", search)
            .env("LC_ALL", "C.UTF-8");
        match command.output() {
            Ok(output) => {
                assert!(output.status.success(), "{program} {args:?}: {output:?}");
                Some(())
            }
            Err(_) => {
                // The test harness captures the output of std's macros, so they are not used
                // here.
                let _ = writeln!(std::io::stderr(), "SKIPPED {name}: there is no {program}");
                None
            }
        }
    };
    let path = image.to_str().unwrap();
    run("mkfs.fat", &["-n", "A LABEL", path])?;
    run("mmd", &["-i", path, "::a directory of its own"])?;
    for (name, content) in files {
        let from = dir.join("content");
        fs::write(&from, content).unwrap();
        run(
            "mcopy",
            &["-i", path, from.to_str().unwrap(), &format!("::{name}")],
        )?;
        fs::remove_file(from).unwrap();
    }
    Some(image)
}

fn hex(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn some_files() -> Vec<(&'static str, Vec<u8>)> {
    let large = (0..123_457_u32).map(|n| (n.wrapping_mul(n) >> 9) as u8);
    vec![
        ("kernel.img", large.collect()),
        ("nothing in it", Vec::new()),
        ("\u{dc}ber die See.txt", b"Wind".to_vec()),
        ("LICENCE", vec![b'x'; 2048]),
    ]
}

/// Checks that each file is reported with the digest of its contents.
fn assert_files(out: &str, document: &Value, files: &[(&str, Vec<u8>)]) {
    let told = document["files"].as_array().unwrap();
    assert_eq!(told.len(), files.len() + 1, "and a directory");
    assert_eq!(told[0]["name"], "a directory of its own");
    assert_eq!(told[0]["directory"], true);
    for (told, (name, content)) in told[1..].iter().zip(files) {
        // A short name has no case.
        let is = told["name"].as_str().unwrap();
        assert!(is == *name || name.to_uppercase() == is, "{is}");
        assert_eq!(told["bytes"].as_u64().unwrap(), content.len() as u64);
        assert_eq!(told["sha256"].as_str().unwrap(), hex(content));
        assert_eq!(told["equal"], true);
        assert!(out.contains(&hex(content)), "{name}");
    }
}

#[test]
fn without_an_image_one_is_made_and_all_is_as_it_should_be() {
    let dir = TempDir::new().unwrap();
    let (out, document) = succeed(&["--on", "model", "--frames", "1234"], dir.path());
    assert!(out.starts_with("spi on models, in virtual time;"), "{out}");
    assert!(out.contains("flash: 9d 70 19, ISSI, 32 MiB"), "{out}");
    assert!(out.contains("FAT16 in partition 1"), "{out}");
    assert!(
        out.contains("All 6 files of the card are as the host reads them."),
        "{out}"
    );
    assert!(out.contains("a directory/: not entered"), "{out}");
    // An empty file.
    assert!(out.contains(&hex(b"")), "{out}");
    assert_busy_bus(&document, 1234.0);
    let ons: Vec<_> = document["results"].as_array().unwrap().iter().collect();
    let on = |metric: &str| {
        let found = ons.iter().find(|result| result["metric"] == metric);
        found.unwrap()["on"].as_str().unwrap()
    };
    // Virtual times are not compared with real ones.
    assert_eq!(
        (on("card_read_ns"), on("worker_cpu_share")),
        ("model", "host-threads")
    );
    assert_eq!(
        fs::read_dir(dir.path()).unwrap().count(),
        0,
        "nothing is left"
    );
}

#[test]
fn an_image_that_it_has_not_seen_is_read_on_the_model() {
    let dir = TempDir::new().unwrap();
    let files = some_files();
    // The size is no power of two, and no whole number of a card's units.
    let Some(path) = image(dir.path(), "unseen", 35_000_320, &files) else {
        return;
    };
    let before = fs::read(&path).unwrap();
    let args = ["--on", "model", "--frames", "20", "--sd", "unseen"];
    let (out, document) = succeed(&args, dir.path());
    assert_files(&out, &document, &files);
    assert!(before == fs::read(&path).unwrap(), "it is only read");
}

#[test]
fn an_image_that_it_has_not_seen_is_read_by_a_guest() {
    let Some(_) = qemu_for(
        "an_image_that_it_has_not_seen_is_read_by_a_guest",
        QemuBoard::SifiveU,
    ) else {
        return;
    };
    let dir = TempDir::new().unwrap();
    let files = some_files();
    let Some(path) = image(dir.path(), "unseen", 35_000_320, &files) else {
        return;
    };
    let before = fs::read(&path).unwrap();
    let (out, document) = succeed(&["--frames", "700", "--sd", "unseen"], dir.path());
    assert!(out.starts_with("spi on qemu "), "{out}");
    assert!(out.contains(", sifive_u, 3 CPUs on "), "{out}");
    assert!(out.contains("flash: 9d 70 19, ISSI, 32 MiB"), "{out}");
    assert_files(&out, &document, &files);
    assert_busy_bus(&document, 700.0);
    let figures = figures(&document);
    for strategy in ["pump", "caller"] {
        for counted in [
            "cross_cpu_interrupts",
            "context_switches_per_second",
            "interrupts_per_second",
        ] {
            assert!(
                figures.contains_key(&(strategy.to_owned(), counted.to_owned())),
                "{counted}"
            );
        }
    }
    assert!(before == fs::read(&path).unwrap(), "it is only read");
}

#[test]
fn a_card_of_64_gib_is_mostly_a_hole() {
    let dir = TempDir::new().unwrap();
    let files = [("small", b"small".to_vec())];
    let Some(_) = image(dir.path(), "sparse", 64 << 30, &files) else {
        return;
    };
    let args = ["--on", "model", "--frames", "20", "--sd", "sparse"];
    let (out, document) = succeed(&args, dir.path());
    assert!(
        out.contains("card: SDHC, 64 GiB; FAT32 without partitions"),
        "{out}"
    );
    assert_files(&out, &document, &files);
    let test = "a_card_of_64_gib";
    if qemu_for(test, QemuBoard::SifiveU).is_some() {
        let said = error(
            &["--on", "qemu", "--frames", "20", "--sd", "sparse"],
            dir.path(),
        );
        assert!(
            said.contains("68719476736 bytes: QEMU's card has at most"),
            "{said}"
        );
    }
}

#[test]
fn other_data_than_a_file_system_is_refused_in_one_line() {
    let dir = TempDir::new().unwrap();
    let make = |name: &str, bytes: u64, patches: &[(u64, &[u8])]| {
        let file = File::create(dir.path().join(name)).unwrap();
        file.set_len(bytes).unwrap();
        for (at, bytes) in patches {
            file.write_all_at(bytes, *at).unwrap();
        }
    };
    let signed = (510, &[0x55, 0xaa][..]);
    make("empty", 0, &[]);
    make("tiny", 5, &[]);
    make("zeros", 4 << 20, &[]);
    make("exfat", 4 << 20, &[(3, b"EXFAT   "), signed]);
    make("gpt", 4 << 20, &[(450, &[0xee]), signed]);
    make(
        "ext4",
        4 << 20,
        &[(450, &[0x83, 0, 0, 0, 8, 0, 0, 0, 8]), signed],
    );
    fs::create_dir(dir.path().join("directory")).unwrap();
    for (name, why) in [
        ("empty", "the image is empty"),
        ("tiny", "no FAT16 or FAT32 file system on it"),
        ("zeros", "no FAT16 or FAT32 file system on it"),
        (
            "exfat",
            "an exFAT file system: only FAT16 and FAT32 are read",
        ),
        (
            "gpt",
            "a GUID partition table: only FAT16 and FAT32 are read",
        ),
        ("ext4", "no FAT16 or FAT32 file system on it"),
        ("directory", "a directory, and not an image"),
        ("not-there", "No such file"),
        ("/dev/null", "neither a file nor a block device"),
    ] {
        let said = error(&["--on", "model", "--sd", name], dir.path());
        let expected = format!("nostall: --sd {name}: {why}");
        assert!(said.starts_with(&expected), "{said}");
    }
}

#[test]
fn a_forged_directory_is_refused_in_one_line_or_shown_harmlessly() {
    let dir = TempDir::new().unwrap();
    let files = [("B.TXT", b"some content".to_vec())];
    let Some(path) = image(dir.path(), "forged", 16 << 20, &files) else {
        return;
    };
    let content = fs::read(&path).unwrap();
    let entry = content.windows(11).position(|it| it == b"B       TXT");
    let entry = entry.unwrap() as u64;
    let file = File::options().write(true).open(&path).unwrap();
    let forge = |name: &[u8; 11], cluster: u16| {
        file.write_all_at(name, entry).unwrap();
        let at = entry + 26;
        file.write_all_at(&cluster.to_le_bytes(), at).unwrap();
    };
    let cluster = u16::from_le_bytes(*content[entry as usize + 26..].first_chunk().unwrap());
    let args = ["--on", "model", "--frames", "10", "--sd", "forged"];
    for (name, cluster, why) in [
        (b"B       TXT", 1, "the file system is damaged"),
        (
            b"B\x1b[2J\n  TXT",
            0,
            "B\\x1b[2J\\x0a.TXT: it ends too early",
        ),
    ] {
        forge(name, cluster);
        let said = error(&args, dir.path());
        assert!(
            said.starts_with(&format!("nostall: --sd forged: {why}")),
            "{said}"
        );
        assert!(!said.contains('\x1b'), "{said}");
    }
    forge(b"B B\nX   TXT", cluster);
    let (out, document) = succeed(&args, dir.path());
    assert!(
        out.contains("\nBB\\x0aX.TXT: 12 bytes, the same by the host"),
        "{out}"
    );
    assert_eq!(document["files"][1]["name"], "BB\nX.TXT", "{document}");
}

#[test]
fn options_and_values_without_a_meaning_are_refused() {
    let dir = TempDir::new().unwrap();
    for (args, why) in [
        (&["--machine", "q35"], "[possible values: sifive_u]"),
        (&["--cpus", "2"], "2 is not in 3..=4"),
        (&["--cpus", "5"], "5 is not in 3..=4"),
        (&["--capture", "x"], "unexpected argument '--capture'"),
        (&["--bytes", "5"], "unexpected argument '--bytes'"),
    ] {
        let output = nostall(args, dir.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(why), "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
}

//! `nostall-lab report`, `--report` and `run all`, as a newcomer meets them.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

fn nostall(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nostall-lab"));
    command.current_dir(dir).stdin(Stdio::null()).args(args);
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that must succeed.
fn succeed(dir: &Path, args: &[&str]) -> String {
    let output = nostall(dir, args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// Runs a command that must fail with one line, and returns it.
fn fail(dir: &Path, args: &[&str]) -> String {
    let output = nostall(dir, args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    stderr
}

/// Returns a script of data that a page carries.
fn embedded(page: &str, id: &str) -> Value {
    let (_, rest) = page.split_once(&format!(" id=\"{id}\"")).unwrap();
    let (_, rest) = rest.split_once('>').unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

const UART: [&str; 6] = ["run", "uart", "--on", "model", "--bytes", "500"];

/// `make report-test` opens the page in a browser.
#[test]
fn words_of_a_hostile_document_are_text() {
    let dir = TempDir::new().unwrap();
    let hostile = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/report/hostile.json");
    succeed(dir.path(), &["report", hostile, "-o", "page.html"]);
    let page = fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;"));
    assert!(!page.contains("<img"));
}

#[test]
fn a_run_with_a_report_makes_the_page_that_report_makes_of_its_figures() {
    let dir = TempDir::new().unwrap();
    let both = [&UART[..], &["--json", "f.json", "--report", "run.html"]].concat();
    succeed(dir.path(), &both);
    succeed(dir.path(), &["report", "f.json", "-o", "read.html"]);
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    let (run, later) = (read("run.html"), read("read.html"));
    assert_eq!(run.replace("this run", "f.json"), later);
    let document: Value = serde_json::from_str(&read("f.json")).unwrap();
    assert_eq!(embedded(&run, "document-0"), document);
    assert!(run.contains("nostall-lab run uart --on model --bytes 500</code>"));
    let pictures = embedded(&run, "pictures");
    assert_eq!(pictures[0]["kind"], "lanes");
    assert_eq!(pictures[0]["lines"].as_array().unwrap().len(), 4);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
}

/// `make report` writes it, and `nostall-lab report` makes it again from the document in it.
#[test]
fn the_copy_in_the_repository_leads_back_to_the_project() {
    let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs"));
    let page = fs::read_to_string(docs.join("report.html")).unwrap();
    for path in [
        "../README.md",
        "../docs/src/SUMMARY.md",
        "../docs/src/report.md",
    ] {
        assert!(page.contains(&format!("<a href=\"{path}\">")), "{path}");
        assert!(docs.join(path).is_file(), "{path}");
    }
}

#[test]
fn two_documents_are_columns_of_one_page() {
    let dir = TempDir::new().unwrap();
    for name in ["a.json", "b.json"] {
        succeed(dir.path(), &[&UART[..], &["--json", name]].concat());
    }
    succeed(dir.path(), &["report", "a.json", "b.json", "-o", "p.html"]);
    let page = fs::read_to_string(dir.path().join("p.html")).unwrap();
    assert!(page.contains("<th class=\"document\">a.json</th><th class=\"document\">b.json</th>"));
    assert_eq!(embedded(&page, "document-1"), embedded(&page, "document-0"));
}

#[test]
fn a_document_that_cannot_be_read_is_named_and_leaves_the_old_page() {
    let dir = TempDir::new().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("old.html", "old");
    write("old.json", "{\"schema\": 1}");
    write("text.json", "no JSON");
    for (name, fault) in [
        (
            "old.json",
            "old.json: its schema is 1, and this command reads 2: ",
        ),
        ("text.json", "text.json: not a JSON object: "),
        ("none.json", "none.json: No such file"),
        (".", "Is a directory"),
    ] {
        let error = fail(dir.path(), &["report", name, "-o", "old.html"]);
        assert!(error.contains(fault), "{error}");
        assert_eq!(
            fs::read_to_string(dir.path().join("old.html")).unwrap(),
            "old"
        );
    }
    let error = fail(dir.path(), &["report", "old.json", "-o", "old.json"]);
    assert!(error.contains("would replace a document"), "{error}");
}

#[test]
fn a_pipe_is_refused_at_once_and_standard_input_is_read() {
    let dir = TempDir::new().unwrap();
    let made = Command::new("mkfifo").arg(dir.path().join("pipe")).status();
    assert!(made.unwrap().success());
    // It has no writer, so opening it would never end.
    for endless in ["pipe", "/dev/zero"] {
        let error = fail(dir.path(), &["report", endless, "-o", "p.html"]);
        let start = format!("nostall: {endless}: not a regular file: ");
        assert!(error.starts_with(&start), "{error}");
    }
    fs::write(
        dir.path().join("f.json"),
        "\u{feff}{\"schema\": 2, \"results\": []}",
    )
    .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_nostall-lab"))
        .current_dir(dir.path())
        .args(["report", "-", "-o", "p.html"])
        .stdin(fs::File::open(dir.path().join("f.json")).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(dir.path().join("p.html").exists());
}

#[test]
fn a_page_that_cannot_be_written_is_reported_before_the_run() {
    let dir = TempDir::new().unwrap();
    for run in [&["run", "uart"][..], &["run"], &["run", "all"]] {
        let error = fail(dir.path(), &[run, &["--report", "no/page.html"]].concat());
        assert!(
            error.contains("--report no/page.html: No such file"),
            "{error}"
        );
    }
}

#[test]
fn all_runs_every_experiment_and_writes_one_document() {
    let dir = TempDir::new().unwrap();
    let args = [
        "run", "all", "--on", "model", "--json", "f.json", "--report", "p.html",
    ];
    let stdout = succeed(dir.path(), &args);
    let document = fs::read_to_string(dir.path().join("f.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    let figures = document["results"].as_array().unwrap();
    for path in ["uart", "pstore", "pci", "spi", "console", "trace"] {
        let command = format!("nostall-lab run {path} --on=model");
        assert!(stdout.contains(&format!("$ {command}\n")), "{stdout}");
        let is_of_path = |one: &&Value| one["path"] == path && one["command"] == *command;
        assert!(figures.iter().any(|one| is_of_path(&one)), "{path}");
    }
    let drawings = document["drawings"].as_array().unwrap();
    for path in ["uart", "console"] {
        assert!(drawings.iter().any(|one| one["path"] == path), "{path}");
    }
    let page = fs::read_to_string(dir.path().join("p.html")).unwrap();
    for path in ["uart", "pstore", "pci", "spi", "console", "trace"] {
        assert!(page.contains(&format!("<section id=\"{path}\">")), "{path}");
    }
}

#[test]
fn an_experiment_that_fails_costs_its_figures_only_and_the_exit_status_says_so() {
    let dir = TempDir::new().unwrap();
    let args = [
        "run", "all", "--on", "kvm", "--kernel", "none", "--json", "f.json",
    ];
    let output = nostall(dir.path(), &args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    for path in ["uart", "pci", "trace"] {
        assert!(
            stderr.contains(&format!("nostall-lab run {path} --on=kvm")),
            "{stderr}"
        );
    }
    let document = fs::read_to_string(dir.path().join("f.json")).unwrap();
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["results"].as_array().unwrap().len(), 0);
}

#[test]
fn a_run_that_is_killed_leaves_the_old_files_and_no_others() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("p.html"), "old").unwrap();
    let mut run = Command::new(env!("CARGO_BIN_EXE_nostall-lab"))
        .current_dir(dir.path())
        .args([
            "run", "all", "--on", "model", "--report", "p.html", "--json", "f.json",
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let begun = lines.any(|line| line.unwrap().starts_with("$ nostall-lab run pstore"));
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(begun);
    let files = fs::read_dir(dir.path()).unwrap();
    let files: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(files, ["p.html"]);
    assert_eq!(
        fs::read_to_string(dir.path().join("p.html")).unwrap(),
        "old"
    );
}

//! `nostall trace report` on memory of a crashed machine.

#[path = "../../../drivers/trace/tests/common/mod.rs"]
pub mod common;

use std::fs;
use std::io::Read;
use std::path::Path;

use assert_cmd::Command;
use common::{memory, recorder, snapshot};
use nostall_trace::{Options, Region};

const MAP: &str = "\
ffffffff80000000 T _stext
ffffffff80001000 T console_write
ffffffff80002000 t uart_send
ffffffff80003000 T _etext
";

#[test]
fn a_report_on_an_image_names_functions_at_the_load_address() {
    let (recorder, _) = recorder();
    let options = Options {
        zones: 1,
        ticks_per_second: 1_000_000,
        anchor: Some((0xffff_ffff_8020_0000, 0xffff_ffff_8000_0000)),
        ..Options::default()
    };
    recorder.start(Region::format(memory(8192), &options).unwrap());
    let outer = recorder.enter(0xffff_ffff_8020_1000);
    recorder.exit(recorder.enter(0xffff_ffff_8020_2000));
    recorder.exit(outer);

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("System.map"), MAP).unwrap();
    let region = snapshot(recorder);
    fs::write(path("file"), &region).unwrap();
    let mut ram = vec![0; 1 << 20];
    ram[0x8000..][..region.len()].copy_from_slice(&region);
    fs::write(path("ram"), ram).unwrap();
    fs::write(path("zeros"), vec![0; 1 << 20]).unwrap();

    let report = |file: &str| {
        let mut command = Command::cargo_bin("nostall").unwrap();
        command.args(["trace", "report", file, "--view", "graph"]);
        command.args(["--symbols", "System.map"]);
        command.current_dir(folder.path()).assert()
    };
    let note = "a trace at 0x8000: whole header";
    for (file, noted) in [("file", ""), ("ram", note)] {
        let done = report(file).success();
        let output = done.get_output();
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        for part in ["console_write() {", "uart_send();", "1.000 us", "3.000 us"] {
            assert!(out.contains(part), "{file}, {part}: {out}");
        }
        assert!(err.contains(noted), "{err}");
    }
    let failed = report("zeros").code(1);
    let error = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    assert!(error.contains("no trace of a known kind"), "{error}");
}

#[test]
fn events_of_linuxs_ring_buffer_have_their_names_with_the_formats_of_that_kernel() {
    let fixture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../records/postmortem/tests/fixtures/ftrace-ring/sys-2cpu"
    );
    let fixture = Path::new(fixture);
    let folder = tempfile::tempdir().unwrap();
    let packed = fs::read(fixture.join("region.bin.gz")).unwrap();
    let mut ram = vec![0; 1 << 20];
    let mut packed = flate2::read::GzDecoder::new(&packed[..]);
    packed.read_to_end(&mut ram).unwrap();
    fs::write(folder.path().join("ram"), ram).unwrap();
    fs::write(folder.path().join("empty"), "").unwrap();
    let report = |more: &[&str]| {
        let mut command = Command::cargo_bin("nostall").unwrap();
        command.args(["trace", "report", "ram", "--view", "graph", "--symbols"]);
        command.arg(fixture.join("System.map")).args(more);
        command.current_dir(folder.path()).assert()
    };
    let out = |done: &assert_cmd::assert::Assert| {
        String::from_utf8_lossy(&done.get_output().stdout).into_owned()
    };
    let event = "sys_write(fd: 1, buf: 3e313770, count: 2)";
    let formats = fixture.join("formats");
    let named = report(&["--event-formats", formats.to_str().unwrap()]).success();
    assert!(out(&named).contains(event), "{}", out(&named));
    let numbered = report(&[]).success();
    assert!(!out(&numbered).contains(event) && out(&numbered).contains("event 629"));
    let failed = report(&["--event-formats", "empty"]).failure();
    let error = String::from_utf8_lossy(&failed.get_output().stderr).into_owned();
    assert!(
        error.contains("--event-formats empty: no event format in it"),
        "{error}"
    );
}

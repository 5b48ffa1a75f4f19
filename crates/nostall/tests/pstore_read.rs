//! `nostall pstore decode` of files that are large, have no end, or are no recording: its
//! time and memory have bounds, and it reports no region where none is.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use assert_cmd::cargo::cargo_bin;

fn image(name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nostall-pstore/tests/fixtures");
    fixtures.join(name).join("image.bin")
}

fn start(image: &Path, args: &[&str]) -> Child {
    let mut command = Command::new(cargo_bin("nostall"));
    command.args(["pstore", "decode"]).arg(image).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::piped()).spawn().unwrap()
}

fn decode(image: &Path, args: &[&str]) -> Output {
    start(image, args).wait_with_output().unwrap()
}

/// The most memory that a process has had so far, in bytes.
fn peak(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line
        .unwrap()
        .trim()
        .strip_suffix(" kB")
        .unwrap()
        .parse()
        .unwrap();
    kib << 10
}

/// Decodes an image whose records do not fit into a pipe, and returns them with the memory
/// that it took to find them.
fn decode_with_peak(image: &Path) -> (Vec<u8>, u64) {
    let mut child = start(image, &[]);
    let mut out = child.stdout.take().unwrap();
    let mut records = vec![0];
    out.read_exact(&mut records).unwrap();
    // It has found and decoded all, and waits for the pipe.
    let peak = peak(&child);
    out.read_to_end(&mut records).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    (records, peak)
}

#[test]
fn memory_follows_the_data_of_a_sparse_dump_of_32_gib_and_not_its_holes() {
    const LEN: u64 = 32 << 30;
    const PARTS: u64 = 2_138;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse");
    let file = File::create(&path).unwrap();
    file.set_len(LEN).unwrap();
    let part: Vec<u8> = (0..4096u32).map(|i| (i * 7 % 251) as u8).collect();
    for at in (0..PARTS).map(|nth| LEN / PARTS * nth / 4096 * 4096) {
        file.write_all_at(&part, at).unwrap();
    }
    let region = fs::read(image("ecc16")).unwrap();
    file.write_all_at(&region, LEN - (1 << 20)).unwrap();

    let (records, peak) = decode_with_peak(&path);
    let (expected, _) = decode_with_peak(&image("ecc16"));
    assert!(records == expected);
    assert!(peak < 200 << 20, "{peak} bytes");
}

//! Banners of Linux kernels: shown with `--all` only, and only those of a kernel's constants.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use assert_cmd::cargo::cargo_bin;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::Memory;
use tempfile::TempDir;

const BANNER: &str = "Linux version 6.1.0-49-amd64 (debian-kernel@lists.debian.org) (gcc-12 12.2.0) \
                      #1 SMP PREEMPT_DYNAMIC Debian 6.1.174-1";

fn image(at: usize) -> Vec<u8> {
    let mut memory = vec![0; 1 << 20];
    let constant = format!("{BANNER}\n\0");
    memory[at..][..constant.len()].copy_from_slice(constant.as_bytes());
    // A line of a log, a format, and a text that is cut off.
    let logged = format!("\n[    0.000000] {BANNER}\n[    0.000000] Command line:\n");
    memory[0x1001..][..logged.len()].copy_from_slice(logged.as_bytes());
    memory[0x2000..][..19].copy_from_slice(b"Linux version %s\n\0\0");
    let end = memory.len() - 20;
    memory[end..].copy_from_slice(&BANNER.as_bytes()[..20]);
    memory
}

fn read(dir: &Path, args: &[&str]) -> Output {
    Command::new(cargo_bin("nostall-postmortem"))
        .arg("image")
        .args(args)
        .current_dir(dir)
        .output()
        .unwrap()
}

#[test]
fn a_banner_is_shown_with_its_address_if_everything_is_shown() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("image"), image(0x8_0123)).unwrap();
    let output = read(dir.path(), &[]);
    assert_eq!(output.status.code(), Some(5));
    assert!(output.stdout.is_empty());
    let output = read(dir.path(), &["--all"]);
    assert_eq!(output.status.code(), Some(5));
    let text = String::from_utf8(output.stdout).unwrap();
    let heading = "==> banner 0: at 0x80123; unchecked: no error correction\n";
    assert!(text.ends_with(&format!("{heading}{BANNER}\n\n")), "{text}");
    assert_eq!(text.matches("Linux version").count(), 1);
    let output = read(dir.path(), &["--all", "--format", "json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        first,
        serde_json::json!({
            "type": "banner", "schema": 2, "file": "image", "format": "raw", "missing_bytes": 0,
            "swap": null, "index": 0, "start": "0x80123", "text": BANNER, "trust": "unchecked",
        })
    );
}

#[test]
fn a_banner_is_found_over_every_boundary_of_the_search() {
    for at in (0x4_0000 - 20)..0x4_0002 {
        let memory = Memory::from_bytes(image(at)).unwrap();
        let banners = Discovery::of_all_kinds(&memory, 0..u64::MAX, None).banners(&[]);
        let places: Vec<_> = banners.iter().map(|banner| banner.address).collect();
        assert_eq!(places, [at as u64]);
        let inside = at as u64..at as u64 + 1;
        assert!(
            Discovery::of_all_kinds(&memory, 0..u64::MAX, None)
                .banners(&[inside])
                .is_empty()
        );
    }
}

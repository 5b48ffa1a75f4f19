//! The example `functions` against lspci, on this host and on dumps.

#![cfg(target_os = "linux")]

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::records::{MACHINES, fixture, lspci as recorded};

#[path = "../../examples/functions/main.rs"]
#[allow(dead_code, reason = "its main function")]
pub mod functions;

use self::functions::dump::Dump;
use self::functions::sysfs::{DEVICES, Sysfs};

/// Returns the example's lines, without those of capabilities.
fn listed(text: &str) -> Vec<String> {
    let dump = Dump::read(text.as_bytes()).unwrap();
    lines(|out| functions::list(&dump, dump.functions(), out))
}

fn lines(list: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Vec<String> {
    let mut out = Vec::new();
    list(&mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with(' '));
    lines.map(str::to_owned).collect()
}

/// Returns the lines of lspci. Without a PCI bus, or without lspci, it prints that the test is skipped.
/// With `NOSTALL_REQUIRE_TOOLS`, lspci's absence is an error.
fn lspci(test: &str, args: &[&str]) -> Option<Vec<String>> {
    let why = match Command::new("lspci").arg("-Dn").args(args).output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8(output.stdout).unwrap();
            return Some(text.lines().map(str::to_owned).collect());
        }
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => {
            let is_required = std::env::var_os("NOSTALL_REQUIRE_TOOLS").is_some();
            assert!(!is_required, "lspci: {error}: run scripts/setup tools");
            error.to_string()
        }
    };
    // The test harness captures the output of std's macros, so they are not used here.
    let stderr = &mut std::io::stderr();
    let _ = writeln!(stderr, "SKIPPED {test}: lspci (package pciutils): {why}");
    None
}

/// Returns a line of `lspci -nn` as `lspci -Dn` prints it.
fn without_names(line: &str) -> String {
    let (address, rest) = line.split_once(' ').unwrap();
    let (names, revision) = match rest.split_once(" (rev ") {
        Some((names, revision)) => (names, format!(" (rev {revision}")),
        None => (rest, String::new()),
    };
    let (class, ids) = (names.find("]: ").unwrap(), names.rfind('[').unwrap());
    let (class, ids) = (&names[class - 4..class], &names[ids + 1..names.len() - 1]);
    format!("0000:{address} {class}: {ids}{revision}")
}

/// Returns the lines of lspci for a dump.
fn lspci_of(test: &str, text: &str) -> Option<Vec<String>> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lspci.txt");
    fs::write(&file, text).unwrap();
    lspci(test, &["-F", file.to_str().unwrap()])
}

#[test]
fn a_dump_is_listed_as_lspci_lists_it() {
    let test = "a_dump_is_listed_as_lspci_lists_it";
    for machine in MACHINES {
        let text = recorded(machine);
        let ours = listed(&text);
        // The numbers that lspci printed on the machine itself.
        let truth = fixture(machine, "lspci-nn.txt");
        let truth: Vec<_> = truth.lines().map(without_names).collect();
        assert_eq!(ours, truth);
        let Some(truth) = lspci_of(test, &text) else {
            return;
        };
        assert_eq!(ours, truth);
    }
}

#[test]
fn this_hosts_functions_are_those_that_lspci_lists() {
    let test = "this_hosts_functions_are_those_that_lspci_lists";
    match Sysfs::open(Path::new(DEVICES)) {
        Ok(host) => {
            let ours = lines(|out| functions::list(&host, host.functions(), out));
            if let Some(truth) = lspci(test, &[]) {
                assert_eq!(ours, truth);
            }
        }
        Err(why) => {
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
        }
    }
}

/// The first four lines of a type 0 header with a list of capabilities.
const DEVICE: &str = "\
00: 34 12 78 56 07 00 10 00 02 00 00 ff 00 00 00 00
10: 00 00 00 fe 00 00 00 00 00 00 00 00 00 00 00 00
20: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
30: 00 00 00 00 40 00 00 00 00 00 00 00 00 00 00 00
";

/// Linux numbers the segments of Intel's Volume Management Device, which may hold a laptop's boot
/// disk, from 0x10000 on.
#[test]
fn functions_in_segments_above_16_bits_are_listed_as_lspci_lists_them() {
    let test = "functions_in_segments_above_16_bits_are_listed_as_lspci_lists_them";
    let disk = DEVICE.replace("00 00 ff 00 00", "02 08 01 00 00");
    // lspci of pciutils 3.9 reads segments of five digits in a dump.
    let text =
        format!("0000:00:01.0 a\n{DEVICE}\n10000:e1:00.0 b\n{disk}\nfffff:00:00.0 c\n{disk}\n");
    let ours = listed(&text);
    let addresses = ours.iter().map(|line| line.split(' ').next().unwrap());
    assert!(addresses.eq(["0000:00:01.0", "10000:e1:00.0", "fffff:00:00.0"]));
    if let Some(truth) = lspci_of(test, &text) {
        assert_eq!(ours, truth);
    }
    let last = listed(&text.replace("fffff", "ffffffff"));
    assert!(last[2].starts_with("ffffffff:00:00.0 "), "{last:?}");
}

/// Vendor and device of a virtual function read all ones (PCI Express Base, 9.3.4.1.1).
#[test]
fn virtual_functions_are_listed_by_the_numbers_of_their_line_or_else_as_lspci_lists_them() {
    let test =
        "virtual_functions_are_listed_by_the_numbers_of_their_line_or_else_as_lspci_lists_them";
    let registers = DEVICE
        .replace("34 12 78 56", "ff ff ff ff")
        .replace("02 00 00 ff", "01 00 00 02");
    let names = [
        "Ethernet controller [0200]: Intel Corporation 82576 Virtual Function [8086:10ca] (rev 01)",
        "0200: 8086:10ca (rev 01)",
        "\"0200\" \"8086\" \"10ca\" -r01 \"\" \"\"",
        "Ethernet controller: Intel Corporation 82576 Virtual Function (rev 01)",
    ];
    for (n, name) in names.into_iter().enumerate() {
        let text = format!("02:10.0 {name}\n{registers}\n");
        let ours = listed(&text);
        let ids = if n < 2 { "8086:10ca" } else { "ffff:ffff" };
        assert_eq!(
            ours,
            [format!("0000:02:10.0 0200: {ids} (rev 01)")],
            "{name}"
        );
        let Some(truth) = lspci_of(test, &text) else {
            continue;
        };
        assert_eq!(ours[0], truth[0].replace("ffff:ffff", ids), "{name}");
    }
}

/// The physical function's capability gives the IDs of all of its virtual functions, and their
/// addresses (PCI Express Base, 9.3.3).
#[test]
fn virtual_functions_have_the_numbers_that_their_physical_function_gives() {
    let sriov = "\
40: 10 00 02 00 00 00 00 00 00 00 00 00 00 00 00 00
100: 10 00 01 00 00 00 00 00 01 00 00 00 08 00 08 00
110: 03 00 00 00 80 00 02 00 00 00 ca 10 00 00 00 00
";
    let registers = DEVICE.replace("34 12 78 56", "ff ff ff ff");
    let mut text = format!("01:00.0 physical\n{DEVICE}{sriov}\n");
    // Three functions: the first is 0x80 after the physical function, and every second number is
    // used.
    for address in ["01:10.0", "01:10.2", "01:10.4", "01:10.1", "01:10.6"] {
        text += &format!("{address} virtual\n{registers}\n");
    }
    let listed = listed(&text);
    let ids: Vec<_> = listed
        .iter()
        .map(|line| line.split(' ').nth(2).unwrap())
        .collect();
    let (own, none) = ("1234:10ca", "ffff:ffff");
    assert_eq!(ids, ["1234:5678", own, none, own, own, none]);
}

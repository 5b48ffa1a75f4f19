//! Peak memory for reading a dump, measured in a separate process.
#![cfg(target_os = "linux")]

use std::fmt::Write;
use std::fs;

use nostall_pci::ConfigAccess;

#[path = "../examples/functions/dump.rs"]
#[allow(dead_code, reason = "it is a module of an example")]
mod dump;

use dump::Dump;

/// Returns the process's peak memory in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
    kib.parse().unwrap()
}

/// Reads a dump of devices that each claim the maximum number of virtual functions, and of one
/// virtual function.
#[test]
fn a_dump_uses_memory_only_for_its_functions_and_not_for_claimed_virtual_ones() {
    let mut text = String::new();
    for segment in 0..500 {
        writeln!(text, "{segment:04x}:00:00.0 Ethernet controller").unwrap();
        text.push_str("00: 86 80 c9 10 06 04 10 00 01 00 00 02 00 00 00 00\n");
        for line in 1..4 {
            // The PCI Express capability at 0x40.
            let pointer = if line == 3 {
                "00 00 00 00 40"
            } else {
                "00 00 00 00 00"
            };
            writeln!(
                text,
                "{line:x}0: {pointer} 00 00 00 00 00 00 00 00 00 00 00"
            )
            .unwrap();
        }
        text.push_str("40: 10 00 02 00 00 00 00 00 00 00 00 00 00 00 00 00\n");
        // Single Root I/O Virtualization: 65,535 functions from the next one on, with a distance of
        // 1.
        text.push_str("100: 10 00 01 00 00 00 00 00 00 00 00 00 ff ff ff ff\n");
        text.push_str("110: ff ff 00 00 01 00 01 00 00 00 ca 10 00 00 00 00\n");
        writeln!(text, "{segment:04x}:00:00.1 Virtual function").unwrap();
        text.push_str("00: ff ff ff ff 06 04 10 00 01 00 00 02 00 00 00 00\n");
        text.push('\n');
    }
    let before = peak();
    let dump = Dump::read(text.as_bytes()).unwrap();
    assert_eq!(dump.functions().len(), 1000);
    let more = peak() - before;
    assert!(
        more < 50 << 10,
        "{more} KiB for a text of {} KiB",
        text.len() >> 10
    );
    for address in dump.functions() {
        let ids = [0x10c9_8086, 0x10ca_8086][usize::from(address.function())];
        assert_eq!(dump.at(*address).read32(0), Ok(ids), "{address}");
    }
}

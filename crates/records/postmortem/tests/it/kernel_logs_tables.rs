//! printk's ring behind page tables of every size, in recorded images of Linux.
//!
//! Each kernel had moved its log out of its image, so only the page tables lead to it.

use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::Memory;
use nostall_postmortem::vmcoreinfo::InfoSource;

use crate::kernel_logs::{Recorded, is_whole, lime, line, read};

/// Names of the images, and the start and MiB of their RAM.
const IMAGES: [(&str, u64, u64); 9] = [
    ("16k-36", 0x4000_0000, 512),
    ("16k-47", 0x4000_0000, 4096),
    ("16k-52", 0x4000_0000, 512),
    ("64k-42", 0x4000_0000, 512),
    ("64k-48", 0x4000_0000, 4096),
    ("64k-52", 0x4000_0000, 512),
    ("riscv64-39", 0x8000_0000, 512),
    ("riscv64-48", 0x8000_0000, 4096),
    ("riscv64-57", 0x8000_0000, 512),
];

#[test]
fn every_record_is_read_through_page_tables_of_every_size() {
    for (name, start, mib) in IMAGES {
        let recorded = Recorded::load(name, start, mib);
        let raw = recorded.raw();
        let raw = Memory::open(raw.path()).unwrap();
        let lime = Memory::from_bytes(lime(&recorded.pages)).unwrap();
        let start = format!("the file starts with physical address {start:#x}");
        for (memory, place) in [(raw, &*start), (lime, "the dump has physical addresses")] {
            let (lines, _, layout) = read(&memory);
            assert!(lines == recorded.truth, "{name}: {} records", lines.len());
            assert_eq!(layout, place, "{name}");
            let source = Discovery::new(&memory).kernel_logs(&[])[0].source;
            assert!(matches!(source, InfoSource::Memory(_)), "{name}: {source}");
        }
    }
}

#[test]
fn without_any_one_page_only_records_of_linux_are_shown() {
    for (name, start, mib) in IMAGES {
        let recorded = Recorded::load(name, start, mib);
        for gone in 0..recorded.pages.len() {
            let mut pages = recorded.pages.clone();
            pages.remove(gone);
            let memory = Memory::from_bytes(lime(&pages)).unwrap();
            for log in Discovery::new(&memory).kernel_logs(&[]) {
                let lines = log
                    .messages()
                    .filter(is_whole)
                    .map(|message| line(&message));
                let foreign = lines.filter(|line| !recorded.truth.contains(line)).count();
                assert_eq!(foreign, 0, "{name} without page {gone}");
            }
        }
    }
}

//! printk's ring behind page tables of every size, in recorded images of Linux.
//!
//! Each kernel had moved its log out of its image, so only the page tables lead to it.

use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::Memory;
use nostall_postmortem::vmcoreinfo::InfoSource;

use crate::kernel_logs::{Recorded, lime, read};

/// Names of the images, and the start and MiB of their RAM.
const IMAGES: [(&str, u64, u64); 5] = [
    ("16k-47", 0x4000_0000, 4096),
    ("16k-52", 0x4000_0000, 512),
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

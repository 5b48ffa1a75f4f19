//! Reads Linux's logs in recordings with changed words and missing pages: no panic, and no more text
//! than a ring holds.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::kernel::CrashedKernel;
use nostall_postmortem::memory::Memory;

/// A change: a page, a place in it, and a new word, or none for a missing page.
type Edit = (u16, u16, Option<u64>);

const PAGE: usize = 4096;

macro_rules! recordings {
    ($($name:literal)*) => {
        [$(&include_bytes!(concat!(
            "../../crates/records/postmortem/tests/fixtures/printk-ring/", $name, ".lime.gz"
        ))[..]),*]
    };
}

/// The pages of each recording, by address.
static RECORDED: LazyLock<Vec<Vec<(u64, Vec<u8>)>>> = LazyLock::new(|| {
    let files = recordings!("6.1" "6.1-arm64" "6.1-reopened");
    let files = files.into_iter().map(|file| {
        let memory = Memory::from_bytes(file.to_vec()).unwrap();
        let parts = memory.data().flat_map(|(start, bytes)| {
            let pages: Vec<_> = bytes.chunks(PAGE).map(<[u8]>::to_vec).collect();
            (start..).step_by(PAGE).zip(pages)
        });
        parts.collect()
    });
    files.collect()
});

fuzz_target!(|input: (u8, Vec<Edit>)| {
    let (which, edits) = input;
    let mut pages = RECORDED[usize::from(which) % RECORDED.len()].clone();
    for (page, at, word) in edits {
        let page = usize::from(page) % pages.len();
        match word {
            Some(word) => {
                let at = usize::from(at) % (PAGE / 8) * 8;
                pages[page].1[at..][..8].copy_from_slice(&word.to_le_bytes());
            }
            None if pages.len() > 1 => drop(pages.remove(page)),
            None => {}
        }
    }
    let lime = pages.iter().flat_map(|(start, page)| {
        let mut header = b"EMiL\x01\0\0\0".to_vec();
        header.extend(start.to_le_bytes());
        header.extend((start + page.len() as u64 - 1).to_le_bytes());
        header.extend([0; 8]);
        [&header[..], page].concat()
    });
    let memory = Memory::from_bytes(lime.collect()).unwrap();
    let discovery = Discovery::new(&memory);
    for log in discovery.kernel_logs(&[]) {
        let texts = log.messages().map(|message| message.text.len() as u64);
        // The ring of the early boot is smaller.
        assert!(texts.sum::<u64>() <= 2 * log.text_size());
        let end = log.counts.last.map_or(0, |last| last + 1);
        let consoles = log.consoles().unwrap_or_default();
        assert!(consoles.iter().all(|console| console.next_sequence <= end));
        log.symbols();
        log.tell(&mut CrashedKernel::default());
    }
});

//! Memory that hostile images need, counted by the allocator.

#[path = "../../../drivers/pstore/tests/common/mod.rs"]
mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::noise;
use nostall_postmortem::detect::detect;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::{MAX_SEGMENTS, Memory};
use nostall_pstore::{ByteOrder, SIGNATURE, ZoneHeader};

/// Counts allocated bytes.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the largest number of bytes that `act` needed at once.
fn peak(act: impl FnOnce()) -> usize {
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    act();
    MOST.load(Ordering::Relaxed) - before
}

/// Returns a dump with ranges of one byte.
fn ranges(count: usize) -> Vec<u8> {
    let range = |number: u64| {
        let address = (2 * number).to_le_bytes();
        [
            b"EMiL\x01\0\0\0",
            [address, address, [0; 8]].as_flattened(),
            b"x",
        ]
        .concat()
    };
    (0..count as u64).flat_map(range).collect()
}

/// Returns headers of empty zones at irregular distances.
fn headers(count: usize) -> Vec<u8> {
    let header = ZoneHeader {
        signature: SIGNATURE,
        start: 0,
        size: 0,
    };
    let header = header.encode(ByteOrder::Little);
    let gaps = noise(count, 7);
    let zones = gaps.iter().map(|gap| vec![0; usize::from(*gap / 8 * 2)]);
    zones.flat_map(|gap| [&header[..], &gap].concat()).collect()
}

// One test, because the allocator counts the bytes of all threads.
#[test]
fn hostile_images_need_little_memory_and_large_searches_of_a_process_wait_for_each_other() {
    let file = ranges(MAX_SEGMENTS);
    let segments = peak(|| {
        let image = Memory::from_bytes(file).unwrap();
        assert_eq!(image.segments().len(), MAX_SEGMENTS);
        assert!(Discovery::new(&image).detection.is_complete);
    });
    assert!(segments < 40 << 20, "{segments} bytes for segments");

    let dump = headers(18_000);
    let one = peak(|| drop(detect(&dump)));
    assert!(one < 8 << 20, "{one} bytes for headers");
    let four = peak(|| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| detect(&dump));
            }
        });
    });
    assert!(four < 2 * one, "{four} bytes, and {one} for one search");
}

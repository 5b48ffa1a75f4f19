//! Opens arbitrary memory dumps: the results are consistent, and no address refers to bytes outside
//! the file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::{DumpFormat, Memory, PhysicalRange};

fuzz_target!(|file: &[u8]| {
    let Ok(image) = Memory::from_bytes(file.to_vec()) else {
        return;
    };
    let segments = image.segments();
    assert!(segments.iter().all(|it| it.len > 0));
    let apart = |a: &PhysicalRange, b: &PhysicalRange| a.start + (a.len - 1) < b.start;
    assert!(segments.is_sorted_by(apart), "{segments:x?}");
    // Their memory is compressed, and damaged parts are missing.
    if [DumpFormat::AVML, DumpFormat::KDUMP].contains(&image.format()) {
        let discovery = Discovery::of_all_kinds(&image, 0..u64::MAX, Some(0..u64::MAX));
        discovery.banners(&[]);
        for segment in segments.iter().take(64) {
            if let Some(read) = image.read(segment.start, segment.len.min(1 << 20) as usize) {
                assert_eq!(read.len() as u64, segment.len.min(1 << 20));
            }
            read_around(&image, segment);
        }
        return;
    }
    for segment in segments {
        let read = image.read(segment.start, segment.len as usize).unwrap();
        assert_eq!(read.len() as u64, segment.len);
        read_around(&image, segment);
    }
    // The bytes of a compressed file are not in it.
    let packed = [&b"\x1f\x8b"[..], b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\0", b"\x04\x22\x4d\x18"];
    if packed.iter().any(|magic| file.starts_with(magic)) {
        return;
    }
    // There are no holes: every byte of a segment is data, and each byte of the file occurs
    // once.
    let mut parts = Vec::new();
    for (physical, bytes) in image.data() {
        assert_eq!(image.read(physical, bytes.len()).as_deref(), Some(&*bytes));
        let mut places = file.windows(bytes.len());
        assert!(places.any(|place| *place == *bytes), "not in the file");
        parts.push(bytes.as_ptr_range());
    }
    parts.sort_by_key(|part| part.start);
    assert!(parts.is_sorted_by(|a, b| a.end <= b.start));
    let searched: usize = image.data().map(|(_, bytes)| bytes.len()).sum();
    assert!(searched <= file.len());
    assert_eq!(Discovery::new(&image).detection.searched, searched as u64);
});

/// Reads two bytes from the last one of a segment. The second one exists if the next segment is
/// adjacent.
fn read_around(image: &Memory, segment: &PhysicalRange) {
    // A segment may end at 2^64.
    let last = segment.start + (segment.len - 1);
    let next = last.checked_add(1).and_then(|end| image.read(end, 1));
    let two = image.read(last, 2);
    assert_eq!(two.map(|two| two[1]), next.map(|next| next[0]));
}

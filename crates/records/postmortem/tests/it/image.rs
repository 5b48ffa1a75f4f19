//! Memory images of every kind: whole, cut off and hostile.
use crate::recordings as common;

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::ops::Range;

use common::{Fixture, noise};
use nostall_postmortem::detect::detect;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::{
    DumpFormat, Error, MAX_COPY, MAX_SEGMENTS, Memory, PhysicalRange,
};
use proptest::prelude::*;

/// Opens `bytes` as a file.
fn open(bytes: &[u8]) -> Result<Memory, Error> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    Memory::open(file.path())
}

const fn segment(start: u64, len: u64) -> PhysicalRange {
    PhysicalRange { start, len }
}

/// Returns an image's contents by physical address.
fn data(image: &Memory) -> Vec<(u64, Vec<u8>)> {
    image
        .data()
        .map(|(physical, bytes)| (physical, bytes.to_vec()))
        .collect()
}

#[derive(Clone, Copy, Debug)]
struct RecordFormat {
    wide: bool,
    big: bool,
}

/// Returns a core file with a note, these `PT_LOAD` headers (address, offset, size), and
/// `memory`.
fn core(
    RecordFormat { wide, big }: RecordFormat,
    loads: &[(u64, u64, u64)],
    memory: &[u8],
) -> Vec<u8> {
    let number = |value: u64, size: usize| {
        let bytes = value.to_be_bytes()[8 - size..].to_vec();
        if big {
            bytes
        } else {
            bytes.into_iter().rev().collect()
        }
    };
    let word = if wide { 8 } else { 4 };
    let (header, program) = if wide { (64, 56) } else { (52, 32) };
    let mut elf = b"\x7fELF".to_vec();
    elf.extend([1 + u8::from(wide), 1 + u8::from(big), 1]);
    elf.resize(16, 0);
    let fields = [
        (4, 2),
        (62, 2),
        (1, 4),
        (0, word),
        (header, word),
        (0, word),
        (0, 4),
        (header, 2),
        (program, 2),
    ];
    elf.extend(
        fields
            .into_iter()
            .flat_map(|(value, size)| number(value, size)),
    );
    elf.extend(number(loads.len() as u64 + 1, 2));
    elf.resize(header as usize, 0);
    let note = (4, (0x5555, 0, 0));
    for (kind, (physical, offset, size)) in
        std::iter::once(note).chain(loads.iter().map(|load| (1, *load)))
    {
        let fields = match wide {
            true => vec![
                (kind, 4),
                (7, 4),
                (offset, 8),
                (0xffff, 8),
                (physical, 8),
                (size, 8),
                (size, 8),
                (0, 8),
            ],
            false => vec![
                (kind, 4),
                (offset, 4),
                (0xffff, 4),
                (physical, 4),
                (size, 4),
                (size, 4),
                (7, 4),
                (0, 4),
            ],
        };
        elf.extend(
            fields
                .into_iter()
                .flat_map(|(value, size)| number(value, size)),
        );
    }
    elf.resize(elf.len().max(0x1000), 0);
    elf.extend(memory);
    elf
}

const WIDE: RecordFormat = RecordFormat {
    wide: true,
    big: false,
};

#[test]
fn a_raw_file_is_memory_from_address_zero() {
    let image = open(b"0123456789").unwrap();
    assert_eq!(
        (image.format(), image.segments(), image.missing()),
        (DumpFormat::RAW, &[segment(0, 10)][..], 0)
    );
    assert_eq!(data(&image), [(0, b"0123456789".to_vec())]);
    assert!(matches!(image.read(2, 3), Some(Cow::Borrowed(b"234"))));
    assert_eq!(image.read(8, 3), None);
    assert_eq!(image.read(10, 0), None);
    assert_eq!(image.read(u64::MAX, usize::MAX), None);
}

#[test]
fn a_core_file_of_either_width_and_order_has_its_physical_addresses() {
    for (wide, big) in [(false, false), (false, true), (true, false), (true, true)] {
        let loads = [(0x8000_0000, 0x1004, 4), (0x1000, 0x1000, 4)];
        let image = open(&core(RecordFormat { wide, big }, &loads, b"lowmhigh")).unwrap();
        assert_eq!(image.format(), DumpFormat::ELF_CORE);
        assert_eq!(
            image.segments(),
            [segment(0x1000, 4), segment(0x8000_0000, 4)]
        );
        assert_eq!(
            data(&image),
            [(0x1000, b"lowm".to_vec()), (0x8000_0000, b"high".to_vec())]
        );
        assert_eq!(image.read(0x8000_0001, 3).as_deref(), Some(&b"igh"[..]));
        assert_eq!(image.read(0x1002, 4), None);
    }
}

#[test]
fn a_read_across_adjoining_segments_is_copied_within_a_bound() {
    let image = open(&core(
        WIDE,
        &[
            (0x1004, 0x1008, 4),
            (0x1000, 0x1000, 4),
            (0x1008, 0x1004, 4),
        ],
        b"abcdijklefgh",
    ))
    .unwrap();
    assert!(matches!(image.read(0x1002, 8), Some(Cow::Owned(copy)) if copy == b"cdefghij"));
    assert_eq!(image.read(0x1002, 11), None);
    assert_eq!(image.read(0x1002, MAX_COPY + 1), None);
}

#[test]
fn overlapping_segments_are_returned_once() {
    // The layout of kdump's vmcore: the kernel's text, followed by all of memory, which contains
    // it.
    let image = open(&core(
        WIDE,
        &[
            (0x1002, 0x1008, 2),
            (0x1000, 0x1000, 8),
            (0x1006, 0x1000, 4),
        ],
        b"abcdefghxx",
    ))
    .unwrap();
    assert_eq!(image.segments(), [segment(0x1000, 8), segment(0x1008, 2)]);
    assert_eq!(image.read(0x1000, 10).as_deref(), Some(&b"abcdefghcd"[..]));
    let doubt = image.doubt().unwrap();
    assert!(doubt.contains("4 bytes in overlapping segments"), "{doubt}");
}

#[test]
fn overlapping_segments_with_the_same_bytes_need_no_remark() {
    let same = [
        (0x1000, 0x1000, 8),
        (0x1002, 0x1008, 2),
        (0x1004, 0x1004, 4),
    ];
    let image = open(&core(WIDE, &same, b"abcdefghcd")).unwrap();
    assert_eq!(image.doubt(), None);
}

#[test]
fn the_available_part_of_a_cut_segment_is_readable() {
    let image = open(&core(
        WIDE,
        &[
            (0, 0x1002, 100),
            (0x1000, 0x9999, 7),
            (u64::MAX - 1, 0x1000, 4),
            (u64::MAX, 0x1000, 4),
        ],
        b"abcd",
    ))
    .unwrap();
    assert_eq!(image.segments(), [segment(0, 2), segment(u64::MAX - 1, 2)]);
    // The third one ends 2 bytes past 2^64.
    assert_eq!(image.missing(), 98 + 7 + 2);
    assert_eq!(image.read(u64::MAX - 1, 2).as_deref(), Some(&b"ab"[..]));
    assert_eq!(image.read(u64::MAX - 1, 3), None);
}

#[test]
fn a_file_without_physical_memory_is_refused_with_the_reason() {
    let mut program = core(WIDE, &[], b"");
    program[16] = 2;
    assert!(matches!(open(&program), Err(Error::Unsupported { .. })));
    let process = core(WIDE, &[(0, 0x1000, 1), (0, 0x1001, 1)], b"ab");
    assert!(matches!(open(&process), Err(Error::Unsupported { .. })));
    assert!(matches!(
        open(&process[..70]),
        Err(Error::Damaged {
            kind: DumpFormat::ELF_CORE,
            ..
        })
    ));
    assert!(matches!(
        open(b"\x7fELF"),
        Err(Error::Damaged {
            kind: DumpFormat::ELF_CORE,
            ..
        })
    ));
    assert!(matches!(open(b""), Err(Error::Empty)));
}

fn lime(ranges: &[(u64, u64, &[u8])]) -> Vec<u8> {
    let range = |(first, last, memory): &(u64, u64, &[u8])| {
        let header = [
            &0x4C69_4D45u32.to_le_bytes()[..],
            &1u32.to_le_bytes(),
            &first.to_le_bytes(),
            &last.to_le_bytes(),
            &[0; 8],
        ];
        [&header.concat(), *memory].concat()
    };
    ranges.iter().flat_map(range).collect()
}

#[test]
fn a_lime_dump_has_its_ranges_and_the_last_may_be_cut_off() {
    let image = open(&lime(&[
        (0x1000, 0x1003, b"abcd"),
        (0x8000, 0x80ff, b"efgh"),
    ]))
    .unwrap();
    assert_eq!(
        (image.format(), image.missing()),
        (DumpFormat::LIME, 0x100 - 4)
    );
    assert_eq!(
        data(&image),
        [(0x1000, b"abcd".to_vec()), (0x8000, b"efgh".to_vec())]
    );

    assert!(matches!(
        open(&lime(&[(5, 3, b"")])),
        Err(Error::Damaged {
            kind: DumpFormat::LIME,
            ..
        })
    ));
    assert!(matches!(
        open(&lime(&[(0, u64::MAX, b"")])),
        Err(Error::Damaged {
            kind: DumpFormat::LIME,
            ..
        })
    ));
    assert!(matches!(
        open(b"EMiL\x01\0\0\0"),
        Err(Error::Damaged {
            kind: DumpFormat::LIME,
            ..
        })
    ));
    assert!(matches!(
        open(b"EMiL\x02\0\0\0"),
        Err(Error::Damaged {
            kind: DumpFormat::LIME,
            ..
        })
    ));
}

#[test]
fn ranges_of_a_lime_dump_behind_zeros_are_read() {
    let ranges = [(0x1000, 0x1003, &b"abcd"[..]), (0x8000, 0x8003, b"efgh")];
    let [first, second] = ranges.map(|range| lime(&[range]));
    for gap in [1, 31, 4096, 5_000_000] {
        let image = open(&[&first, &vec![0; gap][..], &second, &[0; 100]].concat()).unwrap();
        let read = ranges.map(|(start, _, memory)| (start, memory.to_vec()));
        assert_eq!(data(&image), read, "{gap}");
        assert_eq!((image.missing(), image.unknown()), (0, 0), "{gap}");
    }
}

#[test]
fn bytes_behind_the_last_known_range_of_a_lime_dump_are_counted() {
    let first = lime(&[(0x1000, 0x1003, b"abcd")]);
    let mut later = lime(&[(0x8000, 0x8003, b"efgh")]);
    later[4] = 3;
    for (end, unknown) in [(&later[..], 36), (b"\0\0garbage", 7), (b"EMiL\x01", 5)] {
        let image = open(&[&first, end].concat()).unwrap();
        assert_eq!(data(&image), [(0x1000, b"abcd".to_vec())]);
        assert_eq!(image.unknown(), unknown);
    }
    assert!(matches!(open(&later), Err(Error::Damaged { .. })));
}

#[test]
fn a_region_at_the_end_of_the_address_space_is_whole() {
    for fixture in Fixture::all() {
        let region = &fixture.image;
        let start = 0u64.wrapping_sub(region.len() as u64);
        let image = open(&lime(&[(start, u64::MAX, region)])).unwrap();
        assert_eq!(image.missing(), 0);
        assert_has(&image, start, region);
        let within =
            |window: Range<u64>| Discovery::within(&image, window.clone(), Some(window)).detection;
        let found = within(start..u64::MAX).found;
        assert_eq!(found[0].len, region.len());
        assert_eq!(within(0..u64::MAX - 1).searched, region.len() as u64 - 2);
    }
}

#[test]
#[cfg(unix)]
fn a_file_that_shrinks_while_it_is_open_is_an_error_and_no_signal() {
    const LEN: usize = 1 << 20;
    for left in [0, 5000, LEN - 1] {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&noise(LEN, 1)).unwrap();
        let image = Memory::open(file.path()).unwrap();
        image.check().unwrap();
        file.as_file().set_len(left as u64).unwrap();
        let read = image.read(0, LEN).unwrap();
        assert_eq!(read[..left.min(4096)], noise(LEN, 1)[..left.min(4096)]);
        assert_eq!(read[LEN - 1], 0);
        assert!(matches!(image.check(), Err(Error::Shrunk)), "{left}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_bus_error_of_other_memory_ends_the_process_as_before() {
    use std::os::unix::process::ExitStatusExt;

    const NAME: &str = "a_bus_error_of_other_memory_ends_the_process_as_before";
    if std::env::var_os(NAME).is_none() {
        let mut itself = std::process::Command::new(std::env::current_exe().unwrap());
        let name = format!("image::{NAME}");
        let status = itself.args(["--exact", &name]).env(NAME, "").status();
        let signal = status.unwrap().signal();
        assert_eq!(signal, Some(rustix::process::Signal::BUS.as_raw()));
        return;
    }
    let image = open(b"watched").unwrap();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&[1; 4096]).unwrap();
    // SAFETY: the truncated mapping ends this process, as it must.
    let map = unsafe { memmap2::Mmap::map(&file) }.unwrap();
    file.set_len(0).unwrap();
    panic!("{} {:?}", map[0], image.read(0, 1));
}

#[test]
fn an_unreadable_file_is_refused_with_the_command_to_unpack_it() {
    for (magic, command) in [
        (
            &b"makedumpfile\0\0\0\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x01"[..],
            "makedumpfile -R",
        ),
        (b"\x1f\x8b\x08", "gunzip"),
        (b"\x28\xb5\x2f\xfd", "unzstd"),
        (b"\xfd7zXZ\0", "unxz"),
        (b"\x04\x22\x4d\x18", "unlz4"),
        (b"BZh", "bunzip2"),
        (b"QEVM", "--memory-only"),
        (b"LibvirtQemudSave", "--memory-only"),
        (b"PAGEDU64", "dump-guest-memory"),
    ] {
        let error = open(magic).unwrap_err().to_string();
        assert!(error.contains(command), "{error}");
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), b"\x1f\x8b all the same").unwrap();
    assert_eq!(
        Memory::open_raw(file.path()).unwrap().format(),
        DumpFormat::RAW
    );
}

#[test]
#[cfg(target_os = "linux")]
fn the_holes_of_a_sparse_file_are_not_data() {
    const AT: u64 = 3 << 30;
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(4 << 30).unwrap();
    file.seek(SeekFrom::Start(AT)).unwrap();
    file.write_all(b"records").unwrap();
    file.flush().unwrap();

    let image = Memory::open(file.path()).unwrap();
    assert_eq!(image.segments(), [segment(0, 4 << 30)]);
    let bytes: usize = image.data().map(|(_, bytes)| bytes.len()).sum();
    assert!(bytes < 1 << 20, "{bytes} bytes of data");
    let (physical, found) = image.data().next().unwrap();
    assert!(found[(AT - physical) as usize..].starts_with(b"records"));
    assert_eq!(image.read(5, 3).as_deref(), Some(&[0; 3][..]));
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_that_is_not_regular_is_read() {
    assert!(matches!(Memory::open("/dev/null"), Err(Error::Empty)));
    let image = Memory::open("/proc/self/cmdline").unwrap();
    assert_eq!(
        image.segments()[0].len,
        File::open("/proc/self/cmdline")
            .map(std::io::read_to_string)
            .unwrap()
            .unwrap()
            .len() as u64
    );
    assert!(matches!(Memory::open("/"), Err(Error::Io(_))));
}

/// Asserts that the image has this region at `start`, and no other.
#[track_caller]
fn assert_has(image: &Memory, start: u64, region: &[u8]) {
    let (found, alone) = (Discovery::new(image).detection, detect(region));
    assert_eq!(found.convincing().len(), 1, "{found:#x?}");
    let (found, alone) = (&found.convincing()[0], &alone.convincing()[0]);
    assert_eq!((found.start, found.len), (start, region.len()));
    assert_eq!(found.geometry, alone.geometry);
    assert_eq!(image.read(start, found.len).as_deref(), Some(region));
}

#[test]
fn a_region_in_adjacent_segments_of_a_core_file_is_whole_in_any_order() {
    const AT: u64 = 0x1c00_0000;
    for size in [4096, 0x3334, 0x1_0002] {
        for fixture in Fixture::all() {
            let chunks: Vec<_> = fixture.image.chunks(size).rev().collect();
            let (mut loads, mut memory) = (vec![], vec![]);
            for (nth, chunk) in chunks.iter().enumerate() {
                let physical = AT + ((chunks.len() - 1 - nth) * size) as u64;
                loads.push((physical, 0x2000 + memory.len() as u64, chunk.len() as u64));
                memory.extend_from_slice(chunk);
            }
            let mut file = core(WIDE, &loads, &[]);
            file.resize(0x2000, 0);
            let image = open(&[file, memory].concat()).unwrap();
            assert_has(&image, AT, &fixture.image);
        }
    }
}

#[test]
fn a_region_in_adjacent_ranges_of_a_lime_dump_is_whole() {
    const AT: u64 = 0x8000_0000;
    for fixture in Fixture::all() {
        let ranges = fixture.image.chunks(4096).enumerate().map(|(nth, chunk)| {
            let first = AT + nth as u64 * 4096;
            (first, first + chunk.len() as u64 - 1, chunk)
        });
        let image = open(&lime(&ranges.collect::<Vec<_>>())).unwrap();
        assert_has(&image, AT, &fixture.image);
    }
}

#[test]
fn a_region_in_segments_that_are_not_adjacent_is_not_joined() {
    let image = &Fixture::load("plain").image;
    let (first, second) = image.split_at(0x2_0000);
    let lime = lime(&[(0, 0x1_ffff, first), (0x2_1000, 0x4_0fff, second)]);
    let image = open(&lime).unwrap();
    let detection = Discovery::new(&image).detection;
    assert!(!detection.found.is_empty());
    assert!(detection.found.iter().all(|it| it.len <= first.len()));
}

#[test]
fn segments_that_share_a_part_of_the_file_are_searched_once() {
    let region = &Fixture::load("plain").image;
    let memory = [&region[..], &noise(0x4_0000, 3)].concat();
    let len = memory.len() as u64;
    for count in [20, 60_000] {
        for gap in [0, 0x1000] {
            // The addresses of the segments are contiguous, or not.
            let at = 0x2000 + count * 56; // behind the program headers
            let loads = (0..count).map(|nth| (nth * (len + gap), at, len));
            let mut file = core(WIDE, &loads.collect::<Vec<_>>(), &[]);
            file.resize(at as usize, 0);
            let image = open(&[&file[..], &memory].concat()).unwrap();
            assert_eq!(image.segments().len() as u64, count);
            let detection = Discovery::new(&image).detection;
            assert_eq!(detection.searched, len, "{count} segments, {gap:#x} apart");
            assert_has(&image, 0, region);
        }
    }
}

#[test]
fn a_copy_of_a_part_of_a_region_does_not_hide_the_region() {
    // kdump may store a part of memory a second time, at another address.
    let region = &Fixture::load("ecc16").image;
    let len = region.len() as u64;
    let loads = [
        (0x1000, 0x2000 + 0x9000, 0x1_0000),
        (0x100_0000, 0x2000, len),
    ];
    let mut file = core(WIDE, &loads, &[]);
    file.resize(0x2000, 0);
    let image = open(&[&file[..], region].concat()).unwrap();
    assert_has(&image, 0x100_0000, region);
}

#[test]
fn too_many_segments_are_not_called_damage() {
    let range = lime(&[(0, 0, b"x")]);
    let file = range.repeat(MAX_SEGMENTS + 1);
    assert!(matches!(
        Memory::from_bytes(file),
        Err(Error::TooManySegments {
            kind: DumpFormat::LIME
        })
    ));
}

/// Returns a sparse file of `len` bytes with `parts` of 4 KiB of noise, and a region 1 MiB
/// before its end.
#[cfg(target_os = "linux")]
fn sparse(len: u64, parts: u64, region: &[u8]) -> tempfile::NamedTempFile {
    use std::os::unix::fs::FileExt;

    let file = tempfile::NamedTempFile::new().unwrap();
    let write = |at, bytes: &[u8]| file.as_file().write_all_at(bytes, at).unwrap();
    file.as_file().set_len(len).unwrap();
    for part in 0..parts {
        write(len / parts * part / 4096 * 4096, &noise(4096, part));
    }
    write(len - (1 << 20), region);
    file
}

#[test]
#[cfg(target_os = "linux")]
fn the_data_of_a_sparse_file_is_searched_without_its_small_holes() {
    let region = Fixture::load("ecc16").image;
    // Holes of almost 16 MiB, and of 128 KiB.
    for (len, parts) in [(4 << 30, 257), (32 << 30, 2_100), (1 << 30, 8_000)] {
        let file = sparse(len, parts, &region);
        let image = Memory::open(file.path()).unwrap();
        assert_has(&image, len - (1 << 20), &region);
        let searched = Discovery::new(&image).detection.searched;
        // A file system may store more than was written, in blocks of up to 64 KiB.
        let data = parts * 4096;
        assert!((data..=16 * data).contains(&searched), "{searched}");
        assert!(searched * 8 <= len, "{searched} of {len}");
    }
}

/// Generates numbers, many of them edge cases.
fn edge() -> impl Strategy<Value = u64> {
    const EDGES: [u64; 10] = [
        0,
        1,
        0xfff,
        0x1000,
        0x1001,
        0x1008,
        0xffff_ffff,
        1 << 63,
        u64::MAX - 1,
        u64::MAX,
    ];
    prop_oneof![prop::sample::select(&EDGES), 0..0x1020u64, any::<u64>()]
}

/// Checks the properties that hold for an image of any file.
fn holds(image: &Memory, physical: u64, len: usize) -> Result<(), TestCaseError> {
    let mut last = None;
    for segment in image.segments() {
        prop_assert!(segment.len > 0 && last < Some(segment.start));
        last = segment.start.checked_add(segment.len - 1);
        prop_assert!(last.is_some());
        prop_assert!(image.read(segment.start, segment.len as usize).is_some());
    }
    let mut parts: Vec<_> = image
        .data()
        .map(|(_, bytes)| bytes.as_ptr_range())
        .collect();
    parts.sort_by_key(|part| part.start);
    prop_assert!(parts.is_sorted_by(|a, b| a.end <= b.start));
    prop_assert!(image.data().is_sorted_by_key(|(physical, _)| physical));
    for (physical, bytes) in image.data() {
        let read = image.read(physical, bytes.len());
        prop_assert_eq!(read.as_deref(), Some(&*bytes));
    }
    if let Some(read) = image.read(physical, len) {
        prop_assert_eq!(read.len(), len);
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_core_file_is_handled(
        wide: bool,
        big: bool,
        loads in prop::collection::vec((edge(), edge(), edge()), 0..6),
        memory in prop::collection::vec(any::<u8>(), 0..40),
        cut in 0..0x1040usize,
        damage: (prop::sample::Index, u8),
        at in edge(),
        len in 0..50usize,
    ) {
        let mut file = core(RecordFormat { wide, big }, &loads, &memory);
        file.truncate(cut.max(1));
        let damaged = damage.0.index(file.len().min(200));
        file[damaged] = damage.1;
        if let Ok(image) = open(&file) {
            holds(&image, at, len)?;
        }
    }

    #[test]
    fn any_lime_dump_is_handled(
        ranges in prop::collection::vec((edge(), 0..40u64, prop::collection::vec(any::<u8>(), 0..40)), 1..6),
        at in edge(),
        len in 0..50usize,
    ) {
        let ranges: Vec<_> = ranges.iter().map(|(first, len, memory)| (*first, first.wrapping_add(*len), &memory[..])).collect();
        if let Ok(image) = open(&lime(&ranges)) {
            holds(&image, at, len)?;
        }
    }

    #[test]
    fn any_bytes_are_handled(
        head in prop::sample::select(vec![&b""[..], b"\x7fELF", b"\x7fELF\x02\x01\x01", b"EMiL\x01\0\0\0", b"LiME\0\0\0\x01"]),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        at in edge(),
    ) {
        if let Ok(image) = open(&[head, &bytes].concat()) {
            holds(&image, at, 8)?;
        }
    }
}

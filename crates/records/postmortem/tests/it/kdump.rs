//! Dumps in the kdump format and flattened files: by makedumpfile and QEMU, by a small writer,
//! damaged and cut off.
use crate::recordings as common;

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use assert_cmd::cargo::cargo_bin;
use common::{Fixture, noise};
use nostall_postmortem::detect::detect;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::memory::{DumpFormat, Error, Memory, PhysicalRange, group_split};
use proptest::prelude::*;

use crate::ftrace_ring::gunzip;
use crate::kdump_writer::{END, Kdump, Packing, flatten};

const PAGE: usize = 4096;

/// Returns a recorded file, unpacked.
fn recorded(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kdump");
    gunzip(&folder.join(name).with_added_extension("gz"))
}

fn open(dump: Vec<u8>) -> Memory {
    let memory = Memory::from_bytes(dump).unwrap();
    assert_eq!(memory.format(), DumpFormat::KDUMP);
    memory
}

/// Returns all pages of the segments.
fn frames(memory: &Memory) -> impl Iterator<Item = u64> {
    let segments = memory.segments().iter();
    segments.flat_map(|segment| {
        let end = segment.start + (segment.len - 1);
        segment.start / PAGE as u64..=end / PAGE as u64
    })
}

/// Compares all pages of a dump with those of another one. Returns the numbers of pages that are
/// equal and that are missing. Pages of zeros count apart.
fn compare(memory: &Memory, truth: &Memory) -> [[usize; 2]; 2] {
    let mut counts = [[0; 2]; 2];
    for frame in frames(truth) {
        let expected = truth.read(frame * PAGE as u64, PAGE).unwrap();
        let is_zero = usize::from(expected.iter().all(|byte| *byte == 0));
        match memory.read(frame * PAGE as u64, PAGE) {
            Some(read) => {
                assert!(read == expected, "page {frame:#x}");
                counts[is_zero][0] += 1;
            }
            None => counts[is_zero][1] += 1,
        }
    }
    let known = truth.segments().iter();
    let is_known = |range: &PhysicalRange| {
        let mut known = known.clone();
        known.any(|it| it.start <= range.start && it.start + it.len >= range.start + range.len)
    };
    assert!(memory.segments().iter().all(is_known));
    counts
}

#[test]
fn pages_of_makedumpfiles_dumps_are_those_of_its_input() {
    let truth = Memory::from_bytes(recorded("memory.elf")).unwrap();
    let [[data, _], [zeros, _]] = compare(&truth, &truth);
    assert_eq!((data, zeros), (78, 524));
    for (name, format, missing) in [
        ("c-d0", DumpFormat::KDUMP, 0),
        ("l-d1", DumpFormat::KDUMP, 0),
        ("d1", DumpFormat::KDUMP, 0),
        ("reassembled", DumpFormat::KDUMP, 0),
        ("z-d1", DumpFormat::KDUMP, 0),
        ("p-d1", DumpFormat::KDUMP, 0),
        // Free pages and those of programs are left out: in ELF cores only at ends of segments.
        ("c-d31", DumpFormat::KDUMP, 15),
        ("F-c-d31", DumpFormat::KDUMP, 15),
        ("E-d31", DumpFormat::ELF_CORE, 13),
        ("F-E-d1", DumpFormat::ELF_CORE, 0),
    ] {
        let memory = Memory::from_bytes(recorded(name)).unwrap();
        assert_eq!(memory.format(), format, "{name}");
        let [[data, data_missing], _] = compare(&memory, &truth);
        assert_eq!((data, data_missing), (78 - missing, missing), "{name}");
        assert_eq!(memory.doubt(), None, "{name}");
    }
}

/// Runs makedumpfile. Without it the test prints that it is skipped, and fails if
/// `NOSTALL_REQUIRE_TOOLS` is set.
fn makedumpfile(test: &str, arguments: &str, folder: &Path) -> Option<Vec<u8>> {
    let mut command = Command::new("makedumpfile");
    match command
        .args(arguments.split(' '))
        .current_dir(folder)
        .output()
    {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{arguments}: {said}");
            Some(output.stdout)
        }
        Err(error) => {
            let error = format!("makedumpfile: {error}: run scripts/setup tools");
            let is_required = std::env::var_os("NOSTALL_REQUIRE_TOOLS").is_some();
            assert!(!is_required, "{test}: {error}");
            // The test harness captures the output of std's macros, so they are not used here.
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {error}");
            None
        }
    }
}

#[test]
fn the_installed_makedumpfiles_dumps_have_the_pages_of_its_input() {
    const TEST: &str = "the_installed_makedumpfiles_dumps_have_the_pages_of_its_input";

    let folder = tempfile::tempdir().unwrap();
    let input = recorded("memory.elf");
    fs::write(folder.path().join("memory.elf"), &input).unwrap();
    let truth = Memory::from_bytes(input).unwrap();
    for (options, missing) in [
        ("-c -d 0", 0),
        ("-c -d 31", 15),
        ("-c -d 1 --cyclic-buffer 1", 0),
        ("-c -d 1 --num-threads 2", 0),
        ("-l -d 1", 0),
        ("-d 1", 0),
        ("-E -d 1", 0),
    ] {
        let name = format!("dump{}", options.replace(' ', ""));
        let arguments = format!("{options} memory.elf {name}");
        if makedumpfile(TEST, &arguments, folder.path()).is_none() {
            return;
        }
        let memory = Memory::open(folder.path().join(name)).unwrap();
        assert_eq!(compare(&memory, &truth)[0][1], missing, "{options}");
        let arguments = format!("-F {options} memory.elf");
        if options.contains("threads") {
            continue;
        }
        let flattened = makedumpfile(TEST, &arguments, folder.path()).unwrap();
        let memory = Memory::from_bytes(flattened).unwrap();
        assert_eq!(compare(&memory, &truth)[0][1], missing, "-F {options}");
        assert_eq!(memory.doubt(), None);
    }
}

#[test]
fn qemus_compressed_dump_has_the_memory_of_its_core_file() {
    let truth = Memory::from_bytes(recorded("qemu.elf")).unwrap();
    let memory = open(recorded("qemu-z"));
    let [[data, data_missing], [zeros, zeros_missing]] = compare(&memory, &truth);
    assert_eq!((data_missing, zeros_missing), (0, 0));
    assert!(data >= 32 && zeros > 200, "{data} {zeros}");
    let line = b"line 300 of the memory of a machine\n";
    let mut pieces = memory.data();
    assert!(pieces.any(|(_, bytes)| bytes.windows(line.len()).any(|it| it == line)));
    let searched: u64 = memory.data_ranges().map(|range| range.len).sum();
    // Long ranges of zeros are not searched.
    assert!(searched < 60 * PAGE as u64, "{searched:#x}");
}

#[test]
fn the_pages_of_a_part_of_a_split_dump_are_its_own() {
    let truth = Memory::from_bytes(recorded("memory.elf")).unwrap();
    let mut all = 0;
    for (nth, count) in [(1, 213), (2, 208), (3, 181)] {
        let memory = open(recorded(&format!("split-{nth}")));
        let [[data, _], [zeros, _]] = compare(&memory, &truth);
        all += data;
        assert_eq!(data + zeros, frames(&memory).count());
        assert_eq!(data + zeros, count);
        let doubt = memory.doubt().unwrap();
        assert!(
            doubt.contains("in other parts of this split dump"),
            "{doubt}"
        );
    }
    assert_eq!(all, 78);
}

/// Writes recorded files into a folder, and returns their paths.
fn write_recorded(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    let write = |name: &&str| {
        let path = folder.join(name);
        fs::write(&path, recorded(name)).unwrap();
        path
    };
    names.iter().map(write).collect()
}

#[test]
fn the_parts_of_a_split_dump_are_one_memory_in_any_order() {
    let truth = Memory::from_bytes(recorded("memory.elf")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let names = ["split-1", "split-2", "split-3", "l-d1", "c-d31"];
    let paths = write_recorded(folder.path(), &names);
    for order in [[0, 1, 2], [2, 0, 1]] {
        let memory = Memory::open_split(&order.map(|nth| &paths[nth])).unwrap();
        let [[data, data_missing], [zeros, zeros_missing]] = compare(&memory, &truth);
        assert_eq!((data, zeros), (78, 524));
        assert_eq!((data_missing, zeros_missing), (0, 0));
        assert_eq!(memory.doubt(), None);
    }
    // Without the second part.
    let memory = Memory::open_split(&[&paths[0], &paths[2]]).unwrap();
    let [[_, data_missing], [_, zeros_missing]] = compare(&memory, &truth);
    assert_eq!(data_missing + zeros_missing, 208);
    let doubt = memory.doubt().unwrap();
    let words =
        "851968 bytes are in other parts of this split dump: addresses 0x7c80000 to 0x7d4ffff;";
    assert!(doubt.contains(words), "{doubt}");
    for wrong in [[0, 0], [0, 3], [3, 4]] {
        let wrong = wrong.map(|nth| &paths[nth]);
        assert!(Memory::open_split(&wrong).is_err(), "{wrong:?}");
    }
    let given = [3, 2, 4, 0, 1, 2].map(|nth| paths[nth].clone());
    let groups = [&[3][..], &[2, 0, 1], &[4], &[2]];
    let groups = groups.map(|group| {
        group
            .iter()
            .map(|nth| paths[*nth].clone())
            .collect::<Vec<_>>()
    });
    assert_eq!(group_split(given.to_vec()), groups);
}

#[test]
fn the_command_joins_the_parts_of_a_split_dump_and_names_a_missing_one() {
    let region = Fixture::load("plain").image;
    let mut dump = with_region(&region, Packing::Zlib, PAGE);
    // The region has 64 pages.
    let start = 0x8_0000;
    let folder = tempfile::tempdir().unwrap();
    let frames = [
        0..start + 10,
        start + 10..start + 20,
        start + 20..start + 64,
    ];
    for (nth, frames) in frames.into_iter().enumerate() {
        dump.split = Some(frames);
        fs::write(folder.path().join(format!("part{nth}")), dump.write()).unwrap();
    }
    fs::write(folder.path().join("image"), &region).unwrap();
    let run = |arguments: &str| {
        let mut command = Command::new(cargo_bin("nostall-postmortem"));
        let output = command
            .current_dir(folder.path())
            .args(arguments.split(' '))
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.stdout, said, output.status.code())
    };
    let (expected, _, _) = run("image");
    let (records, said, status) = run("part2 part0 part1");
    assert_eq!(status, Some(0), "{said}");
    assert!(records == expected);
    assert!(said.contains("part2, part0, part1: "), "{said}");
    assert!(!said.contains("other parts"), "{said}");
    // Two dumps.
    let (_, said, status) = run("part0 image part1 part2");
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(
        said.lines()
            .filter(|line| line.contains("region at"))
            .count(),
        2,
        "{said}"
    );
    let (_, said, _) = run("part0 part2");
    let words =
        "40960 bytes are in other parts of this split dump: addresses 0x8000a000 to 0x80013fff";
    assert!(said.contains(words), "{said}");
    let (_, said, status) = run("--swap 4 part0 part1");
    assert_eq!(status, Some(1));
    assert!(said.contains("not for a split dump"), "{said}");
}

/// Returns a dump with a region at 2 GiB, and pages before it with holes, in one compression.
fn with_region(region: &[u8], packing: Packing, page: usize) -> Kdump {
    let mut dump = Kdump::new(page);
    for nth in 0..5 {
        dump.insert(3 + nth * 2, &noise(page, nth), packing);
    }
    let start = 0x8000_0000 / page as u64;
    for (nth, bytes) in region.chunks(page).enumerate() {
        dump.insert(start + nth as u64, bytes, packing);
    }
    dump
}

#[test]
fn every_region_is_found_in_each_compression_and_page_size() {
    for (fixture, page) in Fixture::all().zip([4096, 16384, 65536].into_iter().cycle()) {
        for packing in Packing::ALL {
            let region = &fixture.image;
            let dump = with_region(region, packing, page).write();
            for dump in [flatten(&dump, pieces(dump.len(), 5000)), dump] {
                let memory = Memory::from_bytes(dump).unwrap();
                let detection = Discovery::new(&memory).detection;
                assert_eq!(detection.convincing().len(), 1);
                let found = &detection.convincing()[0];
                let alone = &detect(region).found[0];
                assert_eq!((found.start, found.len), (0x8000_0000, region.len()));
                assert_eq!(found.geometry, alone.geometry);
                let read = memory.read(found.start, found.len);
                assert_eq!(read.as_deref(), Some(&**region));
            }
        }
    }
}

/// Returns pieces of this length.
fn pieces(len: usize, piece: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len)
        .step_by(piece)
        .map(move |at| at..len.min(at + piece))
}

/// Memory may hold the text of an earlier crash of the same kernel.
#[test]
fn the_time_of_a_crash_is_the_headers_and_otherwise_that_of_a_copy() {
    let text = |time: &str| format!("OSRELEASE=6.1.0-1\nSYMBOL(prb)=0\n{time}").into_bytes();
    for (header, time) in [("CRASHTIME=2\n", Some(2)), ("", Some(1))] {
        let mut page = text("CRASHTIME=1\n");
        page.resize(PAGE, 0);
        let mut dump = Kdump::new(PAGE);
        dump.insert(0, &page, Packing::Stored);
        dump.vmcoreinfo = text(header);
        let memory = open(dump.write());
        let infos = Discovery::new(&memory).vmcoreinfos(&[]);
        let times: Vec<_> = infos.iter().map(|(_, info)| info.crash_time()).collect();
        assert_eq!(times, [time]);
    }
}

#[test]
fn a_header_that_is_cut_off_is_refused() {
    let mut dump = Kdump::new(PAGE);
    dump.insert(0, &[7; PAGE], Packing::Zlib);
    let file = dump.write();
    let flat = flatten(&file, std::iter::once(0..file.len()));
    let header = flat.len() - file.len();
    // The page size ends at 432, and the numbers of blocks and pages at 444.
    for cut in 432..444 {
        for file in [&file[..cut], &flat[..header + cut]] {
            let error = Memory::from_bytes(file.to_vec()).unwrap_err().to_string();
            assert!(error.contains("cut off"), "{cut}: {error}");
        }
    }
}

#[test]
fn a_page_that_was_left_out_is_missing_and_never_zeros() {
    let mut dump = Kdump::new(PAGE);
    dump.insert(1, &[7; PAGE], Packing::Zlib);
    dump.insert(3, &[0; PAGE], Packing::Zlib);
    dump.insert(4, &noise(PAGE, 1), Packing::Zlib);
    let memory = open(dump.write());
    let page = PAGE as u64;
    assert_eq!(
        memory.segments(),
        [(1, 1), (3, 2)].map(|(start, len)| PhysicalRange {
            start: start * page,
            len: len * page
        })
    );
    assert_eq!(memory.read(2 * page, 1), None);
    assert_eq!(memory.read(2 * page - 1, 2), None);
    assert_eq!(memory.read(3 * page - 1, 1), None);
    assert_eq!(memory.read(3 * page, PAGE).as_deref(), Some(&[0; PAGE][..]));
    assert_eq!(memory.read(5 * page, 1), None);
    assert_eq!(memory.doubt(), None);
    let partly = memory.read_partly(0, 6 * PAGE).unwrap();
    assert_eq!(
        partly.missing(),
        [0..PAGE, 2 * PAGE..3 * PAGE, 5 * PAGE..6 * PAGE]
    );
}

#[test]
fn adjacent_stored_pages_are_not_copied() {
    let mut dump = Kdump::new(PAGE);
    let bytes = noise(100 * PAGE, 3);
    for (nth, page) in bytes.chunks(PAGE).enumerate() {
        dump.insert(nth as u64, page, Packing::Stored);
    }
    let memory = open(dump.write());
    let read = memory.read(5, 99 * PAGE).unwrap();
    assert!(matches!(read, std::borrow::Cow::Borrowed(_)));
    assert!(*read == bytes[5..][..99 * PAGE]);
}

#[test]
fn older_headers_and_diskdumps_signature_are_read() {
    let mut dump = with_region(&Fixture::load("plain").image, Packing::Zlib, PAGE);
    for (signature, version) in [
        (b"KDUMP   ", 0),
        (b"KDUMP   ", 1),
        (b"KDUMP   ", 5),
        (b"DISKDUMP", 1),
    ] {
        (dump.signature, dump.version) = (signature, version);
        let memory = open(dump.write());
        assert_eq!(Discovery::new(&memory).detection.convincing().len(), 1);
    }
}

#[test]
fn a_damaged_page_is_missing_and_no_other() {
    let mut dump = Kdump::new(PAGE);
    let text = |nth: u64| format!("page {nth} ").repeat(PAGE).as_bytes()[..PAGE].to_vec();
    for nth in 0..4 {
        dump.insert(nth, &text(nth), Packing::Zlib);
    }
    let whole = dump.write();
    let descriptor = dump.descriptors() + 24;
    let offset = u64::from_le_bytes(whole[descriptor..descriptor + 8].try_into().unwrap());
    for (at, value) in [
        // In the stream, the descriptor's offset, size and flags.
        (offset as usize + 9, whole[offset as usize + 9] ^ 1),
        (descriptor + 1, whole[descriptor + 1] ^ 1),
        (descriptor + 6, 1),
        (descriptor + 8, 0),
        (descriptor + 11, 0xff),
        (descriptor + 12, 0x10),
        (descriptor + 12, 2),
    ] {
        let mut dump = whole.clone();
        dump[at] = value;
        let memory = open(dump);
        assert_eq!(memory.read(PAGE as u64 + 9, 1), None, "{at:#x}");
        for nth in [0, 2, 3] {
            let read = memory.read(nth * PAGE as u64, PAGE);
            assert_eq!(read.as_deref(), Some(&*text(nth)), "{at:#x}");
        }
        let doubt = memory.doubt().unwrap();
        assert!(doubt.contains("4096 bytes are missing, because"), "{doubt}");
    }
}

#[test]
fn a_wrong_bit_in_the_bitmap_is_an_error_because_it_moves_all_later_pages() {
    let dump = with_region(&Fixture::load("plain").image, Packing::Zlib, PAGE);
    let whole = dump.write();
    for frame in [0, 3, 4, 0x8_0000, 0x8_0020] {
        let mut bytes = whole.clone();
        bytes[dump.bitmap() + frame / 8] ^= 1 << (frame % 8);
        let error = Memory::from_bytes(bytes).unwrap_err().to_string();
        assert!(error.contains("bitmap does not fit"), "{frame:#x}: {error}");
    }
}

#[test]
fn a_dump_that_is_cut_off_has_the_pages_before_the_cut() {
    let mut dump = Kdump::new(PAGE);
    let bytes = noise(100 * PAGE, 4);
    for (nth, page) in bytes.chunks(PAGE).enumerate() {
        dump.insert(nth as u64, page, Packing::Lzo);
    }
    let whole = dump.write();
    let cut = whole.len() - 10 * PAGE - 1;
    let flattened = flatten(&whole, pieces(cut, 10_000));
    for dump in [&whole[..cut], &flattened] {
        let memory = open(dump.to_vec());
        assert_eq!(memory.missing(), 11 * PAGE as u64);
        let there = 89 * PAGE;
        assert_eq!(memory.read(0, there).as_deref(), Some(&bytes[..there]));
        assert_eq!(memory.read(there as u64, 1), None);
        let doubt = memory.doubt().unwrap();
        assert!(doubt.contains("full disk: 45056 bytes"), "{doubt}");
    }
    // Only half of the descriptors.
    let memory = open(whole[..dump.descriptors() + 50 * 24].to_vec());
    assert_eq!(memory.missing(), 100 * PAGE as u64);
    let error = Memory::from_bytes(whole[..dump.bitmap()].to_vec()).unwrap_err();
    assert!(
        error.to_string().contains("its bitmap is cut off"),
        "{error}"
    );
}

#[test]
fn a_dump_for_which_its_writer_had_no_space_says_so() {
    let mut dump = Kdump::new(PAGE);
    for nth in 0..9 {
        dump.insert(nth, &noise(PAGE, nth), Packing::Zlib);
    }
    // makedumpfile's mark of an incomplete dump. It leaves zeros in the descriptors.
    dump.status = 9;
    let mut bytes = dump.write();
    bytes[dump.descriptors() + 24 * 6..][..24 * 3].fill(0);
    let memory = open(bytes);
    assert_eq!(memory.missing(), 3 * PAGE as u64);
    assert_eq!(
        memory.read(5 * PAGE as u64, 1).as_deref(),
        Some(&noise(1, 5)[..])
    );
    assert_eq!(memory.read(6 * PAGE as u64, 1), None);
    let doubt = memory.doubt().unwrap();
    assert!(
        doubt.contains("12288 bytes of memory that it promises") && !doubt.contains(';'),
        "{doubt}"
    );
}

#[test]
fn dumps_that_cannot_be_read_are_refused_with_the_reason() {
    let mut dump = Kdump::new(PAGE);
    dump.insert(5, &[1; PAGE], Packing::Zlib);
    let whole = dump.write();
    let put = |edits: &[(usize, u32)]| {
        let mut bytes = whole.clone();
        for (at, value) in edits {
            bytes[*at..*at + 4].copy_from_slice(&value.to_le_bytes());
        }
        match Memory::from_bytes(bytes) {
            Ok(memory) => panic!("{memory:?}"),
            Err(error) => error.to_string(),
        }
    };
    for (edits, words) in [
        (&[(428, 0)][..], "page size is neither"),
        (&[(428, 1 << 17)], "page size is neither"),
        (&[(428, 0x10_0000)], "of a big-endian machine"),
        (&[(428, 0), (416, 4096)], "of a 32-bit machine"),
        (&[(8, 7)], "a version above 6"),
        (&[(436, 0)], "its bitmap is smaller"),
        (&[(PAGE + 96, u32::MAX)], "its bitmap is smaller"),
        (&[(PAGE + 100, 1 << 31)], "more than 256 TiB"),
        (&[(432, u32::MAX)], "its bitmap is cut off"),
        (&[(436, u32::MAX)], "its bitmap is cut off"),
        (&[(PAGE + 12, 1), (PAGE + 80, 9)], "ends before it starts"),
    ] {
        let error = put(edits);
        assert!(error.contains(words), "{edits:x?}: {error}");
    }
    let raw = flatten(&[7; 10_000], pieces(10_000, 100));
    let error = Memory::from_bytes(raw).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }));
    assert!(
        error.to_string().contains("neither a kdump file nor"),
        "{error}"
    );
}

#[test]
fn blocks_of_a_flattened_file_may_overlap_and_the_last_one_counts() {
    let mut dump = Kdump::new(PAGE);
    for nth in 0..20 {
        dump.insert(nth, &noise(PAGE, nth), Packing::Stored);
    }
    let whole = dump.write();
    // makedumpfile writes its header again at the end.
    let mut old = whole.clone();
    old[424..448].fill(0);
    let mut file = flatten(&old, pieces(whole.len(), 3000));
    let again = flatten(&whole, std::iter::once(400..500));
    file.extend(&again[4096..]);
    file.extend(END);
    let memory = open(file);
    assert_eq!(memory.doubt(), None);
    for nth in 0..20 {
        let read = memory.read(nth * PAGE as u64, PAGE);
        assert_eq!(read.as_deref(), Some(&*noise(PAGE, nth)));
    }
}

/// Returns the number of bytes that a search reads.
fn searched(memory: &Memory) -> u64 {
    memory.data_ranges().map(|range| range.len).sum()
}

#[test]
fn a_search_reads_each_page_that_is_not_zero() {
    for name in [
        "c-d0", "c-d31", "l-d1", "d1", "F-c-d31", "split-2", "qemu-z",
    ] {
        let memory = open(recorded(name));
        let ranges: Vec<_> = memory.data_ranges().collect();
        for frame in frames(&memory) {
            let start = frame * PAGE as u64;
            let is_zero = |page: &[u8]| page.iter().all(|byte| *byte == 0);
            if memory.read(start, PAGE).is_some_and(|page| !is_zero(&page)) {
                let is_in = |it: &PhysicalRange| (it.start..it.start + it.len).contains(&start);
                assert!(ranges.iter().any(is_in), "{name}: page {frame:#x}");
            }
        }
    }
}

#[test]
fn a_page_that_many_descriptors_name_is_searched_once() {
    const PAGES: u64 = 1000;

    let mut dump = Kdump::new(PAGE);
    for nth in 0..PAGES {
        dump.insert(nth, &noise(PAGE, nth), Packing::Stored);
    }
    let mut bytes = dump.write();
    let (head, rest) = bytes.split_at_mut(dump.descriptors() + 2 * 24);
    // The first two pages, in turn.
    for copy in rest[..(PAGES as usize - 2) * 24].chunks_mut(2 * 24) {
        copy.copy_from_slice(&head[dump.descriptors()..]);
    }
    let memory = open(bytes);
    assert_eq!(searched(&memory), 2 * PAGE as u64);
    let last = memory.read((PAGES - 1) * PAGE as u64, PAGE);
    assert_eq!(last.as_deref(), Some(&*noise(PAGE, 1)));
}

#[test]
#[cfg(target_os = "linux")]
fn pages_whose_descriptors_are_in_a_hole_of_the_file_are_missing() {
    const PAGES: u64 = 1 << 24;
    /// Number of descriptors behind the hole, which name no page.
    const BEHIND: u64 = 1000;

    let mut dump = Kdump::new(PAGE);
    dump.insert(0, &noise(PAGE, 1), Packing::Stored);
    dump.max_frames = PAGES;
    let mut bytes = dump.write();
    let start = dump.descriptors();
    bytes.truncate(start);
    bytes[dump.bitmap()..].fill(0xff);
    let data = start as u64 + PAGES * 24;
    bytes.extend([&data.to_le_bytes()[..], &4096u32.to_le_bytes(), &[0; 12]].concat());
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    let mut file = file.into_file();
    let behind = data - BEHIND * 24;
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(behind)).unwrap();
    file.write_all(&[0; BEHIND as usize * 24]).unwrap();
    file.write_all(&[7; PAGE]).unwrap();
    let memory = Memory::from_file(file).unwrap();
    assert_eq!(memory.missing(), (PAGES - 1) * PAGE as u64);
    // The file's blocks next to the hole have descriptors, too.
    assert!(searched(&memory) < 4 * BEHIND * PAGE as u64);
    assert_eq!(memory.read(0, PAGE).as_deref(), Some(&[7; PAGE][..]));
    assert_eq!(memory.read(PAGE as u64 * 10_000, 1), None);
}

/// Returns a page of one kind: zeros, text, or noise.
fn page(kind: u8, seed: u64) -> Vec<u8> {
    match kind {
        0 => vec![0; PAGE],
        1 => format!("{seed} ").repeat(PAGE).as_bytes()[..PAGE].to_vec(),
        _ => noise(PAGE, seed),
    }
}

prop_compose! {
    /// Dumps with random holes and compressions.
    fn dumps()(
        pages in prop::collection::vec(
            prop::option::weighted(0.8, (0..3u8, prop::sample::select(&Packing::ALL[..]))),
            1..80,
        ),
    ) -> Kdump {
        let mut dump = Kdump::new(PAGE);
        dump.max_frames = pages.len() as u64;
        for (frame, kind) in pages.into_iter().enumerate() {
            if let Some((kind, packing)) = kind {
                dump.insert(frame as u64, &page(kind, frame as u64), packing);
            }
        }
        dump
    }
}

/// Returns the bytes of a range that a reader must see.
fn expected(dump: &Kdump, range: Range<usize>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let (page, _) = dump.pages.get(&((at / PAGE) as u64))?;
        let end = range.end.min((at / PAGE + 1) * PAGE);
        bytes.extend(&page[at % PAGE..][..end - at]);
        at = end;
    }
    Some(bytes)
}

proptest! {
    #[test]
    fn any_dump_has_the_memory_that_was_written(
        dump in dumps(),
        reads in prop::collection::vec((any::<prop::sample::Index>(), 1..20_000usize), 20),
        piece in 200..9_000usize,
        order in any::<u64>(),
    ) {
        let whole = dump.write();
        let mut blocks: Vec<_> = pieces(whole.len(), piece).collect();
        let count = blocks.len();
        blocks.rotate_left(order as usize % count);
        let flattened = [flatten(&whole, blocks), END.to_vec()].concat();
        for file in [whole, flattened] {
            let memory = open(file);
            prop_assert_eq!(memory.doubt(), None);
            for (at, len) in &reads {
                let at = at.index(dump.max_frames as usize * PAGE);
                let read = memory.read(at as u64, *len);
                let part = expected(&dump, at..at + len);
                prop_assert_eq!(read.as_deref(), part.as_deref());
            }
            let mut data = 0;
            for (at, bytes) in memory.data() {
                let at = at as usize;
                let part = expected(&dump, at..at + bytes.len());
                prop_assert_eq!(Some(&*bytes), part.as_deref());
                data += bytes.iter().filter(|byte| **byte != 0).count();
            }
            let all = dump.pages.values().flat_map(|(bytes, _)| bytes);
            prop_assert_eq!(data, all.filter(|byte| **byte != 0).count());
        }
    }

    #[test]
    fn zeros_in_a_flattened_file_are_its_end(
        dump in dumps(),
        from in any::<prop::sample::Index>(),
        zeros in 16..20_000usize,
    ) {
        let contents = dump.write();
        let blocks: Vec<_> = pieces(contents.len(), 5000).collect();
        let mut zeroed = flatten(&contents, blocks.clone());
        let from = from.index(blocks.len());
        let at = 4096 + blocks[..from].iter().map(|block| 16 + block.len()).sum::<usize>();
        let end = zeroed.len().min(at + zeros);
        zeroed[at..end].fill(0);
        let cut = Memory::from_bytes(zeroed[..at].to_vec());
        match (cut, Memory::from_bytes(zeroed)) {
            (Ok(cut), Ok(zeroed)) => {
                prop_assert_eq!(zeroed.format(), cut.format());
                prop_assert_eq!(zeroed.missing(), cut.missing());
                prop_assert_eq!(zeroed.doubt(), cut.doubt());
                prop_assert!(zeroed.data().eq(cut.data()));
            }
            (cut, zeroed) => prop_assert_eq!(cut.is_err(), zeroed.is_err()),
        }
    }

    #[test]
    fn any_cut_off_dump_shows_only_what_was_written(
        dump in dumps(),
        cut in any::<prop::sample::Index>(),
        is_flat in any::<bool>(),
    ) {
        let mut file = dump.write();
        if is_flat {
            file = flatten(&file, pieces(file.len(), 5000));
        }
        file.truncate(cut.index(file.len()));
        let Ok(memory) = Memory::from_bytes(file) else {
            return Ok(());
        };
        if memory.format() != DumpFormat::KDUMP {
            return Ok(());
        }
        for (at, bytes) in memory.data() {
            let at = at as usize;
            let part = expected(&dump, at..at + bytes.len());
            prop_assert_eq!(Some(&*bytes), part.as_deref());
        }
        for frame in 0..dump.max_frames as usize {
            let range = frame * PAGE..(frame + 1) * PAGE;
            if let Some(read) = memory.read(range.start as u64, PAGE) {
                let part = expected(&dump, range);
                prop_assert_eq!(Some(&*read), part.as_deref());
            }
        }
        let lost: usize = dump.pages.keys().filter(|frame| {
            memory.read(**frame * PAGE as u64, PAGE).is_none()
        }).count();
        prop_assert_eq!(memory.missing(), (lost * PAGE) as u64);
    }

    /// Only zlib's pages have a checksum.
    #[test]
    fn flipped_bits_in_zlibs_pages_lose_pages_and_invent_none(
        kinds in prop::collection::vec(1..2u8, 1..60),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8u8), 1..20),
    ) {
        let mut dump = Kdump::new(PAGE);
        for (frame, kind) in kinds.into_iter().enumerate() {
            dump.insert(frame as u64, &page(kind, frame as u64), Packing::Zlib);
        }
        let mut file = dump.write();
        let data = dump.descriptors() + dump.pages.len() * 24 + PAGE;
        let len = file.len();
        for (at, bit) in flips {
            file[data + at.index(len - data)] ^= 1u8 << bit;
        }
        let memory = open(file);
        for frame in 0..dump.max_frames as usize {
            let range = frame * PAGE..(frame + 1) * PAGE;
            if let Some(read) = memory.read(range.start as u64, PAGE) {
                let part = expected(&dump, range);
                prop_assert_eq!(Some(&*read), part.as_deref());
            }
        }
    }

    #[test]
    fn any_dump_is_handled(
        dump in dumps(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..12),
        is_flat in any::<bool>(),
        at in 0..400_000u64,
        most in 0..10_000usize,
    ) {
        let mut file = dump.write();
        if is_flat {
            file = flatten(&file, pieces(file.len(), 1000));
        }
        for (place, byte, in_headers) in edits {
            let len = match in_headers {
                true => file.len().min(5 * PAGE),
                false => file.len(),
            };
            let place = place.index(len);
            file[place] = byte;
        }
        let Ok(memory) = Memory::from_bytes(file) else {
            return Ok(());
        };
        let mut end = 0;
        for range in memory.segments() {
            prop_assert!(range.len > 0 && range.start >= end);
            end = range.start.saturating_add(range.len);
        }
        for (start, bytes) in memory.data() {
            let read = memory.read(start, bytes.len());
            prop_assert_eq!(read.as_deref(), Some(&*bytes));
        }
        if let Some(read) = memory.read(at, most) {
            prop_assert_eq!(read.len(), most);
        }
        Discovery::new(&memory);
        memory.doubt();
    }
}

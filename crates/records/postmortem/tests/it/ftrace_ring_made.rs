//! Ring buffers of Linux that a test made: entries that no recording has, other sizes, and
//! damage at any place.

use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::ftrace_ring::{Kernel, Merge, MergeBy, RingBuffer, TraceText};
use nostall_postmortem::kernel::KernelOffset;
use nostall_postmortem::memory::Memory;
use nostall_postmortem::symbols::Symbols;
use nostall_tracefile::linux::{Formats, Order};
use proptest::prelude::*;

const MAP: &str = "\
ffffffff81000000 T _stext
ffffffff81000100 T one
ffffffff81000180 T two
ffffffff81000200 t rb_meta_init_text_addr
ffffffff81000300 T __irqentry_text_start
ffffffff81000300 T sysvec
ffffffff81000400 T __irqentry_text_end
ffffffff81000500 T _etext
ffffffff82000000 b rb_data_ptr
";
const ONE: u64 = 0xffff_ffff_8100_0104;
const TWO: u64 = 0xffff_ffff_8100_0184;
const SYSVEC: u64 = 0xffff_ffff_8100_0300;

/// A record: its time, and its payload.
type Record = (u64, Vec<u8>);

/// A region with these sub-buffers of each CPU.
#[derive(Debug)]
struct Made {
    subbuf: usize,
    subbufs: usize,
    /// Sub-buffers of each CPU, in the order of writing.
    cpus: Vec<Vec<Vec<Record>>>,
}

impl Made {
    fn new(cpus: Vec<Vec<Record>>) -> Self {
        Self {
            subbuf: 4096,
            subbufs: 8,
            cpus: cpus.into_iter().map(|records| vec![records]).collect(),
        }
    }

    fn area(&self) -> usize {
        (56 + 4 * self.subbufs).next_multiple_of(self.subbuf) + self.subbuf * self.subbufs
    }

    fn bytes(&self) -> Vec<u8> {
        let mut region = vec![0; self.area() * self.cpus.len()];
        let base = 0xffff_c900_0010_0000_u64;
        for (cpu, pages) in self.cpus.iter().enumerate() {
            let at = cpu * self.area();
            let first = at + self.area() - self.subbuf * self.subbufs;
            let address = |page: usize| base + (first + page * self.subbuf) as u64;
            let mut put =
                |at: usize, bytes: &[u8]| region[at..at + bytes.len()].copy_from_slice(bytes);
            put(at, &0x0BAD_FEED_u32.to_le_bytes());
            put(at + 4, &56_u32.to_le_bytes());
            put(at + 8, &0xffff_ffff_8100_0200_u64.to_le_bytes());
            put(at + 16, &0xffff_ffff_8200_0000_u64.to_le_bytes());
            put(at + 24, &address(0).to_le_bytes());
            put(at + 32, &address(1).to_le_bytes());
            put(at + 40, &address(pages.len().max(1)).to_le_bytes());
            put(at + 48, &(self.subbuf as u32).to_le_bytes());
            put(at + 52, &(self.subbufs as u32).to_le_bytes());
            for page in 0..self.subbufs {
                put(at + 56 + 4 * page, &(page as u32).to_le_bytes());
            }
            for (nth, records) in pages.iter().enumerate() {
                put(first + (nth + 1) * self.subbuf, &page(records));
            }
        }
        region
    }
}

/// Returns a sub-buffer's committed bytes.
fn page(records: &[Record]) -> Vec<u8> {
    let mut time = records.first().map_or(0, |(time, _)| *time);
    let mut bytes = time.to_le_bytes().to_vec();
    let mut data = Vec::new();
    let mut words = |words: &[u32]| data.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    for (at, payload) in records {
        let mut delta = at - time;
        time = *at;
        if delta >= 1 << 27 {
            // An extend or, now and then, an absolute stamp.
            let (kind, long) = if delta.is_multiple_of(2) {
                (30, delta)
            } else {
                (31, time)
            };
            words(&[kind | (long as u32) << 5, (long >> 27) as u32]);
            delta = 0;
        }
        let len = payload.len() as u32;
        assert!(len.is_multiple_of(4));
        match len / 4 {
            short @ 1..=28 => words(&[short | (delta as u32) << 5]),
            _ => words(&[(delta as u32) << 5, len + 4]),
        }
        let payload: Vec<u32> = payload
            .chunks(4)
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect();
        words(&payload);
    }
    bytes.extend((data.len() as u64).to_le_bytes());
    bytes.extend(data);
    bytes
}

fn entry(id: u16, pid: i32, rest: &[&[u8]]) -> Vec<u8> {
    let mut bytes = id.to_le_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.extend(pid.to_le_bytes());
    bytes.extend(rest.concat());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn enter(pid: i32, function: u64, depth: i32) -> Vec<u8> {
    entry(11, pid, &[&function.to_le_bytes(), &depth.to_le_bytes()])
}

/// Returns an exit without a return value, as of a kernel without FUNCTION_GRAPH_RETVAL.
fn exit(pid: i32, function: u64, depth: i32, duration: u64) -> Vec<u8> {
    let rest: [&[u8]; 5] = [
        &function.to_le_bytes(),
        &depth.to_le_bytes(),
        &0_u32.to_le_bytes(),
        &1000_u64.to_le_bytes(),
        &(1000 + duration).to_le_bytes(),
    ];
    entry(10, pid, &rest)
}

fn printed(made: &Made, formats: Formats) -> String {
    let image = Memory::from_bytes(made.bytes()).unwrap();
    let buffer = Discovery::within(&image, 0..u64::MAX, None)
        .ring_buffers(&[])
        .remove(0);
    assert_eq!(buffer.notes(), Vec::<String>::new());
    let symbols = Symbols::parse(MAP.as_bytes()).unwrap();
    let kernel = Kernel::new(&image, &buffer, Some(symbols), formats, None).unwrap();
    let mut merge = Merge::new(&image, &buffer, MergeBy::Linux);
    let mut out = Vec::new();
    let mut text = TraceText::as_linux(&kernel, &buffer);
    text.write_all(&image, &buffer, &mut merge, &mut out)
        .unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn stacks_markers_and_unknown_types_are_printed_as_by_linux() {
    let callers = [
        ONE,
        i32::MAX as u64,
        TWO,
        0xffff_ffff_8300_0000,
        u64::MAX,
        ONE,
    ];
    let callers = callers.map(u64::to_le_bytes).concat();
    let records = vec![
        (
            1_000_499,
            entry(4, 7, &[&4_i32.to_le_bytes(), &[0; 4], &callers]),
        ),
        (
            1_000_500,
            entry(
                12,
                7,
                &[
                    &7_u32.to_le_bytes(),
                    &[0; 4],
                    &0x4747_u64.to_le_bytes(),
                    &[0; 56],
                ],
            ),
        ),
        (
            2_000_000_000_000,
            entry(5, 12_345_678, &[&ONE.to_le_bytes(), b"two\nlines\n\0"]),
        ),
        (
            2_000_000_000_001,
            entry(5, 0, &[&0_u64.to_le_bytes(), b"no end of line\0"]),
        ),
        (
            2_000_000_000_002,
            entry(18, -1, &[&0x2a_u32.to_le_bytes(), &[1, 2, 3, 4]]),
        ),
        (
            2_000_000_000_003,
            entry(
                19,
                1,
                &[
                    &ONE.to_le_bytes(),
                    &TWO.to_le_bytes(),
                    &3_u16.to_le_bytes(),
                    &0_u16.to_le_bytes(),
                    &1_000_000_u32.to_le_bytes(),
                ],
            ),
        ),
        (2_000_000_000_004, entry(900, 1, &[&[1, 2, 3, 4]])),
        (
            2_000_000_000_005,
            entry(1, 1, &[&ONE.to_le_bytes(), &0_u64.to_le_bytes()]),
        ),
        (
            2_000_000_000_006,
            entry(1, 1, &[&0x10_u64.to_le_bytes(), &TWO.to_le_bytes()]),
        ),
    ];
    let wanted = concat!(
        "           <...>-7       [000] .....     0.001000: <stack trace>\n",
        " => one\n => [FTRACE TRAMPOLINE]\n => two\n => 0xffffffff83000000\n",
        "           <...>-7       [000] .....     0.001001: <user stack trace>\n",
        " =>  <0000000000004747>\n",
        "           <...>-12345678 [000] .....  2000.000000: one: two\nlines\n",
        "          <idle>-0       [000] .....  2000.000000: 0: no end of line",
        "           <XXX>--1      [000] .....  2000.000000: # 2a buf: 01 02 03 04\n",
        "           <...>-1       [000] .....  2000.000000: one <-two (repeats: 3, last_ts:  1999.999000)\n",
        "           <...>-1       [000] .....  2000.000000: Unknown type 900\n",
        "           <...>-1       [000] .....  2000.000000: one\n",
        "           <...>-1       [000] .....  2000.000000: 0x00000010 <-two\n",
    );
    assert_eq!(
        printed(&Made::new(vec![records]), Formats::default()),
        wanted
    );
}

#[test]
fn a_graph_merges_a_leaf_only_with_the_next_record_of_its_cpu() {
    let cpu_0 = vec![
        (100_000, enter(5, ONE, 0)),
        (102_000, enter(5, TWO, 1)),
        (103_000, exit(5, TWO, 1, 700)),
        (104_000, exit(5, ONE, 0, 12_345)),
        // Another task leaves the function; then the first one.
        (105_000, enter(5, TWO, 0)),
        (106_000, exit(6, TWO, 0, 150_000_000)),
        (107_000, exit(5, TWO, 0, 1_234_567_890)),
        // An interrupt without an entry of its own.
        (108_000, enter(5, SYSVEC, 0)),
        (109_000, enter(5, ONE, -1)),
        (110_000, exit(5, SYSVEC, 0, 99)),
        (111_000, enter(5, SYSVEC, 0)),
        (112_000, exit(5, SYSVEC, 0, 12_345_678)),
    ];
    // The other CPU's record lies between the entry and the exit of a leaf, and stays behind it.
    let cpu_10 = vec![(102_500, exit(9, ONE, 3, 5))];
    let mut cpus = vec![Vec::new(); 11];
    cpus[0] = cpu_0;
    cpus[10] = cpu_10;
    let wanted = concat!(
        "           <...>-5       [000] .....     0.000100:   0)               |  one() {\n",
        "           <...>-5       [000] .....     0.000102:   0)   0.700 us    |    two();\n",
        "           <...>-9       [010] .....     0.000103:  10)   0.005 us    |        }\n",
        "           <...>-5       [000] .....     0.000104:   0) + 12.345 us   |  }\n",
        "           <...>-5       [000] .....     0.000105:   0)               |  two() {\n",
        "           <...>-6       [000] .....     0.000106:   0) @ 150000.0 us |  }\n",
        "           <...>-5       [000] .....     0.000107:   0) $ 1234567 us  |  }\n",
        "           <...>-5       [000] .....     0.000108:   0)   ==========> |\n",
        "  0)               |  sysvec() {\n",
        "           <...>-5       [000] .....     0.000109:   0)               |  one() {\n",
        "           <...>-5       [000] .....     0.000110:   0)   0.099 us    |  }\n",
        "  0)   <========== |\n",
        "           <...>-5       [000] .....     0.000111:   0)   ==========> |\n",
        "  0) * 12345.67 us |  sysvec();\n",
        "  0)   <========== |\n",
    );
    let printed = printed(&Made::new(cpus), Formats::default());
    for (ours, wanted) in printed.lines().zip(wanted.lines()) {
        assert_eq!(ours, wanted);
    }
    assert_eq!(printed, wanted);
}

#[test]
fn the_first_trace_event_counts_as_a_fixed_type_if_the_kernel_was_moved() {
    let mut formats = Formats::new(Order::Little, 8);
    for id in [20, 21] {
        formats.add(&format!(
            "name: made{id}\nID: {id}\nformat:\n\tfield:int a;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"a=%d %s\", REC->a, REC->a > 0 ? \"yes\" : kernel_function(REC->a)\n"
        ));
    }
    let event = |id: u16, a: i32| entry(id, 1, &[&a.to_le_bytes()]);
    let mut made = Made::new(vec![vec![
        (0, event(20, 5)),
        (0, event(21, 5)),
        (0, event(20, -5)),
    ]]);
    let lines = |made: &Made| {
        let text = printed(made, formats.clone());
        let lines = text
            .lines()
            .map(|line| line.split_once(": ").unwrap().1.to_owned());
        lines.collect::<Vec<_>>()
    };
    assert_eq!(
        lines(&made),
        [
            "made20: a=5 yes",
            "made21: a=5 yes",
            "made20: a=0xfffffffb (-5)"
        ]
    );
    // With another offset, Linux prints all but the first event field by field.
    made.cpus.push(Vec::new());
    let mut bytes = made.bytes();
    for cpu in 0..2 {
        for at in [8, 16] {
            let at = cpu * made.area() + at;
            let address = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
            bytes[at..at + 8].copy_from_slice(&(address + (6 << 20)).to_le_bytes());
        }
    }
    let image = Memory::from_bytes(bytes).unwrap();
    let buffer = Discovery::within(&image, 0..u64::MAX, None)
        .ring_buffers(&[])
        .remove(0);
    let symbols = Symbols::parse(MAP.as_bytes()).unwrap();
    let kernel = Kernel::new(&image, &buffer, Some(symbols), formats.clone(), None).unwrap();
    assert_eq!(kernel.offset(), Some(KernelOffset::InRing(6 << 20)));
    let mut out = Vec::new();
    let mut text = TraceText::as_linux(&kernel, &buffer);
    let mut merge = Merge::new(&image, &buffer, MergeBy::Linux);
    text.write_all(&image, &buffer, &mut merge, &mut out)
        .unwrap();
    let out = String::from_utf8(out).unwrap();
    assert!(out.contains(": made20: a=5 yes\n"), "{out}");
    assert!(out.contains(": made21: a=0x5 (5)\n"), "{out}");
    let reasons: Vec<_> = text.reasons().iter().collect();
    assert_eq!(
        reasons,
        [
            "made20 is shown field by field: its print format has kernel_function(), a function of the kernel"
        ]
    );
}

/// Generates one CPU's records in several sub-buffers.
fn pages() -> impl Strategy<Value = Vec<Vec<Record>>> {
    let record = (0_u64..1 << 30, 2_usize..60);
    let page = prop::collection::vec(record, 1..12);
    prop::collection::vec(page, 0..7).prop_map(|pages| {
        let mut time = 0;
        let mut stamp = |(delta, words): (u64, usize)| {
            time += delta;
            (
                time,
                entry(700, 3, &[&time.to_le_bytes(), &vec![0xA5; 4 * words]]),
            )
        };
        let page = |page: Vec<_>| page.into_iter().map(&mut stamp).collect();
        pages.into_iter().map(page).collect()
    })
}

fn made() -> impl Strategy<Value = Made> {
    let cpus = prop::collection::vec(pages(), 1..6);
    (cpus, 0_u32..3, 8_usize..100).prop_map(|(cpus, shift, subbufs)| Made {
        subbuf: 4096 << shift,
        subbufs,
        cpus,
    })
}

fn records(image: &Memory, buffer: &RingBuffer) -> Vec<(usize, u64, Vec<u8>)> {
    let mut merge = Merge::new(image, buffer, MergeBy::Linux);
    let next = || {
        let record = merge.next(image, buffer)?;
        Some((record.cpu, record.time, record.payload.into_owned()))
    };
    std::iter::from_fn(next).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_records_are_returned_in_the_order_of_time(made in made(), before in 0_usize..10_000) {
        let mut image = vec![0x11; before];
        image.extend(made.bytes());
        let image = Memory::from_bytes(image).unwrap();
        let found = Discovery::within(&image, 0..u64::MAX, None).ring_buffers(&[]);
        prop_assert_eq!(found.len(), 1);
        prop_assert_eq!(found[0].address, before as u64);
        prop_assert_eq!(found[0].size, (made.area() * made.cpus.len()) as u64);
        prop_assert!(found[0].notes().is_empty(), "{:?}", found[0].notes());
        let mut wanted: Vec<(usize, u64, Vec<u8>)> = Vec::new();
        for (cpu, pages) in made.cpus.iter().enumerate() {
            wanted.extend(pages.iter().flatten().map(|(time, payload)| (cpu, *time, payload.clone())));
        }
        wanted.sort_by_key(|(cpu, time, _)| (*time, *cpu));
        prop_assert_eq!(records(&image, &found[0]), wanted);
    }

    #[test]
    fn damage_at_any_place_costs_no_panic_and_no_record_of_another_cpu(
        made in made(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<[u8; 8]>(), 1_usize..9), 1..6),
        cpu in any::<prop::sample::Index>(),
    ) {
        let cpu = cpu.index(made.cpus.len());
        let mut bytes = made.bytes();
        // The description and the sub-buffers in use.
        let area = made.area() - made.subbuf * made.subbufs + 8 * made.subbuf;
        for (at, edit, len) in edits {
            let at = cpu * made.area() + at.index(area.min(made.area()) - 8);
            bytes[at..at + len].copy_from_slice(&edit[..len]);
        }
        let image = Memory::from_bytes(bytes).unwrap();
        let others = |records: Vec<(usize, u64, Vec<u8>)>| -> Vec<_> {
            let mut records: Vec<_> = records.into_iter().map(|(_, time, payload)| (time, payload)).collect();
            records.sort();
            records
        };
        let found = Discovery::within(&image, 0..u64::MAX, None).ring_buffers(&[]);
        prop_assert!(made.cpus.len() == 1 || !found.is_empty());
        let mut kept = Vec::new();
        for buffer in &found {
            let all = records(&image, buffer);
            prop_assert_eq!(all.len() as u64, buffer.records());
            kept.extend(all);
        }
        let kept = others(kept);
        for (other, pages) in made.cpus.iter().enumerate() {
            for record in pages.iter().flatten().filter(|_| other != cpu) {
                prop_assert!(kept.binary_search(record).is_ok(), "CPU {other} lost {}", record.0);
            }
        }
        let formats = Formats::default();
        for buffer in &found {
            let kernel = Kernel::new(&image, buffer, None, formats.clone(), None).unwrap();
            let mut text = TraceText::new(&kernel, buffer);
            let mut merge = Merge::new(&image, buffer, MergeBy::Boot);
            text.write_all(&image, buffer, &mut merge, &mut std::io::sink()).unwrap();
        }
    }

    #[test]
    fn any_bytes_with_a_magic_word_are_read_in_bounded_time(
        mut bytes in prop::collection::vec(any::<u8>(), 64..20_000),
        word in prop::sample::select(vec![56_u32, 48, 0x0018_0020, 0x0018_0028]),
        subbufs in any::<u32>(),
    ) {
        bytes[..4].copy_from_slice(&0x0BAD_FEED_u32.to_le_bytes());
        bytes[4..8].copy_from_slice(&word.to_le_bytes());
        let image = Memory::from_bytes(bytes.clone()).unwrap();
        let _ = Discovery::within(&image, 0..u64::MAX, None).ring_buffers(&[]);
        bytes[24..32].copy_from_slice(&0xffff_c900_0000_1000_u64.to_le_bytes());
        bytes[32..48].fill(0);
        bytes[48..52].copy_from_slice(&4096_u32.to_le_bytes());
        bytes[52..56].copy_from_slice(&subbufs.to_le_bytes());
        let image = Memory::from_bytes(bytes).unwrap();
        for buffer in Discovery::within(&image, 0..u64::MAX, None).ring_buffers(&[]) {
            prop_assert_eq!(records(&image, &buffer).len() as u64, buffer.records());
        }
    }
}

//! Linux's persistent ring buffers in hostile memory: found, decoded and printed in bounded time
//! and memory, without a panic.
//!
//! Most inputs are edits of a sound buffer, so that they get past its description.
#![no_main]

use arbitrary::{Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use nostall_postmortem::discovery::Discovery;
use nostall_postmortem::ftrace_ring::{Kernel, Merge, MergeBy, RingBuffer, TraceText};
use nostall_postmortem::memory::Memory;
use nostall_postmortem::symbols::Symbols;
use nostall_tracefile::linux::{Formats, Order};

const PAGES: usize = 6;
const AREA: usize = 4096 * (1 + PAGES);
const FIRST: u64 = 0xffff_c900_0000_1000;
const MAP: &[u8] = b"\
ffffffff81000000 T _stext
ffffffff81000100 T one
ffffffff81000200 t rb_meta_init_text_addr
ffffffff81000300 T __irqentry_text_start
ffffffff81000300 T interrupt
ffffffff81000400 T __irqentry_text_end
ffffffff81000500 T _etext
ffffffff82000000 b rb_data_ptr
";
const FORMATS: &str = "\
name: made
ID: 77
format:
	field:__data_loc char[] text;	offset:8;	size:4;	signed:0;
	field:u32 list[2];	offset:12;	size:8;	signed:0;

print fmt: \"%s %*pbl %s\", __get_str(text), REC->list[0], REC->list, __print_array(REC->list, REC->list[1], 4)
";

/// A write into the image: its offset and bytes.
#[derive(Arbitrary, Debug)]
struct Edit {
    at: u32,
    bytes: [u8; 8],
    len: u8,
}

#[derive(Arbitrary, Debug)]
struct Input {
    cpus: u8,
    word: u8,
    payloads: Vec<(u8, u16, Vec<u8>)>,
    edits: Vec<Edit>,
    cut: u16,
}

fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(place) = image.get_mut(at..at + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

fn made(input: &Input) -> Vec<u8> {
    let cpus = usize::from(input.cpus % 4) + 1;
    let mut image = vec![0; cpus * AREA];
    let word: u32 = [56, 48, 0x0018_0020, 0x0018_0028][usize::from(input.word % 4)];
    let from = [24, 16, 0, 0][usize::from(input.word % 4)];
    for cpu in 0..cpus {
        let area = cpu * AREA;
        let first = FIRST + area as u64;
        let head = if word > 64 && cpu == 0 { 24 } else { 0 };
        put(&mut image, area, &0x0BAD_FEED_u32.to_le_bytes());
        put(&mut image, area + 4, &word.to_le_bytes());
        put(&mut image, area + 8, &0xffff_ffff_8100_0200_u64.to_le_bytes());
        put(&mut image, area + 16, &0xffff_ffff_8200_0000_u64.to_le_bytes());
        if head > 0 {
            put(&mut image, 8, &((cpus * AREA) as u64).to_le_bytes());
            put(&mut image, 16, &24_u64.to_le_bytes());
        }
        let meta = area + head;
        for (nth, address) in [first, first + 4096, first + 3 * 4096].into_iter().enumerate() {
            put(&mut image, meta + from + 8 * nth, &address.to_le_bytes());
        }
        put(&mut image, meta + from + 24, &4096_u32.to_le_bytes());
        put(&mut image, meta + from + 28, &(PAGES as u32).to_le_bytes());
        for page in 0..PAGES as u32 {
            let table = meta + (word & 0xffff) as usize + 4 * page as usize;
            put(&mut image, table, &page.to_le_bytes());
        }
    }
    let mut used = vec![0; cpus * PAGES];
    for (place, delta, payload) in &input.payloads {
        let page = usize::from(*place) % (cpus * PAGES);
        let at = (page / PAGES) * AREA + 4096 + (page % PAGES) * 4096;
        let mut payload = payload.clone();
        payload.resize(payload.len().clamp(8, 100).next_multiple_of(4), 0);
        if used[page] + 4 + payload.len() > 4080 {
            continue;
        }
        let head = payload.len() as u32 / 4 | u32::from(*delta) << 5;
        put(&mut image, at + 16 + used[page], &head.to_le_bytes());
        put(&mut image, at + 20 + used[page], &payload);
        used[page] += 4 + payload.len();
        put(&mut image, at + 8, &(used[page] as u64).to_le_bytes());
    }
    for edit in &input.edits {
        let at = edit.at as usize % image.len();
        put(&mut image, at, &edit.bytes[..usize::from(edit.len % 9)]);
    }
    let len = image.len() - usize::from(input.cut) % image.len();
    image.truncate(len);
    image
}

fuzz_target!(|data: &[u8]| {
    let bytes = match data.split_first() {
        Some((1, rest)) => rest.to_vec(),
        Some((_, rest)) => match Input::arbitrary(&mut Unstructured::new(rest)) {
            Ok(input) => made(&input),
            Err(_) => return,
        },
        None => return,
    };
    let len = bytes.len();
    let Ok(image) = Memory::from_bytes(bytes) else {
        return;
    };
    let mut formats = Formats::new(Order::Little, 8);
    formats.add(FORMATS);
    let symbols = Symbols::parse(MAP).unwrap();
    for buffer in Discovery::within(&image, 0..u64::MAX, None).ring_buffers(&[]) {
        // A record has at least its header.
        assert!(buffer.records() as usize <= len / 4);
        let kernel = Kernel::new(&image, &buffer, Some(symbols.clone()), formats.clone(), None);
        let kernel = kernel.or_else(|_| Kernel::new(&image, &buffer, None, formats.clone(), None));
        let kernel = kernel.unwrap();
        let mut merge = Merge::new(&image, &buffer, MergeBy::Boot);
        let (mut records, mut before) = (0, 0);
        while let Some(record) = merge.next(&image, &buffer) {
            assert!(record.boot >= before);
            before = record.boot;
            records += 1;
        }
        assert_eq!(records, buffer.records());
        let mut merge = Merge::new(&image, &buffer, MergeBy::Linux);
        let mut text = TraceText::as_linux(&kernel, &buffer);
        text.write_all(&image, &buffer, &mut merge, &mut std::io::sink()).unwrap();
        assert!(buffer.notes().len() <= len);
    }
});

//! Error correction: incremental parity, compared with Linux's method. Linux encodes the header and
//! every changed block again.

use crate::record::{IP, PARENT, ZONE, memory};
use nostall_bench::{Effort, Limit, Table, Unit};
use nostall_pstore::{
    BLOCK, Code, Division, HEADER, LinuxVersion, OwnCounter, Ram, Recorder, SIGNATURE, Zone,
    ZoneHeader, ZoneKind,
};
use std::hint::black_box;

/// A zone that is written as in Linux: the header, the data, the parity of every changed block
/// (encoded from memory), and the header's parity.
struct Anew<'a> {
    memory: &'a mut [u8],
    code: &'a Code,
    division: Division,
    start: usize,
    size: usize,
}

impl Anew<'_> {
    fn record(&mut self, ip: u64, parent: u64, stamp: u64) {
        let words = [ip, parent, stamp << 8].map(u64::to_ne_bytes);
        let record = words.as_flattened();
        let data = self.division.data();
        let at = self.start;
        self.start = (at + record.len()) % data;
        self.size = data.min(self.size + record.len());
        let header = ZoneHeader {
            signature: SIGNATURE,
            start: self.start as u32,
            size: self.size as u32,
        };
        self.memory[..HEADER].copy_from_slice(&header.encode(nostall_pstore::ByteOrder::NATIVE));

        let (now, later) = record.split_at(record.len().min(data - at));
        self.store(at, now);
        self.store(0, later);
        let (header, parity) = self.memory.split_at_mut(self.division.header_parity());
        self.code.encode(&header[..HEADER], parity);
    }

    fn store(&mut self, at: usize, bytes: &[u8]) {
        self.memory[HEADER + at..][..bytes.len()].copy_from_slice(bytes);
        for block in at / BLOCK..(at + bytes.len()).div_ceil(BLOCK) {
            let (data, parity) = self.memory.split_at_mut(self.division.block_parity(block));
            let data = &data[HEADER + block * BLOCK..][..self.division.block_len(block)];
            self.code.encode(data, parity);
        }
    }
}

pub fn tables(effort: Effort) {
    let vectors = cfg!(all(target_arch = "x86_64", feature = "std"));
    let vectors = if vectors { "with" } else { "without" };
    for parity in [16, 4, 8, 32] {
        let code: &Code = Box::leak(Box::new(Code::new(parity).unwrap()));
        let title = format!(
            "One record, {parity} bytes of error correction a block, {vectors} vector registers"
        );
        let mut table = Table::new(title, Unit::Nanoseconds);
        let memory = Ram::of(memory());
        let zone = Zone::attach(memory, ZoneKind::Ftrace, LinuxVersion(0), Some(code));
        let mut recorder = Recorder::new(zone.unwrap().0, 0, OwnCounter::new());
        let ours = (parity == 16).then_some(Limit::AtMost(200.0));
        table.row("Recorder", ours, move |n| {
            for _ in 0..n {
                recorder.record(black_box(IP), PARENT);
            }
        });
        let mut anew = Anew {
            memory: crate::record::memory(),
            code,
            division: Division::new(ZONE, parity).unwrap(),
            start: 0,
            size: 0,
        };
        let theirs = (parity == 16).then_some(Limit::RatioAtLeast(1.0));
        table.row("the blocks encoded anew, as Linux does", theirs, move |n| {
            for stamp in 0..n {
                anew.record(black_box(IP), PARENT, stamp);
            }
        });
        table.print(effort);
    }
}

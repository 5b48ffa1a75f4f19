//! Regions of any parameters, filled as Linux fills them, are found unchanged.
use crate::recordings as common;

use common::noise;
use nostall_postmortem::detect::{FoundRegion, detect};
use nostall_pstore::{
    BLOCK, ByteOrder, Code, FTRACE_PER_CPU, HEADER, Layout, Params, Place, RecordFormat,
    TraceRecord, ZoneHeader, ZoneKind, ZoneOrder,
};
use proptest::prelude::*;

/// The part of a zone that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    Nothing,
    /// A part, in per cent.
    Part(usize),
    /// A whole turn of the ring, and a further part in per cent.
    Round(usize),
}

fn fills() -> impl Strategy<Value = Fill> {
    prop_oneof![
        Just(Fill::Nothing),
        (20usize..100).prop_map(Fill::Part),
        (0usize..100).prop_map(Fill::Round),
    ]
}

/// A region that Linux could have left.
#[derive(Clone, Debug)]
struct Region {
    layout: Layout,
    order: ByteOrder,
    record_format: RecordFormat,
    fills: Vec<Fill>,
    /// Seed of the noise that was in the memory before.
    before: Option<u64>,
}

impl Region {
    fn image(&self) -> Vec<u8> {
        let len = self.layout.params().mem_size;
        let mut bytes = match self.before {
            Some(seed) => noise(len, seed),
            None => vec![0; len],
        };
        for (i, zone) in self.layout.zones().enumerate() {
            let fill = self.fills[i % self.fills.len()];
            let whole = &mut bytes[zone.offset..zone.offset + zone.division.zone()];
            self.write(zone, fill, whole);
        }
        bytes
    }

    fn write(&self, zone: Place, fill: Fill, bytes: &mut [u8]) {
        let data = zone.division.data();
        let stream = |len: usize| -> Vec<u8> {
            match zone.kind {
                ZoneKind::Ftrace => self.records(zone.index, len),
                kind => text(kind, len),
            }
        };
        let (start, size) = match (fill, zone.kind) {
            (Fill::Nothing, _) => (0, 0),
            (Fill::Part(part), _) | (Fill::Round(part), ZoneKind::Dmesg) => {
                // Linux writes no record without its head.
                let head = if zone.kind == ZoneKind::Dmesg {
                    HEAD.len()
                } else {
                    0
                };
                let stream = stream((data * part / 100).max(head).min(data - 1));
                bytes[HEADER..HEADER + stream.len()].copy_from_slice(&stream);
                (stream.len(), stream.len())
            }
            (Fill::Round(part), _) => {
                let stream = stream(data + data * part / 100 + 24);
                for (i, byte) in stream.iter().enumerate() {
                    bytes[HEADER + i % data] = *byte;
                }
                (stream.len() % data, data)
            }
        };
        let version = self.layout.params().zone_order.since();
        let header = ZoneHeader {
            signature: zone.kind.signature(version),
            start: start as u32,
            size: size as u32,
        };
        bytes[..HEADER].copy_from_slice(&header.encode(self.order));
        let Some(code) = Code::new(zone.division.parity()) else {
            return;
        };
        for block in 0..size.div_ceil(BLOCK) {
            let len = zone.division.block_len(block);
            let (data, parity) = bytes.split_at_mut(zone.division.block_parity(block));
            code.encode(&data[HEADER + block * BLOCK..][..len], parity);
        }
        let (data, parity) = bytes.split_at_mut(zone.division.header_parity());
        code.encode(&data[..HEADER], parity);
    }

    /// Returns whole records, as many as fit.
    fn records(&self, cpu: usize, len: usize) -> Vec<u8> {
        let base = match self.record_format {
            RecordFormat::Bits64 => 0xffff_ffff_8100_0000,
            _ => 0xc010_0000,
        };
        let record = |i: usize| {
            let record = TraceRecord {
                ip: base
                    + (i as u64 * 7919 % 0x40_0000) * 4
                    + u64::from(self.record_format == RecordFormat::Thumb32) * 2 * (i as u64 % 2),
                parent: base + (i as u64 * 104_729 % 0x40_0000) * 4,
                stamp: 1_000_000 + i as u64 * 311,
                cpu: cpu as u8,
            };
            self.record_format.encode(&record, self.order)[..self.record_format.len()].to_vec()
        };
        (0..len / self.record_format.len())
            .flat_map(record)
            .collect()
    }
}

/// Head of a dmesg record.
const HEAD: &[u8] = b"====1700000000.123456-D\nPanic#1 Part1\n";

fn text(kind: ZoneKind, len: usize) -> Vec<u8> {
    let head: &[u8] = match kind {
        ZoneKind::Dmesg => HEAD,
        ZoneKind::Console => b"[    0.000000] Linux version 5.10.226\n",
        _ => b"service: started\n",
    };
    let rest = b"<6>[    1.234567] some driver: it says something\n"
        .iter()
        .cycle();
    head.iter().chain(rest).copied().take(len).collect()
}

prop_compose! {
    fn regions()(
        record_log in prop_oneof![1 => Just(None), 4 => (9u32..15).prop_map(Some)],
        console_log in prop_oneof![1 => Just(None), 4 => (8u32..15).prop_map(Some)],
        ftrace_log in prop_oneof![1 => Just(None), 4 => (12u32..16).prop_map(Some)],
        pmsg_log in prop_oneof![1 => Just(None), 4 => (8u32..15).prop_map(Some)],
        pages in 1usize..64,
        cpus in 1usize..9,
        ecc in prop::sample::select(&[0, 0, 0, 16, 16, 8, 4, 32, 21][..]),
        big in any::<bool>(),
        record_format in prop::sample::select(&RecordFormat::ALL[..]),
        zone_order in prop::sample::select(&ZoneOrder::ALL[..]),
        fills in prop::collection::vec(fills(), 1..20),
        before in prop_oneof![Just(None), any::<u64>().prop_map(Some)],
    ) -> Option<Region> {
        let size = |log: Option<u32>| log.map_or(0, |log| 1usize << log);
        let cpus = match record_format {
            RecordFormat::Arm32 => cpus.min(4),
            RecordFormat::Thumb32 => cpus.min(2),
            _ => cpus,
        };
        let params = Params {
            mem_size: pages * 4096,
            record_size: size(record_log),
            console_size: size(console_log),
            ftrace_size: size(ftrace_log),
            pmsg_size: size(pmsg_log),
            ecc,
            cpus,
            flags: FTRACE_PER_CPU,
            zone_order,
        };
        let layout = Layout::new(&params).ok()?;
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        Some(Region { layout, order, record_format, fills, before })
    }
}

/// Returns the zones whose kind, index, place or division differ.
fn wrong(found: &FoundRegion, region: &Region) -> Vec<Place> {
    let zones = region.layout.zones();
    zones
        .filter(|zone| !found.geometry.zones.contains(zone))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_zone_is_found_or_the_other_explanation_is_reported(
        region in regions().prop_filter_map("Linux refuses", |region| region),
        before in prop_oneof![Just(0usize), 0usize..10_000, Just(4096)],
        after in prop_oneof![Just(0usize), 0usize..10_000],
        around in prop_oneof![Just(None), any::<u64>().prop_map(Some)],
    ) {
        let image = region.image();
        let len = before + image.len() + after;
        let mut dump = around.map_or(vec![0; len], |seed| noise(len, seed));
        dump[before..][..image.len()].copy_from_slice(&image);
        let found = detect(&dump).found;
        if found.is_empty() {
            // A single zone shows nothing but its header.
            prop_assert!(region.layout.zones().count() == 1, "{:?}", region.layout.params());
            return Ok(());
        }
        let first = &found[0];
        let wrong = wrong(first, &region);
        let said = first.doubts.iter().any(|doubt| {
            doubt.contains("also possible") || doubt.contains("nothing shows")
        });
        let kinds = |kind| region.layout.zones_of(kind).count();
        let certain = kinds(ZoneKind::Console) > 0 && kinds(ZoneKind::Ftrace) > 1 && !region.fills.contains(&Fill::Nothing);
        let ok = if certain {
            let last = region.layout.zones().last();
            first.start == before as u64
                && (wrong.is_empty() || said && wrong.len() == 1 && wrong[..] == [last.unwrap()])
        } else {
            wrong.is_empty() && first.start == before as u64 || said
        };
        prop_assert!(
            ok,
            "at {:#x} {:x?}\nfound at {:#x} {:x?}\n{:?}\n{:#?}\n{:#?}",
            before, region.layout.params(), first.start, first.params, region.fills, first.why, first.doubts
        );
        let looks = region.fills.iter().all(|fill| matches!(fill, Fill::Round(_)));
        if certain && looks && region.layout.params().ecc == 0 {
            prop_assert_eq!(first.geometry.record_format, region.record_format, "{:?}", first);
        }
    }
}

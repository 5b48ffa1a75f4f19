//! Any broken region is read without a panic, and errors that parity can correct are corrected.

use crate::recordings as common;

use std::sync::LazyLock;

use common::Fixture;
use nostall_postmortem::{Content, Decoded, Geometry, Unpack};
use nostall_pstore::{BLOCK, ByteOrder, Division, HEADER, RecordFormat, Trust, Writer, ZoneKind};
use proptest::prelude::*;
use proptest::sample::{Index, select};

static ALL: LazyLock<Vec<Fixture>> = LazyLock::new(|| Fixture::all().collect());

fn length(content: &Content<'_>) -> usize {
    match content {
        Content::Dmesg(dmesg) => dmesg.text.bytes.len(),
        Content::Console(text) | Content::Pmsg(text) => text.bytes.len(),
        Content::Ftrace(traces) => traces.len() * 16,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_damage_is_handled_with_any_parameters(
        which in 0usize..8,
        noise in prop::collection::vec((any::<Index>(), any::<u8>()), 0..200),
        headers in prop::collection::vec((any::<Index>(), 0usize..HEADER, any::<u8>()), 0..20),
        len in any::<Index>(),
        parity in prop_oneof![Just(None), (0usize..=127).prop_map(Some)],
        record_format in select(&RecordFormat::ALL[..]),
        big in any::<bool>(),
        traces_per_cpu in any::<bool>(),
        data_first in any::<bool>(),
    ) {
        let fixture = &ALL[which];
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        let mut geometry = Geometry::of(&fixture.layout, order, record_format);
        let mut region = fixture.image.clone();
        for (at, byte) in noise {
            let at = at.index(region.len());
            region[at] = byte;
        }
        for (zone, at, byte) in headers {
            region[zone.get(&geometry.zones).offset + at] = byte;
        }
        if len.index(4) == 0 {
            region.truncate(len.index(region.len()));
        }
        if let Some(parity) = parity {
            geometry.parity = parity;
            geometry.zones.retain_mut(|place| {
                let division = Division::new(place.division.zone(), parity);
                division.map(|division| place.division = division).is_some()
            });
        }
        geometry.traces_per_cpu = traces_per_cpu;
        let writer = if data_first { Writer::DataFirst } else { Writer::HeaderFirst };
        let decoded = Decoded::new(&region, &geometry, writer, Unpack::ByTrying);
        let total: usize = decoded.records().map(|record| length(&record.content)).sum();
        prop_assert!(total <= region.len() * 16);
        let files = decoded.linux_files(None);
        prop_assert!(files.len() <= geometry.zones.len());
        for file in files {
            prop_assert!(file.write_to(&mut std::io::sink()).is_ok());
        }
    }

    #[test]
    fn up_to_eight_wrong_bytes_in_each_block_are_corrected(
        errors in prop::collection::vec(
            (any::<Index>(), prop::collection::vec((0usize..BLOCK, 1u8..), 1..=8)),
            1..60,
        ),
    ) {
        let fixture = ALL.iter().find(|fixture| fixture.name == "ecc16").unwrap();
        let geometry = Geometry::of(&fixture.layout, ByteOrder::Little, fixture.record_format);
        let mut region = fixture.image.clone();
        let place = geometry.zones_of(ZoneKind::Dmesg).next().unwrap();
        let mut blocks = std::collections::BTreeMap::new();
        for (block, bytes) in errors {
            blocks.insert(block.index(7600 / BLOCK - 1), bytes);
        }
        for (block, bytes) in &blocks {
            for (at, error) in bytes {
                region[place.offset + HEADER + block * BLOCK + at] ^= error;
            }
        }
        let decoded = Decoded::new(&region, &geometry, Writer::HeaderFirst, Unpack::ByTrying);
        let dmesg = decoded.records().next().unwrap();
        let Content::Dmesg(text) = &dmesg.content else { panic!() };
        let file = &fixture.files["dmesg-ramoops-0"];
        prop_assert!(file.starts_with(&text.text.bytes));
        prop_assert!(text.text.bytes.len() > 10_000);
        prop_assert!(matches!(dmesg.trust, Trust::Corrected(1..=8) | Trust::Verified));
        prop_assert_eq!(dmesg.ecc.unwrap().bad_blocks, 0);
    }
}

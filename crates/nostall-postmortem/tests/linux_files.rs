//! Records decoded from the recordings equal the files that Linux itself showed.

#[path = "../../nostall-pstore/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;

use common::Fixture;
use nostall_postmortem::decompress::Compression;
use nostall_postmortem::symbols::Symbols;
use nostall_postmortem::{Content, Decoded, Geometry, Packing, Unpack};
use nostall_pstore::{ByteOrder, Trust, Writer, ZoneKind};

fn geometry(fixture: &Fixture) -> Geometry {
    Geometry::of(&fixture.layout, ByteOrder::Little, fixture.record_format)
}

fn files(fixture: &Fixture) -> BTreeMap<String, Vec<u8>> {
    // The ARM kernel runs at its link address, so Linux could name its functions.
    let table = include_bytes!("../../nostall-pstore/tests/fixtures/System.map-armv7.gz");
    let symbols = (fixture.name == "armv7").then(|| Symbols::parse(table).unwrap());
    let geometry = geometry(fixture);
    let decoded = Decoded::new(
        &fixture.image,
        &geometry,
        Writer::HeaderFirst,
        Unpack::ByTrying,
    );
    let files = decoded
        .linux_files(symbols.as_ref())
        .into_iter()
        .map(|file| {
            let mut bytes = Vec::new();
            file.write_to(&mut bytes).unwrap();
            (file.name, bytes)
        });
    files.collect()
}

#[test]
fn the_files_equal_linuxs_byte_for_byte() {
    for fixture in Fixture::all() {
        let files = files(&fixture);
        let names: Vec<_> = files.keys().collect();
        assert_eq!(names, fixture.files.keys().collect::<Vec<_>>());
        for (name, bytes) in &files {
            assert!(*bytes == fixture.files[name], "{}: {name}", fixture.name);
        }
    }
}

#[test]
fn a_record_that_does_not_decompress_stays_as_it_is() {
    let fixture = Fixture::load("plain");
    let geometry = geometry(&fixture);
    for unpack in [Unpack::Not, Unpack::As(Compression::Zstd)] {
        let decoded = Decoded::new(&fixture.image, &geometry, Writer::HeaderFirst, unpack);
        assert_eq!(decoded.linux_files(None)[0].name, "dmesg-ramoops-0.enc.z");
    }
    let decoded = Decoded::new(&fixture.image, &geometry, Writer::HeaderFirst, Unpack::Not);
    let record = decoded.records().next().unwrap();
    let Content::Dmesg(dmesg) = &record.content else {
        panic!("{:?}", record.kind());
    };
    assert_eq!(dmesg.packing, Packing::Packed);
}

#[test]
fn decoded_records_have_the_contents_of_the_files_and_more() {
    for fixture in Fixture::all() {
        let geometry = geometry(&fixture);
        let decoded = Decoded::new(
            &fixture.image,
            &geometry,
            Writer::HeaderFirst,
            Unpack::ByTrying,
        );
        assert_eq!(decoded.zones().count(), geometry.zones.len());
        let kinds: Vec<_> = decoded.records().map(|record| record.kind()).collect();
        let all = [
            ZoneKind::Dmesg,
            ZoneKind::Console,
            ZoneKind::Ftrace,
            ZoneKind::Pmsg,
        ];
        let there = if fixture.name == "wrap" {
            &all[1..]
        } else {
            &all
        };
        assert_eq!(kinds, there);
        let ecc = geometry.parity > 0;
        for record in decoded.records() {
            assert_eq!(record.ecc.is_some(), ecc);
            let text = match &record.content {
                Content::Dmesg(dmesg) => {
                    assert!(dmesg.header.unwrap().seconds > 0);
                    &dmesg.text
                }
                Content::Console(text) | Content::Pmsg(text) => text,
                Content::Ftrace(traces) => {
                    assert!(traces.len() * fixture.record_format.len() <= record.stored);
                    assert_eq!(record.full, fixture.name == "wrap" || record.full);
                    continue;
                }
            };
            let file = &fixture.files[&format!("{}-ramoops-0", record.kind())];
            assert!(file.starts_with(&text.bytes));
            assert!(text.unverified.is_empty());
            assert_eq!(
                record.trust,
                if ecc {
                    Trust::Verified
                } else {
                    Trust::Unchecked
                }
            );
        }
    }
}

#[test]
fn the_many_trace_blocks_of_ecc16_without_correct_parity_are_reported() {
    let fixture = Fixture::load("ecc16");
    let geometry = geometry(&fixture);
    let decoded = Decoded::new(
        &fixture.image,
        &geometry,
        Writer::HeaderFirst,
        Unpack::ByTrying,
    );
    let traces = decoded
        .records()
        .find(|r| r.kind() == ZoneKind::Ftrace)
        .unwrap();
    assert_eq!(traces.trust, Trust::Unverified);
    let Content::Ftrace(traces) = &traces.content else {
        panic!();
    };
    // Yet the records are there: kernel addresses, two CPUs.
    let sound = traces
        .iter()
        .filter(|trace| trace.record.ip >> 40 == 0xff_ffff && trace.record.cpu < 2);
    assert!(sound.count() * 100 > traces.len() * 99);
}

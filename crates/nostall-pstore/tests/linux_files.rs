//! What is decoded from the recordings equals what Linux itself showed of them.

#![cfg(feature = "std")]

mod common;

use std::collections::BTreeMap;

use common::Fixture;
use nostall_pstore::{
    ByteOrder, Content, Decoded, Geometry, Kind, Packing, Trust, Writer, decompress, linux_files,
};

fn geometry(fixture: &Fixture) -> Geometry {
    Geometry::of(&fixture.layout, ByteOrder::Little, fixture.shape)
}

fn decompress(body: &[u8], most: usize) -> Option<(String, Vec<u8>)> {
    let (method, text) = decompress::find(body, most)?;
    Some((method.to_string(), text))
}

fn files(fixture: &Fixture) -> BTreeMap<String, Vec<u8>> {
    let files = linux_files(&fixture.image, &geometry(fixture), &decompress, &|_| None);
    files
        .into_iter()
        .map(|file| (file.name, file.bytes))
        .collect()
}

#[test]
fn the_files_are_linuxs_byte_for_byte() {
    for fixture in Fixture::all() {
        let files = files(&fixture);
        let names: Vec<_> = files.keys().collect();
        assert_eq!(names, fixture.files.keys().collect::<Vec<_>>());
        for (name, bytes) in &files {
            // Linux had the names of functions at hand: all columns but those.
            let strip = |bytes: &[u8]| match (fixture.name, name.as_str()) {
                ("armv7", "ftrace-ramoops-0") => without_names(bytes),
                _ => bytes.to_vec(),
            };
            let linux = &fixture.files[name];
            assert!(strip(bytes) == strip(linux), "{}: {name}", fixture.name);
        }
    }
}

fn without_names(lines: &[u8]) -> Vec<u8> {
    let lines = lines.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let ends = line.iter().enumerate().filter(|(_, byte)| **byte == b' ');
        let (fifth, _) = ends.map(|(at, b)| (at, *b)).nth(5).unwrap();
        &line[..fifth]
    });
    lines.collect::<Vec<_>>().join(&b'\n')
}

#[test]
fn a_record_that_does_not_decompress_stays_as_it_is() {
    let fixture = Fixture::load("plain");
    let geometry = geometry(&fixture);
    let files = linux_files(&fixture.image, &geometry, &|_, _| None, &|_| None);
    assert_eq!(files[0].name, "dmesg-ramoops-0.enc.z");
    let too_large = |_: &[u8], _| Some(("deflate".into(), vec![b'x'; 62_807]));
    let files = linux_files(&fixture.image, &geometry, &too_large, &|_| None);
    assert_eq!(files[0].name, "dmesg-ramoops-0.enc.z");
    let decoded = Decoded::new(&fixture.image, &geometry, Writer::HeaderFirst, &|_, _| None);
    let Content::Dmesg(dmesg) = &decoded.records[0].content else {
        panic!("{:?}", decoded.records[0].kind());
    };
    assert_eq!(dmesg.packing, Packing::Packed);
}

#[test]
fn decoded_records_are_what_is_in_the_files_and_say_more() {
    for fixture in Fixture::all() {
        let geometry = geometry(&fixture);
        let decoded = Decoded::new(&fixture.image, &geometry, Writer::HeaderFirst, &decompress);
        assert_eq!(decoded.zones.len(), geometry.zones.len());
        let kinds: Vec<_> = decoded.records.iter().map(|record| record.kind()).collect();
        let all = [Kind::Dmesg, Kind::Console, Kind::Ftrace, Kind::Pmsg];
        let there = if fixture.name == "wrap" {
            &all[1..]
        } else {
            &all
        };
        assert_eq!(kinds, there);
        let ecc = geometry.parity > 0;
        for record in &decoded.records {
            assert_eq!(record.ecc.is_some(), ecc);
            let text = match &record.content {
                Content::Dmesg(dmesg) => {
                    assert!(dmesg.header.unwrap().seconds > 0);
                    &dmesg.text
                }
                Content::Console(text) | Content::Pmsg(text) => text,
                Content::Ftrace(traces) => {
                    assert!(traces.len() * fixture.shape.len() <= record.stored);
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
fn in_ecc16_many_trace_blocks_never_agreed_with_their_parity_and_that_is_said() {
    let fixture = Fixture::load("ecc16");
    let geometry = geometry(&fixture);
    let decoded = Decoded::new(&fixture.image, &geometry, Writer::HeaderFirst, &decompress);
    let traces = decoded
        .records
        .iter()
        .find(|r| r.kind() == Kind::Ftrace)
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

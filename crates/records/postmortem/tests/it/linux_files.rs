//! Records decoded from the recordings equal the files that Linux itself showed.

use crate::recordings as common;

use std::collections::BTreeMap;

use common::Fixture;
use nostall_postmortem::decompress::Compression;
use nostall_postmortem::symbols::Symbols;
use nostall_postmortem::{Content, Decoded, Geometry, Packing, Unpack};
use nostall_pstore::{
    ByteOrder, Division, LinuxVersion, Place, Ram, RecordFormat, Trust, Writer, Zone, ZoneKind,
};

fn geometry(fixture: &Fixture) -> Geometry {
    Geometry::of(&fixture.layout, ByteOrder::Little, fixture.record_format)
}

fn files(fixture: &Fixture) -> BTreeMap<String, Vec<u8>> {
    // The ARM kernel runs at its link address, so Linux could name its functions.
    let table = include_bytes!("../../../../drivers/pstore/tests/fixtures/System.map-armv7.gz");
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

/// Returns a region of one zone of `len` bytes, which has a record with this compressed body.
fn one_record(len: usize, body: &[u8]) -> (Geometry, Vec<u8>) {
    let geometry = Geometry {
        zones: vec![Place {
            kind: ZoneKind::Dmesg,
            index: 0,
            offset: 0,
            division: Division::new(len, 0).unwrap(),
        }],
        parity: 0,
        order: ByteOrder::NATIVE,
        record_format: RecordFormat::Bits64,
        traces_per_cpu: true,
    };
    let mut region = vec![0; len];
    let memory = Ram::of(&mut region);
    let (mut zone, _) = Zone::attach(memory, ZoneKind::Dmesg, LinuxVersion(0), None).unwrap();
    zone.append(&[b"====1.000002-C\n", body].concat());
    (geometry, region)
}

#[test]
fn a_body_whose_first_byte_linux_skips_as_white_space_is_decompressed() {
    // Python's zlib.compressobj(9, zlib.DEFLATED, -15). Any short text with this start gives 0x0b.
    const BODY: [u8; 21] = [
        0x0b, 0x48, 0xcc, 0xcb, 0x4c, 0x56, 0x36, 0x54, 0x08, 0x48, 0x2c, 0x2a, 0x31, 0xe4, 0xb2,
        0x31, 0xb0, 0xab, 0xe0, 0x02, 0x00,
    ];
    let (geometry, region) = one_record(4096, &BODY);
    let decoded = Decoded::new(&region, &geometry, Writer::HeaderFirst, Unpack::ByTrying);
    let record = decoded.records().next().unwrap();
    let Content::Dmesg(dmesg) = &record.content else {
        panic!("{:?}", record.kind());
    };
    assert_eq!(dmesg.text.bytes, b"Panic#1 Part1\n<0>x\n");
    assert_eq!(dmesg.packing, Packing::Unpacked(Compression::Deflate));
    // Linux cannot decompress the rest of the body, and shows that.
    let file = &decoded.linux_files(None)[0];
    let mut bytes = Vec::new();
    file.write_to(&mut bytes).unwrap();
    assert_eq!(
        (&*file.name, &bytes[..]),
        ("dmesg-ramoops-0.enc.z", &BODY[1..])
    );
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

/// Returns a Zstandard frame of a text with `len` bytes: a raw block, and blocks of one byte (RFC
/// 8878, section 3.1.1.2).
fn zstd_text(len: u32) -> Vec<u8> {
    const LONGEST: u32 = 128 << 10;
    let start = b"Panic#1 Part1\n";
    let block = |size: u32, kind: u32, is_last: bool| {
        let header = u32::from(is_last) | kind << 1 | size << 3;
        header.to_le_bytes()[..3].to_vec()
    };
    let mut left = len - start.len() as u32;
    // A window of 128 KiB, and no size.
    let mut frame = [
        &b"\x28\xb5\x2f\xfd\x00\x38"[..],
        &block(14, 0, false),
        start,
    ]
    .concat();
    while left > 0 {
        let size = left.min(LONGEST);
        left -= size;
        frame.extend(block(size, 1, left == 0));
        frame.push(b'x');
    }
    frame
}

#[test]
fn a_text_of_more_than_64_mib_stays_compressed() {
    const MOST: u32 = 64 << 20;
    for (len, packing) in [
        (MOST, Packing::Unpacked(Compression::Zstd)),
        (MOST + 1, Packing::Packed),
    ] {
        let (geometry, region) = one_record(8 << 20, &zstd_text(len));
        let decoded = Decoded::new(&region, &geometry, Writer::HeaderFirst, Unpack::ByTrying);
        let record = decoded.records().next().unwrap();
        let Content::Dmesg(dmesg) = &record.content else {
            panic!("{:?}", record.kind());
        };
        assert_eq!(dmesg.packing, packing);
    }
}

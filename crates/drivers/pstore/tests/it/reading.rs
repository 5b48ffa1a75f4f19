//! Zones of crashed kernels: Linux's, and damaged ones.

use crate::common::Fixture;
use nostall_pstore::{
    BLOCK, ByteOrder, Code, CorrectionPolicy, Damage, Division, HEADER, LinuxVersion, Place,
    PreviousBootZone, Reader, RecordFormat, SIGNATURE, Trust, Writer, ZoneHeader, ZoneKind,
    ZoneState, recover,
};

fn contents(zone: &mut PreviousBootZone<'_, [u8]>) -> Vec<u8> {
    let mut all = vec![];
    while let Some((bytes, _)) = zone.chunk(all.len()) {
        all.extend_from_slice(bytes);
    }
    assert_eq!(all.len(), zone.len());
    all
}

fn code(fixture: &Fixture) -> Option<Code> {
    Code::new(fixture.layout.params().ecc)
}

#[test]
fn text_equals_linuxs_files() {
    for fixture in Fixture::all() {
        let code = code(&fixture);
        let recovered = recover(&fixture.image[..], &fixture.layout, code.as_ref());
        for kind in [ZoneKind::Console, ZoneKind::Pmsg] {
            let mut zone = recovered.zones_of(kind).next().unwrap();
            let mut text = contents(&mut zone);
            if code.is_some() {
                text.extend_from_slice(b"\nECC: No errors detected\n");
                assert_eq!(zone.ecc().unwrap().corrected_bytes, 0);
            }
            let file = &fixture.files[&format!("{kind}-ramoops-0")];
            assert!(text == *file, "{} {kind}", fixture.name);
        }
    }
}

#[test]
fn dmesg_records_start_with_a_time() {
    for fixture in Fixture::all().filter(|fixture| fixture.name != "wrap") {
        let code = code(&fixture);
        let recovered = recover(&fixture.image[..], &fixture.layout, code.as_ref());
        let mut dmesg = recovered.zones_of(ZoneKind::Dmesg).next().unwrap();
        assert_eq!(dmesg.state(), ZoneState::Valid);
        let (header, at) = dmesg.dmesg_header().unwrap();
        assert!(header.seconds > 0, "{header:?}");
        assert_eq!(dmesg.chunk(0).unwrap().0[at - 1], b'\n');
        assert_eq!(
            header.compressed,
            fixture.name != "nocompress",
            "{}",
            fixture.name
        );
    }
}

#[test]
fn merged_traces_equal_linuxs_output() {
    for fixture in Fixture::all() {
        let recovered = recover(&fixture.image[..], &fixture.layout, None);
        let merged = recovered.traces::<4>(fixture.record_format).unwrap();
        let merged: Vec<_> = merged.collect();
        assert!(merged.iter().all(|trace| trace.trust == Trust::Unchecked));
        let zones = recovered.zones_of(ZoneKind::Ftrace);
        let zones = zones
            .filter(|zone| zone.state() == ZoneState::Valid)
            .count();
        let suspects = merged.iter().filter(|trace| trace.suspect).count();
        assert!((zones..=2 * zones).contains(&suspects));
        if fixture.layout.params().ecc > 0 {
            continue; // Linux's own output is shifted in this recording.
        }
        let file = &fixture.files["ftrace-ramoops-0"];
        let lines: Vec<_> = std::str::from_utf8(file).unwrap().lines().collect();
        assert_eq!(lines.len(), merged.len(), "{}", fixture.name);
        for (line, trace) in lines.iter().zip(&merged) {
            let (record, ip) = (trace.record, fixture.record_format.raw_ip(&trace.record));
            let start = format!(
                "CPU:{} ts:{} {ip:08x}  {:08x}  ",
                record.cpu, record.stamp, record.parent
            );
            assert!(line.starts_with(&start), "{}: {line} {start}", fixture.name);
        }
    }
}

#[test]
fn too_many_trace_zones_are_refused() {
    let fixture = Fixture::load("wrap");
    let recovered = recover(&fixture.image[..], &fixture.layout, None);
    assert!(recovered.traces::<2>(fixture.record_format).is_none());
    let three = recovered
        .traces::<3>(fixture.record_format)
        .unwrap()
        .count();
    assert_eq!(
        recovered
            .traces::<9>(fixture.record_format)
            .unwrap()
            .count(),
        three
    );
}

#[test]
fn a_trace_zone_identifies_the_kernels_version() {
    let fixture = Fixture::load("plain");
    for zone in recover(&fixture.image[..], &fixture.layout, None).zones() {
        let traces = zone.place().kind == ZoneKind::Ftrace;
        assert_eq!(
            zone.version(),
            traces.then_some(LinuxVersion::new(6, 1, 192))
        );
    }
}

/// A hand-made zone.
struct Made {
    memory: Vec<u8>,
    place: Place,
    code: Code,
}

impl Made {
    fn new(kind: ZoneKind, parity: usize, start: u32, size: u32, data: &[u8]) -> Self {
        let place = Place {
            kind,
            index: 0,
            offset: 6,
            division: Division::new(0x1000, parity).unwrap(),
        };
        let mut made = Self {
            memory: vec![0x55; 0x1006],
            place,
            code: Code::new(parity).unwrap(),
        };
        made.header(start, size);
        let from = 6 + HEADER;
        made.memory[from..from + place.division.data()].fill(0);
        made.memory[from..from + data.len()].copy_from_slice(data);
        for block in 0..place.division.blocks() {
            let at = from + block * BLOCK;
            let len = place.division.block_len(block);
            let (data, parity) = made
                .memory
                .split_at_mut(6 + place.division.block_parity(block));
            made.code.encode(&data[at..at + len], parity);
        }
        let (header, parity) = made.memory.split_at_mut(6 + place.division.header_parity());
        made.code.encode(&header[6..from], parity);
        made
    }

    /// Writes the header without its parity.
    fn header(&mut self, start: u32, size: u32) {
        let header = ZoneHeader {
            signature: SIGNATURE,
            start,
            size,
        };
        self.memory[6..6 + HEADER].copy_from_slice(&header.encode(ByteOrder::NATIVE));
    }

    fn open(&self) -> PreviousBootZone<'_, [u8]> {
        Reader::careful(Some(&self.code)).open(&self.memory, self.place)
    }

    fn faithful(&self) -> PreviousBootZone<'_, [u8]> {
        let reader = Reader {
            policy: CorrectionPolicy::Faithful,
            ..Reader::careful(Some(&self.code))
        };
        reader.open(&self.memory, self.place)
    }
}

#[test]
fn a_flipped_bit_is_corrected_and_counted_and_the_memory_is_unchanged() {
    let text: Vec<u8> = (0..2000).map(|i| i as u8).collect();
    let mut made = Made::new(ZoneKind::Console, 16, 2000, 2000, &text);
    made.memory[6 + HEADER + 5] ^= 0x40;
    made.memory[7] ^= 1;
    let before = made.memory.clone();
    for mut zone in [made.open(), made.faithful()] {
        assert_eq!(zone.header_trust(), Trust::Corrected(1));
        let (bytes, trust) = zone.chunk(0).unwrap();
        assert_eq!((bytes, trust), (&text[..BLOCK], Trust::Corrected(1)));
        assert_eq!(contents(&mut zone), text);
        let ecc = zone.ecc().unwrap();
        assert_eq!(
            (ecc.blocks, ecc.corrected_bytes, ecc.bad_blocks),
            (17, 2, 0)
        );
    }
    assert_eq!(made.memory, before);
}

#[test]
fn at_the_write_position_few_parity_bytes_correct_nothing() {
    let text = [b'x'; 3000];
    for (parity, repaired) in [(8, false), (16, true)] {
        let data = Division::new(0x1000, parity).unwrap().data();
        let mut made = Made::new(ZoneKind::Ftrace, parity, 1400, data as u32, &text);
        made.memory[6 + HEADER + 1410] = b'y';
        made.memory[6 + HEADER + 100] = b'y';
        let mut zone = made.open();
        let mut byte = [0];
        let trust = zone.read(data - 1400 + 100, &mut byte).unwrap();
        assert_eq!((trust, byte), (Trust::Corrected(1), [b'x']));
        let trust = zone.read(10, &mut byte).unwrap();
        let expected = if repaired { b'x' } else { b'y' };
        assert_eq!((trust, byte), (Trust::Unverified, [expected]));
    }
}

#[test]
fn a_header_ahead_of_its_parity_is_accepted() {
    for parity in [2, 16] {
        let text = [b'x'; 200];
        let mut made = Made::new(ZoneKind::Console, parity, 100, 100, &text);
        made.header(140, 140);
        let zone = made.open();
        assert_eq!(zone.len(), 140);
        assert_eq!(zone.header_trust(), Trust::Unverified);
    }
    // An impossible header is not accepted.
    let mut made = Made::new(ZoneKind::Console, 16, 100, 100, b"x");
    made.header(140, 100);
    assert_eq!(made.open().len(), 100);
}

#[test]
fn a_power_loss_between_size_and_start_keeps_the_order_but_linux_changes_it() {
    let made = Made::new(ZoneKind::Console, 16, 4, 8, b"abcdefgh");
    assert_eq!(contents(&mut made.open()), b"abcdefgh");
    assert_eq!(contents(&mut made.faithful()), b"efghabcd");
}

#[test]
fn a_full_ring_starts_with_its_oldest_byte() {
    let data = Division::new(0x1000, 16).unwrap().data();
    let bytes: Vec<u8> = (0..data).map(|i| (i / 7) as u8).collect();
    let made = Made::new(ZoneKind::Pmsg, 16, 1000, data as u32, &bytes);
    let turned = [&bytes[1000..], &bytes[..1000]].concat();
    assert_eq!(contents(&mut made.open()), turned);
    assert_eq!(contents(&mut made.faithful()), turned);
}

#[test]
fn the_oldest_record_of_a_full_ring_is_suspect_and_is_linuxs_newest() {
    let data = Division::new(0x1000, 16).unwrap().data();
    for (size, writer, suspects) in [
        (240, Writer::DataFirst, vec![]),
        (240, Writer::HeaderFirst, vec![9]),
        (data as u32, Writer::DataFirst, vec![0]),
        (data as u32, Writer::HeaderFirst, vec![0, data / 24 - 1]),
    ] {
        let made = Made::new(ZoneKind::Ftrace, 16, 240, size, &[7; 100]);
        let reader = Reader {
            writer,
            ..Reader::careful(Some(&made.code))
        };
        let traces = reader
            .open(&made.memory[..], made.place)
            .traces(RecordFormat::Bits64);
        assert_eq!(traces.len(), size as usize / 24);
        let marked = traces.enumerate().filter(|(_, trace)| trace.suspect);
        assert_eq!(marked.map(|(at, _)| at).collect::<Vec<_>>(), suspects);
    }
}

#[test]
fn trace_records_at_other_positions_than_the_headers_are_unverified() {
    for fixture in Fixture::all() {
        let ecc = code(&fixture);
        let reader = Reader::careful(ecc.as_ref());
        let traces = |image: &[u8], place| {
            let traces = reader.open(image, place).traces(fixture.record_format);
            let misaligned = traces.misaligned();
            let unverified = traces.filter(|trace| trace.trust == Trust::Unverified);
            (misaligned, unverified.count())
        };
        let places = fixture.layout.zones_of(ZoneKind::Ftrace);
        let places: Vec<_> = places
            .filter(|place| !reader.open(&fixture.image[..], *place).is_empty())
            .collect();
        assert!(!places.is_empty());
        for place in places {
            let header = |image: &[u8]| {
                ZoneHeader::decode(*image[place.offset..].first_chunk().unwrap(), reader.order)
            };
            let (right, len) = (header(&fixture.image), fixture.record_format.len());
            let (none, few) = traces(&fixture.image, place);
            assert_eq!(none, None, "{}", fixture.name);
            let count = right.size as usize / len;
            // A full ring, with each bit of its start flipped.
            if right.size as usize != place.division.data() {
                continue;
            }
            for bit in 0..20 {
                let start = right.start ^ 1 << bit;
                if start > right.size {
                    continue;
                }
                let mut image = fixture.image.clone();
                let bad = ZoneHeader { start, ..right };
                image[place.offset..][..HEADER].copy_from_slice(&bad.encode(reader.order));
                let (misaligned, unverified) = traces(&image, place);
                if ecc.is_some() {
                    // The flip was corrected.
                    assert_eq!((misaligned, unverified), (None, few), "{}", fixture.name);
                } else if bit < 4 || len == 24 {
                    let what = format!("{} CPU {}, bit {bit}", fixture.name, place.index);
                    assert!(misaligned.is_some(), "{what}");
                    assert_eq!(unverified, count, "{what}");
                }
            }
        }
    }
}

/// Without high address bits, the start of a record is less clear.
#[test]
fn trace_records_of_a_kernel_at_low_addresses_do_not_count_as_misaligned() {
    for record_format in [RecordFormat::Bits64, RecordFormat::Bits32] {
        let records: Vec<u8> = (0..32_u64)
            .flat_map(|call| {
                let (parent, stamp) = (0x12_b000 + 0x40 * call, 0x8c_4a00_0000 + 50 * call);
                match record_format {
                    RecordFormat::Bits64 => [parent + 0x20, parent, stamp << 8 | 1]
                        .map(u64::to_le_bytes)
                        .concat(),
                    _ => [parent << 32 | (parent + 0x20), stamp << 8 | 1]
                        .map(u64::to_le_bytes)
                        .concat(),
                }
            })
            .collect();
        let size = records.len() as u32;
        let header = ZoneHeader {
            signature: SIGNATURE,
            start: size,
            size,
        };
        let mut memory = [&header.encode(ByteOrder::Little)[..], &records].concat();
        memory.resize(0x1000, 0);
        let division = Division::new(0x1000, 0).unwrap();
        let place = Place {
            kind: ZoneKind::Ftrace,
            index: 0,
            offset: 0,
            division,
        };
        let reader = Reader {
            order: ByteOrder::Little,
            ..Reader::careful(None)
        };
        let traces = reader.open(&memory[..], place).traces(record_format);
        assert_eq!(traces.misaligned(), None, "{record_format}");
        assert_eq!(
            traces
                .filter(|trace| trace.trust == Trust::Unchecked)
                .count(),
            32
        );
    }
}

#[test]
fn an_unreadable_zone_gives_the_reason() {
    let mut made = Made::new(ZoneKind::Console, 16, 0, 0, b"");
    assert_eq!(made.open().state(), ZoneState::Empty);
    made.header(9, 8);
    made.memory.truncate(0x1005);
    let outside = ZoneState::Damaged(Damage::Outside);
    assert_eq!(made.open().state(), outside);
    let noise = vec![0xff; 0x1006];
    for kind in [ZoneKind::Console, ZoneKind::Ftrace] {
        let place = Place { kind, ..made.place };
        for code in [None, Some(&made.code)] {
            let mut zone = Reader::careful(code).open(&noise[..], place);
            let foreign = ZoneState::Damaged(Damage::Signature(u32::MAX));
            assert_eq!(zone.state(), foreign);
            assert_eq!(zone.chunk(0), None);
        }
    }
}

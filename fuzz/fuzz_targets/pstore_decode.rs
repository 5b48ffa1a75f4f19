//! Decodes arbitrary regions with arbitrary divisions into zones: no panic, no hang and no
//! growth.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nostall_postmortem::{Content, Decoded, Geometry, Unpack};
use nostall_pstore::{ByteOrder, FTRACE_PER_CPU, Layout, Params, RecordFormat, Writer, ZoneOrder};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    sizes: [u16; 4],
    more: u16,
    ecc: u8,
    cpus: u8,
    per_cpu: bool,
    pmsg_first: bool,
    big_endian: bool,
    data_first: bool,
    record_format: u8,
    /// Headers at the starts of zones: start, size, whether the signature is right.
    headers: Vec<(u16, u16, bool)>,
    region: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let [record_size, console_size, ftrace_size, pmsg_size] = input.sizes.map(usize::from);
    let params = Params {
        mem_size: input.region.len() + usize::from(input.more),
        record_size,
        console_size,
        ftrace_size,
        pmsg_size,
        ecc: input.ecc.into(),
        cpus: input.cpus.into(),
        flags: if input.per_cpu { FTRACE_PER_CPU } else { 0 },
        zone_order: ZoneOrder::ALL[usize::from(input.pmsg_first)],
    };
    let Ok(layout) = Layout::new(&params) else {
        return;
    };
    let order = if input.big_endian {
        ByteOrder::Big
    } else {
        ByteOrder::Little
    };
    let record_format =
        RecordFormat::ALL[usize::from(input.record_format) % RecordFormat::ALL.len()];
    let geometry = Geometry::of(&layout, order, record_format);

    let mut region = input.region.to_vec();
    for (place, (start, size, signed)) in geometry.zones.iter().zip(input.headers) {
        let header = nostall_pstore::ZoneHeader {
            signature: nostall_pstore::SIGNATURE ^ u32::from(!signed),
            start: start.into(),
            size: size.into(),
        };
        if let Some(to) = region.get_mut(place.offset..place.offset + nostall_pstore::HEADER) {
            to.copy_from_slice(&header.encode(order));
        }
    }
    let writer = if input.data_first {
        Writer::DataFirst
    } else {
        Writer::HeaderFirst
    };
    let decoded = Decoded::new(&region, &geometry, writer, Unpack::ByTrying);
    assert_eq!(decoded.zones().count(), geometry.zones.len());
    let bytes = decoded.records().map(|record| match record.content {
        Content::Dmesg(dmesg) => dmesg.text.bytes.len(),
        Content::Console(text) | Content::Pmsg(text) => text.bytes.len(),
        Content::Ftrace(calls) => calls.len() * record_format.len(),
    });
    assert!(bytes.sum::<usize>() <= 16 * region.len());
    let files = decoded.linux_files(None);
    assert!(files.len() <= geometry.zones.len());
    for file in files {
        assert!(file.write_to(&mut std::io::sink()).is_ok());
    }
});

//! The files that Linux itself would show in `/sys/fs/pstore`, byte for byte.
//!
//! Source: Linux 6.1, `fs/pstore/ram.c` (`ramoops_pstore_read`),
//! `fs/pstore/platform.c` (`decompress_record`), `fs/pstore/inode.c`.

use std::boxed::Box;
use std::format;
use std::io::Write;
use std::string::{String, ToString};
use std::vec::Vec;

use crate::code::Code;
use crate::decode::Unpack;
use crate::decompress::Compression;
use crate::dmesg::longest_deflated;
use crate::format::Kind;
use crate::geometry::Geometry;
use crate::layout::Place;
use crate::read::{Ecc, Merge, OldZone, Policy, Reader, Writer};
use crate::symbols::{Symbol, Symbols};
use crate::trace::{Shape, TraceRecord};

/// A file as Linux would show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinuxFile {
    /// Its name: `dmesg-ramoops-0`.
    pub name: String,
    /// Its time of modification, in seconds since 1970, if it has one of its own.
    pub seconds: Option<i64>,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// The files that Linux 6.1 shows of a region: the next boot's kernel being of the
/// version that wrote, with the same parameters, and the compression that `unpack`
/// says. It knows the names of functions if it is the very same kernel, loaded at the
/// same address: `symbols`.
///
/// That includes what Linux does not do well. Zones with parity have a notice at the
/// end, the trace's as well: its records are then read from total size modulo record
/// size on, which is in the middle of one. An empty dmesg record ends all. And of
/// zones in disorder there is nothing. To know what is really in a region use
/// [`Decoded`](crate::Decoded).
pub fn linux_files(
    region: &[u8],
    geometry: &Geometry,
    unpack: Unpack,
    symbols: Option<&Symbols>,
) -> Vec<LinuxFile> {
    let code = Code::new(geometry.parity).map(Box::new);
    let reader = Reader {
        code: code.as_deref(),
        order: geometry.order,
        policy: Policy::Faithful,
        writer: Writer::HeaderFirst,
    };
    let open = |place: &Place| reader.open(region, *place);
    let zones_of = |kind| {
        let zones = geometry.zones_of(kind).map(open);
        zones.filter(|zone| !zone.is_empty())
    };
    // All records' buffers are made by the first one's size.
    let first = geometry.zones_of(Kind::Dmesg).next();
    let record_size = first.map_or(0, |place| place.division.data());

    let mut files = Vec::new();
    for mut zone in zones_of(Kind::Dmesg) {
        let Some((header, at)) = zone.dmesg_header() else {
            continue;
        };
        let mut bytes = contents(&mut zone, at);
        if bytes.is_empty() {
            // Linux takes this for the end.
            return files;
        }
        let mut extension = "";
        if header.compressed {
            match unpacked(&bytes, record_size, unpack) {
                Some(text) => bytes = text,
                None => extension = ".enc.z",
            }
        }
        bytes.extend(notice(zone.ecc()));
        files.push(LinuxFile {
            name: format!("dmesg-ramoops-{}{extension}", zone.place().index),
            seconds: Some(header.seconds).filter(|&seconds| seconds != 0),
            bytes,
        });
    }
    for kind in [Kind::Console, Kind::Pmsg] {
        files.extend(zones_of(kind).take(1).map(|mut zone| {
            let mut bytes = contents(&mut zone, 0);
            bytes.extend(notice(zone.ecc()));
            file(kind, bytes)
        }));
    }
    files.extend(trace(zones_of(Kind::Ftrace).collect(), geometry, symbols));
    files
}

fn file(kind: Kind, bytes: Vec<u8>) -> LinuxFile {
    LinuxFile {
        name: format!("{kind}-ramoops-0"),
        seconds: None,
        bytes,
    }
}

fn contents(zone: &mut OldZone<'_, [u8]>, mut at: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(zone.len());
    while let Some((bytes, _)) = zone.chunk(at) {
        all.extend_from_slice(bytes);
        at += bytes.len();
    }
    all
}

fn notice(ecc: Option<Ecc>) -> Vec<u8> {
    match ecc {
        None => Vec::new(),
        Some(Ecc {
            corrected_bytes: 0,
            bad_blocks: 0,
            ..
        }) => b"\nECC: No errors detected\n".to_vec(),
        Some(Ecc {
            corrected_bytes,
            bad_blocks,
            ..
        }) => {
            format!("\nECC: {corrected_bytes} Corrected bytes, {bad_blocks} unrecoverable blocks\n")
                .into_bytes()
        }
    }
}

/// The text, if Linux's buffer for it is large enough.
fn unpacked(body: &[u8], record_size: usize, unpack: Unpack) -> Option<Vec<u8>> {
    let all = Compression::ALL.map(|method| buffer(method, record_size));
    let (method, text) = unpack.unpack(body, all.into_iter().max()?)?;
    (text.len() <= buffer(method, record_size)).then_some(text)
}

/// Bytes of the buffer that Linux decompresses to, by the size of a record:
/// `zbufsize` in `fs/pstore/platform.c`.
fn buffer(method: Compression, record_size: usize) -> usize {
    let n = record_size as u64;
    let bytes = match method {
        Compression::Lz4 => n + n / 255 + 16,
        Compression::Lzo => n + n / 16 + 64 + 3 + 2,
        Compression::Zstd => n + n / 256 + (128 * 1024_u64).saturating_sub(n) / 2048,
        Compression::Deflate => return longest_deflated(record_size),
    };
    bytes.try_into().unwrap_or(usize::MAX)
}

/// The trace of all CPUs, as lines.
fn trace(
    zones: Vec<OldZone<'_, [u8]>>,
    geometry: &Geometry,
    symbols: Option<&Symbols>,
) -> Option<LinuxFile> {
    let shape = geometry.shape;
    let mut ecc = None;
    let mut records = Vec::new();
    if geometry.traces_per_cpu {
        let mut heads = Vec::new();
        for mut zone in zones {
            ecc = zone.ecc().map(|more| more.plus(ecc.unwrap_or_default()));
            heads.push(zone.traces(shape).peekable());
        }
        for trace in Merge::new(&mut heads[..]) {
            let bytes = shape.encode(&trace.record, geometry.order);
            records.extend_from_slice(&bytes[..shape.len()]);
        }
    } else {
        let mut zone = zones.into_iter().next()?;
        ecc = zone.ecc();
        records = contents(&mut zone, 0);
    }
    if records.is_empty() {
        return None;
    }
    records.extend(notice(ecc));
    let aligned = &records[records.len() % shape.len()..];
    let mut lines = Vec::with_capacity(aligned.len() * 4);
    for bytes in aligned.chunks_exact(shape.len()) {
        let record = shape.decode(bytes, geometry.order)?;
        // Memory takes all.
        let _ = writeln!(lines, "{}", line(shape, &record, symbols));
    }
    Some(file(Kind::Ftrace, lines))
}

/// A trace record as Linux prints it.
pub fn line(shape: Shape, record: &TraceRecord, symbols: Option<&Symbols>) -> String {
    let (cpu, stamp, parent) = (record.cpu, record.stamp, record.parent);
    let ip = shape.raw_ip(record);
    let symbol = |address| symbols.and_then(|symbols| symbols.lookup(address));
    let function = match symbol(ip) {
        Some(Symbol {
            name,
            module: Some(module),
            ..
        }) => format!("{name} [{module}]"),
        Some(symbol) => symbol.name.into(),
        None => format!("{ip:#x}"),
    };
    let caller = match symbol(parent) {
        Some(symbol) => symbol.to_string(),
        None => format!("{parent:#x}"),
    };
    format!("CPU:{cpu} ts:{stamp} {ip:08x}  {parent:08x}  {function} <- {caller}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compress::deflate_raw;

    #[test]
    fn the_buffer_has_the_size_that_linux_gives_it() {
        for (method, record, size) in [
            (Compression::Deflate, 0x9326, 62_783),
            (Compression::Deflate, 4084, 9075),
            (Compression::Deflate, 1, 1),
            (Compression::Lz4, 510, 528),
            (Compression::Zstd, 131_072, 131_584),
            (Compression::Zstd, 0, 64),
            (Compression::Lzo, 32, 103),
        ] {
            assert_eq!(buffer(method, record), size);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow, and no unsafe code of ours")]
    fn what_does_not_fit_linuxs_buffer_stays_compressed() {
        let mut text = b"Panic#1 Part1\n".to_vec();
        text.resize(9075, b'x');
        let unpack = |text: &[u8]| unpacked(&deflate_raw(text), 4084, Unpack::ByTrying);
        assert_eq!(unpack(&text), Some(text.clone()));
        text.push(b'x');
        assert_eq!(unpack(&text), None);
    }
}

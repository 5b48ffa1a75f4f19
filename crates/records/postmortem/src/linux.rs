//! The files that Linux itself would show in `/sys/fs/pstore`, byte for byte.
//!
//! Source: Linux 6.1, `fs/pstore/ram.c` (`ramoops_pstore_read`),
//! `fs/pstore/platform.c` (`decompress_record`), `fs/pstore/inode.c`.

use std::format;
use std::io::{self, Write};
use std::ops::Range;
use std::string::{String, ToString};
use std::vec::Vec;

use crate::decode::{Decoded, Text, Unpack, mark, unsettled};
use crate::decompress::Compression;
use crate::geometry::Geometry;
use crate::symbols::{Symbol, Symbols};
use nostall_pstore::longest_deflated;
use nostall_pstore::{ByteOrder, ZoneKind};
use nostall_pstore::{CorrectionPolicy, Ecc, Merge, PreviousBootZone, Trust};
use nostall_pstore::{LONGEST_TRACE, RecordFormat, TraceRecord};

/// A file as Linux would show it.
#[derive(Clone, Debug)]
pub struct LinuxFile<'a> {
    /// File name, such as `dmesg-ramoops-0`.
    pub name: String,
    /// Modification time in seconds since 1970, if the record has one.
    pub seconds: Option<i64>,
    contents: Contents<'a>,
}

#[derive(Clone, Debug)]
enum Contents<'a> {
    Text(Text, Trust),
    Trace(LinuxTrace<'a>),
}

/// Trust level of a file's bytes, which the file itself does not contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileTrust {
    /// Lowest trust level of the bytes.
    pub trust: Trust,
    /// Unverified ranges, in order.
    pub unverified: Vec<Range<usize>>,
}

impl Decoded<'_> {
    /// Returns the files that Linux 6.1 shows for the region. This assumes that the next boot's
    /// kernel has the version, parameters and compression of the writing kernel. `symbols` provides
    /// function names, if that kernel is identical and is loaded at the same address.
    ///
    /// The result reproduces Linux's faults:
    ///
    /// - Zones with parity end with a notice, including the trace's. Trace records are then read
    ///   from an offset of total size modulo record size, in the middle of a record.
    /// - White space after a dmesg record's first line is skipped, even if it is the start of a
    ///   compressed body. The rest of the body cannot be decompressed then.
    /// - An empty dmesg record ends the list.
    /// - Inconsistent zones have no file.
    /// - Bytes that failed error correction are shown; [`LinuxFile::write_to`] reports them.
    ///
    /// For the actual contents of a region use [`records`](Self::records).
    pub fn linux_files<'s>(&'s self, symbols: Option<&'s Symbols>) -> Vec<LinuxFile<'s>> {
        let zones_of = |kind| self.filled(CorrectionPolicy::Faithful, kind);
        // Linux sizes all records' buffers by the first record.
        let first = self.geometry.zones_of(ZoneKind::Dmesg).next();
        let record_size = first.map_or(0, |place| place.division.data());

        let mut files = Vec::new();
        for mut zone in zones_of(ZoneKind::Dmesg) {
            let Some((header, at)) = zone.dmesg_header() else {
                continue;
            };
            let (whole, trust) = contents(&mut zone);
            let body = whole.bytes.iter().skip(at);
            let at = at + body.take_while(|byte| is_space(**byte)).count();
            let is_headed = whole
                .unverified
                .first()
                .is_none_or(|failed| failed.start >= at);
            let mut text = whole.without_first(at);
            if text.bytes.is_empty() {
                // Linux treats this as the end of the records.
                return files;
            }
            let mut extension = "";
            if header.compressed {
                match unpacked(&text.bytes, record_size, self.unpack) {
                    Some((method, bytes)) => {
                        let sure = text
                            .unverified
                            .first()
                            .map_or(text.bytes.len(), |f| f.start);
                        let head = if is_headed { sure } else { 0 };
                        let unverified = unsettled(self.unpack, method, &text.bytes, head, &bytes);
                        text = Text { bytes, unverified };
                    }
                    None => extension = ".enc.z",
                }
            }
            text.bytes.extend(notice(zone.ecc()));
            files.push(LinuxFile {
                name: format!("dmesg-ramoops-{}{extension}", zone.place().index),
                seconds: Some(header.seconds).filter(|&seconds| seconds != 0),
                contents: Contents::Text(text, trust),
            });
        }
        for kind in [ZoneKind::Console, ZoneKind::Pmsg] {
            files.extend(zones_of(kind).take(1).map(|mut zone| {
                let (mut text, trust) = contents(&mut zone);
                text.bytes.extend(notice(zone.ecc()));
                LinuxFile::named(kind, Contents::Text(text, trust))
            }));
        }
        let trace = LinuxTrace {
            decoded: self,
            symbols,
        };
        files.extend(
            (trace.len() > 0).then(|| LinuxFile::named(ZoneKind::Ftrace, Contents::Trace(trace))),
        );
        files
    }
}

impl LinuxFile<'_> {
    fn named(kind: ZoneKind, contents: Contents<'_>) -> LinuxFile<'_> {
        LinuxFile {
            name: format!("{kind}-ramoops-0"),
            seconds: None,
            contents,
        }
    }

    /// Writes the file's bytes, and returns their trust level. A trace is read and printed at the
    /// same time, so that a large one needs no more memory.
    ///
    /// # Errors
    ///
    /// The error of `out`.
    pub fn write_to(&self, out: &mut (impl Write + ?Sized)) -> io::Result<FileTrust> {
        match &self.contents {
            Contents::Text(text, trust) => {
                out.write_all(&text.bytes)?;
                Ok(FileTrust {
                    trust: *trust,
                    unverified: text.unverified.clone(),
                })
            }
            Contents::Trace(trace) => trace.write_to(out),
        }
    }
}

/// Returns the whole contents of a zone.
fn contents(zone: &mut PreviousBootZone<'_, [u8]>) -> (Text, Trust) {
    let mut all = Text::default();
    let mut worst = Trust::Verified;
    while let Some((bytes, trust)) = zone.chunk(all.bytes.len()) {
        all.push(bytes, trust);
        worst = worst.max(trust);
    }
    (all, worst)
}

/// Returns whether Linux's `isspace` includes this byte (`lib/ctype.c`).
const fn is_space(byte: u8) -> bool {
    matches!(byte, 9..=13 | 32 | 160)
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

/// Returns the decompressed text, if it fits into Linux's buffer.
fn unpacked(body: &[u8], record_size: usize, unpack: Unpack) -> Option<(Compression, Vec<u8>)> {
    let all = Compression::ALL.map(|method| buffer(method, record_size));
    let unpacked = unpack.unpack(body, all.into_iter().max()?)?;
    let (method, text) = &unpacked;
    (text.len() <= buffer(*method, record_size)).then_some(unpacked)
}

/// Returns the size of Linux's buffer for decompression, for this record size (`zbufsize` in
/// `fs/pstore/platform.c`).
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

/// The trace of all CPUs, as text lines.
#[derive(Clone, Debug)]
struct LinuxTrace<'a> {
    decoded: &'a Decoded<'a>,
    symbols: Option<&'a Symbols>,
}

impl<'a> LinuxTrace<'a> {
    /// Returns the trace zones. Linux reads more than the first only if each belongs to one CPU.
    fn zones(&self) -> impl Iterator<Item = PreviousBootZone<'a, [u8]>> + use<'a> {
        let geometry = self.decoded.geometry;
        let most = if geometry.traces_per_cpu {
            usize::MAX
        } else {
            1
        };
        let zones = self
            .decoded
            .filled(CorrectionPolicy::Faithful, ZoneKind::Ftrace);
        zones.take(most)
    }

    /// Returns the number of bytes of records.
    fn len(&self) -> usize {
        let geometry = self.decoded.geometry;
        let unit = if geometry.traces_per_cpu {
            geometry.record_format.len()
        } else {
            1
        };
        self.zones().map(|zone| zone.len() / unit * unit).sum()
    }

    fn write_to(&self, out: &mut (impl Write + ?Sized)) -> io::Result<FileTrust> {
        let Geometry {
            record_format,
            order,
            traces_per_cpu,
            ..
        } = *self.decoded.geometry;
        let ecc = self.zones().filter_map(|mut zone| zone.ecc());
        let notice = notice(ecc.reduce(Ecc::plus));
        let mut lines = Lines {
            record_format,
            order,
            symbols: self.symbols,
            out,
            skip: (self.len() + notice.len()) % record_format.len(),
            held: [0; LONGEST_TRACE],
            len: 0,
            trust: Trust::Verified,
            written: 0,
            file_trust: FileTrust {
                trust: Trust::Verified,
                unverified: Vec::new(),
            },
        };
        if traces_per_cpu {
            let heads: Vec<_> = self
                .zones()
                .map(|zone| zone.traces(record_format).peekable())
                .collect();
            for trace in Merge::new(heads) {
                let bytes = record_format.encode(&trace.record, order);
                lines.push(&bytes[..record_format.len()], trace.trust)?;
            }
        } else {
            for mut zone in self.zones() {
                let mut at = 0;
                while let Some((bytes, trust)) = zone.chunk(at) {
                    lines.push(bytes, trust)?;
                    at += bytes.len();
                }
            }
        }
        // Linux reads part of the notice as a record.
        lines.push(&notice, Trust::Unverified)?;
        Ok(lines.file_trust)
    }
}

/// Converts bytes to lines, one per record.
struct Lines<'l, W: ?Sized> {
    record_format: RecordFormat,
    order: ByteOrder,
    symbols: Option<&'l Symbols>,
    out: &'l mut W,
    /// Number of bytes that Linux skips at the start.
    skip: usize,
    /// Incomplete record: its bytes, its length, and its lowest trust level.
    held: [u8; LONGEST_TRACE],
    len: usize,
    trust: Trust,
    written: usize,
    file_trust: FileTrust,
}

impl<W: Write + ?Sized> Lines<'_, W> {
    fn push(&mut self, bytes: &[u8], trust: Trust) -> io::Result<()> {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        let mut bytes = &bytes[skipped..];
        let record_format = self.record_format;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(record_format.len() - self.len));
            self.held[self.len..][..now.len()].copy_from_slice(now);
            self.len += now.len();
            self.trust = self.trust.max(trust);
            bytes = later;
            if self.len == record_format.len() {
                self.line()?;
            }
        }
        Ok(())
    }

    fn line(&mut self) -> io::Result<()> {
        if let Some(record) = self
            .record_format
            .decode(&self.held[..self.len], self.order)
        {
            let line = line(self.record_format, &record, self.symbols);
            writeln!(self.out, "{line}")?;
            let end = self.written + line.len() + 1;
            if self.trust == Trust::Unverified {
                mark(&mut self.file_trust.unverified, self.written..end);
            }
            self.file_trust.trust = self.file_trust.trust.max(self.trust);
            self.written = end;
        }
        (self.len, self.trust) = (0, Trust::Verified);
        Ok(())
    }
}

/// Formats a trace record as Linux prints it.
fn line(record_format: RecordFormat, record: &TraceRecord, symbols: Option<&Symbols>) -> String {
    let (cpu, stamp, parent) = (record.cpu, record.stamp, record.parent);
    let ip = record_format.raw_ip(record);
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
    use nostall_pstore::compress::deflate_raw;

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
    fn a_text_larger_than_linuxs_buffer_stays_compressed() {
        let mut text = b"Panic#1 Part1\n".to_vec();
        text.resize(9075, b'x');
        let unpack = |text: &[u8]| unpacked(&deflate_raw(text), 4084, Unpack::ByTrying);
        assert_eq!(unpack(&text), Some((Compression::Deflate, text.clone())));
        text.push(b'x');
        assert_eq!(unpack(&text), None);
    }
}

//! Trace records, made from Linux's lines.

use anyhow::{Context, Result, ensure};
use nostall_pstore::{ByteOrder, RecordFormat, TraceRecord, ZoneKind};

use super::region::Region;

/// Records have eight bits for the CPU.
const CPUS: usize = 256;

/// Records each line in its CPU's zone. Returns the number of records.
pub fn record(region: &mut Region, lines: &[u8], record_format: RecordFormat) -> Result<u64> {
    let per_cpu = region.layout.traces_per_cpu();
    let zones = region.zones(ZoneKind::Ftrace).take(CPUS);
    let mut zones = zones.collect::<Result<Vec<_>>>()?;
    let mut calls = 0;
    for (line, number) in lines.split(|&byte| byte == b'\n').zip(1u64..) {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let mut record = parse(line).with_context(|| {
            format!("line {number} is not like CPU:0 ts:57 ffffffff81000010  ffffffff81a00000")
        })?;
        record.ip &= !record_format.cpu_bits();
        let bytes = record_format.encode(&record, ByteOrder::NATIVE);
        ensure!(
            record_format.decode(&bytes, ByteOrder::NATIVE) == Some(record),
            "line {number}: a number is too large for --arch {record_format}"
        );
        let cpu = if per_cpu { usize::from(record.cpu) } else { 0 };
        let (_, zone) = zones
            .get_mut(cpu)
            .with_context(|| format!("line {number}: CPU {cpu} has no zone: give --cpus"))?;
        zone.append(&bytes[..record_format.len()]);
        calls += 1;
    }
    Ok(calls)
}

/// `CPU:0 ts:57 ffffffff81000010  ffffffff81a00000`, and more that is ignored.
fn parse(line: &[u8]) -> Option<TraceRecord> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let mut word = || words.next();
    let address = |word: &str| {
        let digits = word.strip_prefix("0x").unwrap_or(word);
        u64::from_str_radix(digits, 16).ok()
    };
    Some(TraceRecord {
        cpu: word()?.strip_prefix("CPU:")?.parse().ok()?,
        stamp: word()?.strip_prefix("ts:")?.parse().ok()?,
        ip: address(word()?)?,
        parent: address(word()?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_linux_prints_it() {
        let record = TraceRecord {
            cpu: 1,
            stamp: 57,
            ip: 0xffff_ffff_8100_0010,
            parent: 0xff,
        };
        for line in [
            "CPU:1 ts:57 ffffffff81000010  000000ff",
            "CPU:1 ts:57 ffffffff81000010  000000ff  f <- g+0x1/0x2\n",
            "CPU:1 ts:57 0xffffffff81000010 0xff\r\n",
        ] {
            assert_eq!(parse(line.as_bytes()), Some(record), "{line}");
        }
        for line in [
            "CPU:256 ts:1 1 1",
            "CPU:1 ts:-1 1 1",
            "CPU:1 ts:1 1",
            "1 1 1 1",
            "\u{e4}",
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }
}

//! Detection of a trace zone's record format.

use std::vec::Vec;

use crate::memory::run::Run;
use nostall_pstore::{ByteOrder, HEADER, ZoneHeader};
use nostall_pstore::{RecordFormat, TraceRecord};

/// Number of records read in each zone; the newest ones are read.
const ENOUGH: usize = 128;

/// Common properties of a trace zone's records, for one format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Look {
    /// The format.
    pub(super) record_format: RecordFormat,
    /// CPU of nearly all records; `None` for several CPUs.
    pub(super) cpu: Option<u8>,
    /// Highest CPU number.
    pub(super) most: u8,
    /// Plausibility, from 0 to 1.
    pub(super) quality: f32,
    /// Number of records.
    pub(super) records: usize,
}

/// Returns the best format for the records of the zone at `at` with `header`. `None` if there are
/// too few records, or no format is plausible.
pub(super) fn look(run: &Run<'_>, at: usize, header: ZoneHeader, order: ByteOrder) -> Option<Look> {
    let data = at.checked_add(HEADER)?;
    if !run.holds(data, header.size as usize) || header.start > header.size {
        return None;
    }
    let looks = RecordFormat::ALL.map(|record_format| {
        let newest = newest(run, data, header, record_format.len())?;
        look_as(record_format, &newest, order)
    });
    let mut looks = looks.into_iter().flatten();
    let first = looks.next()?;
    // The first of equal formats wins: the narrower ones find CPU numbers by chance.
    Some(looks.fold(first, |best, look| {
        if look.quality > best.quality + 0.02 {
            look
        } else {
            best
        }
    }))
}

/// Returns the newest records of a ring, from the oldest. They end at the next record's start, and
/// continue at the ring's beginning where its end cuts one.
fn newest(run: &Run<'_>, data: usize, header: ZoneHeader, len: usize) -> Option<Vec<u8>> {
    let (start, size) = (header.start as usize, header.size as usize);
    let wanted = (size / len).min(ENOUGH) * len;
    let from_newer = wanted.min(start);
    let from_older = wanted - from_newer;
    let mut bytes = run.get(data + size - from_older, from_older)?.into_owned();
    bytes.extend_from_slice(&run.get(data + start - from_newer, from_newer)?);
    Some(bytes)
}

fn look_as(record_format: RecordFormat, bytes: &[u8], order: ByteOrder) -> Option<Look> {
    let records: Vec<TraceRecord> = bytes
        .chunks_exact(record_format.len())
        .filter_map(|bytes| record_format.decode(bytes, order))
        .collect();
    if records.len() < 4 {
        return None;
    }
    let share = |hits: usize, of: usize| hits as f32 / of as f32;
    let pairs = records.len() - 1;
    let count = |good: &dyn Fn(&TraceRecord, &TraceRecord) -> bool| {
        let good = records.windows(2).filter(|pair| good(&pair[0], &pair[1]));
        share(good.count(), pairs)
    };
    let addresses = count(&|a, b| record_format.has_addresses(a, b));
    let stamps = count(&TraceRecord::is_before);
    // Repeated bytes are not records.
    if count(&|a, b| a.stamp < b.stamp) < 0.1 {
        return None;
    }

    let mut counts = [0usize; 256];
    for record in &records {
        counts[usize::from(record.cpu)] += 1;
    }
    let (cpu, hits) = (0..=255u8)
        .zip(counts)
        .rev()
        .max_by_key(|&(_, hits)| hits)?;
    let most = (0..=255u8).zip(counts).filter(|&(_, hits)| hits > 0);
    let most = most.map(|(cpu, _)| cpu).max()?;
    let one = share(hits, records.len());
    // Several CPUs in one zone are equally plausible if their numbers are small. Numbers of one or
    // two bits prove nothing.
    let few = (0..16).map(|cpu| counts[cpu]).sum();
    let cpus = match record_format {
        RecordFormat::Bits64 | RecordFormat::Bits32 => one.max(share(few, records.len()) * 0.95),
        RecordFormat::Arm32 => one.max(0.8),
        RecordFormat::Thumb32 => (one * 0.97).max(0.75),
    };
    let quality = addresses * 0.4 + stamps * 0.3 + cpus * 0.3;
    (quality > 0.7).then_some(Look {
        record_format,
        cpu: (one > 0.9).then_some(cpu),
        most,
        quality,
        records: records.len(),
    })
}

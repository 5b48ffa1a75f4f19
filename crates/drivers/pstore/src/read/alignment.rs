//! Check that trace records are at the positions that the header implies.

use core::fmt;

use super::zone::PreviousBootZone;
use super::{CorrectionPolicy, Trust};
use crate::format::ByteOrder;
use crate::memory::Load;
use crate::trace::{LONGEST_TRACE, RecordFormat};

/// Number of records in one check.
const WINDOW: usize = 16;

/// Smallest number of records for a check.
const FEWEST: usize = 8;

/// Points for a pair of records: two each for addresses, stamps and CPUs.
const POINTS: usize = 2 + 2 + 2;

/// A trace zone whose records are not at the positions that its header implies. A word of the
/// header is damaged, and the records read with it may have any contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misaligned {
    /// Distance in bytes from the most plausible positions to the header's positions after them.
    pub by: usize,
}

impl fmt::Display for Misaligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "its records seem to be {} bytes before the positions in its header: a word of the \
             header is damaged, and these records may have any contents",
            self.by
        )
    }
}

/// Checks the newest and the oldest records. Returns `None` if they are at the header's positions,
/// if too little shows their positions, or if parity confirms the header.
pub(super) fn check<M: Load + ?Sized>(
    zone: &mut PreviousBootZone<'_, M>,
    record_format: RecordFormat,
) -> Option<Misaligned> {
    let is_checked = zone.header_trust() != Trust::Unchecked;
    if is_checked || zone.reader().policy == CorrectionPolicy::Faithful {
        return None;
    }
    let (len, end) = (record_format.len(), zone.len());
    let data = zone.place().division.data();
    let off = if zone.is_full() {
        // A ring's positions repeat in steps of a record.
        zone.header().start as usize % greatest_common_divisor(len, data)
    } else {
        end % len
    };
    if off != 0 {
        return Some(Misaligned { by: off });
    }
    let count = WINDOW.min((end / len).checked_sub(1)?);
    if count < FEWEST {
        return None;
    }
    // One record more, for records that start up to one record earlier.
    let bytes = (count + 1) * len;
    let oldest = end % len;
    window(zone, record_format, end - bytes, count)
        .or_else(|| window(zone, record_format, oldest, count))
}

/// Checks `count` records that start one record after `at`, or up to one record earlier.
fn window<M: Load + ?Sized>(
    zone: &mut PreviousBootZone<'_, M>,
    record_format: RecordFormat,
    at: usize,
    count: usize,
) -> Option<Misaligned> {
    let mut bytes = [0; (WINDOW + 1) * LONGEST_TRACE];
    let (len, order) = (record_format.len(), zone.reader().order);
    let bytes = &mut bytes[..(count + 1) * len];
    zone.read(at, bytes)?;
    if is_trace_at_low_addresses(&bytes[len..], record_format, order) {
        return None;
    }
    let points = |by: usize| points(&bytes[len - by..][..count * len], record_format, order);
    let here = points(0);
    let by = (1..len).max_by_key(|&by| points(by))?;
    let best = points(by);
    let most = POINTS * (count - 1);
    (best * 5 >= most * 4 && here * 4 <= best * 3).then_some(Misaligned { by })
}

/// Returns whether these are records of one CPU, in the order of their stamps, with addresses
/// without high bits. Such records get no points for addresses. Records that overlap them may get
/// more, because their stamps resemble addresses.
fn is_trace_at_low_addresses(bytes: &[u8], record_format: RecordFormat, order: ByteOrder) -> bool {
    let is_low = |address: u64| match record_format {
        RecordFormat::Bits64 => address >> 48 == 0,
        _ => address >> 28 == 0,
    };
    let records = || {
        let records = bytes.chunks_exact(record_format.len());
        records.filter_map(|bytes| record_format.decode(bytes, order))
    };
    let mut pairs = records().zip(records().skip(1));
    records().all(|record| record.cpu < 64 && is_low(record.ip) && is_low(record.parent))
        && pairs.all(|(a, b)| a.cpu == b.cpu && a.is_before(&b))
}

/// Returns whether both may be CPU numbers. The upper byte of an address is none.
const fn are_cpus(a: u8, b: u8) -> bool {
    a != u8::MAX && (a == b || a < 64 && b < 64)
}

const fn greatest_common_divisor(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the plausibility of these bytes as records, in points.
fn points(bytes: &[u8], record_format: RecordFormat, order: ByteOrder) -> usize {
    let records = || {
        let records = bytes.chunks_exact(record_format.len());
        records.filter_map(|bytes| record_format.decode(bytes, order))
    };
    let pairs = records().zip(records().skip(1));
    pairs
        .map(|(a, b)| {
            2 * usize::from(record_format.has_addresses(&a, &b))
                + 2 * usize::from(a.is_before(&b) && a != b)
                + 2 * usize::from(are_cpus(a.cpu, b.cpu))
        })
        .sum()
}

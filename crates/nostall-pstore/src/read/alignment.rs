//! Check that trace records are at the positions that the header implies.

use core::fmt;

use super::zone::PreviousBootZone;
use super::{CorrectionPolicy, Trust};
use crate::format::ByteOrder;
use crate::memory::Load;
use crate::trace::{LONGEST_TRACE, RecordFormat};

/// Records that are looked at together.
const WINDOW: usize = 16;

/// Fewer show nothing.
const FEWEST: usize = 8;

/// Points for a record and its next: for addresses, stamps and CPUs.
const POINTS: usize = 2 + 2 + 2;

/// A zone whose trace records do not lie where its header says: a word of the header is
/// damaged, and the records read by it may be anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misaligned {
    /// Number of bytes between the places that the header says and the next possible ones
    /// before these.
    pub by: usize,
}

impl fmt::Display for Misaligned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "its records look {} bytes away from where its header says: a word of the header is \
             damaged, and these records may be anything",
            self.by
        )
    }
}

/// Looks at the newest and at the oldest records; `None` if they lie where the header
/// says, if nothing shows where they lie, or if parity shows that the header is right.
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
        // A ring comes round in steps of a record.
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
    // One record more, for those that lie up to so much earlier.
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
/// that have no high bits. Such records get no points for addresses, and others that overlap
/// them may get more: their stamps look like addresses.
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

/// The upper byte of an address is no CPU's number.
const fn are_cpus(a: u8, b: u8) -> bool {
    a != u8::MAX && (a == b || a < 64 && b < 64)
}

const fn greatest_common_divisor(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Returns the plausibility of these bytes as records.
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

//! Sub-buffers ("pages") of Linux's ring buffer, and the records in them.
//!
//! A sub-buffer consists of an 8-byte time stamp, the number of committed bytes (a `long`), and the
//! data. Persistent ring buffers, `trace.dat` and `trace_pipe_raw` contain sub-buffers in this
//! format.

use std::fmt;

use super::order::Order;

/// The kernel lost events before this sub-buffer (only in copies for readers).
const MISSED: u64 = 1 << 31;
/// The number of lost events follows the data.
const MISSED_STORED: u64 = 1 << 30;

/// Record types; lower values are lengths of data.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Bits of a time delta.
const DELTA_BITS: u32 = 27;
/// Number of bits in an absolute stamp. The upper bits are those of the previous stamp.
const STAMP_BITS: u32 = 59;

/// Format of a machine's sub-buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageForm {
    /// Byte order.
    pub order: Order,
    /// Size of the commit word in bytes: 8, or 4 on a 32-bit machine.
    pub commit_bytes: usize,
}

impl Default for PageForm {
    /// Returns the format of a little-endian 64-bit machine.
    fn default() -> Self {
        Self {
            order: Order::Little,
            commit_bytes: 8,
        }
    }
}

impl PageForm {
    /// Returns the number of bytes before the data.
    pub const fn header(self) -> usize {
        8 + self.commit_bytes
    }
}

/// One sub-buffer.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Time stamp that is the base of the first record's delta.
    pub time: u64,
    /// Committed bytes with the records. Bytes after them belong to an earlier lap.
    pub data: &'a [u8],
    /// Number of events lost before the first record; `None` for none, 0 if the number is unknown.
    pub missed: Option<u64>,
    order: Order,
}

/// Reason why a sub-buffer cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadPage {
    /// The sub-buffer is shorter than its header.
    Short,
    /// More bytes are committed than fit.
    Commit(u64),
}

impl fmt::Display for BadPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => write!(f, "it is shorter than its header"),
            Self::Commit(bytes) => write!(f, "it has {bytes} committed bytes, more than it holds"),
        }
    }
}

impl std::error::Error for BadPage {}

impl<'a> Page<'a> {
    /// Reads a sub-buffer from all its bytes.
    ///
    /// # Errors
    ///
    /// [`BadPage`] if it is too short or its committed length is impossible.
    pub fn new(bytes: &'a [u8], form: PageForm) -> Result<Self, BadPage> {
        let order = form.order;
        let (head, data) = bytes
            .split_at_checked(form.header())
            .ok_or(BadPage::Short)?;
        let time = order.number(&head[..8]);
        let word = order.number(&head[8..]);
        let commit = match word >> 31 {
            // Linux adds the flag to a `long` as a negative number.
            0x1_FFFF_FFFF => word & (MISSED_STORED - 1),
            _ => word & !(MISSED | MISSED_STORED),
        };
        if commit > data.len() as u64 {
            return Err(BadPage::Commit(commit));
        }
        let (data, after) = data.split_at(commit as usize);
        let missed = (word & MISSED != 0).then(|| {
            let stored =
                (word & MISSED_STORED != 0).then(|| order.read(after, 0, form.commit_bytes));
            stored.flatten().unwrap_or(0)
        });
        Ok(Self {
            time,
            data,
            missed,
            order,
        })
    }

    /// Returns the records in the order of writing.
    pub fn records(&self) -> Records<'a> {
        self.records_from(0, self.time)
    }

    /// Returns the records from an [offset](Records::offset) on, with its known
    /// [time](Records::time).
    pub fn records_from(&self, offset: usize, time: u64) -> Records<'a> {
        Records {
            data: self.data,
            at: offset.min(self.data.len()),
            time,
            order: self.order,
        }
    }
}

/// A record of data. Padding and time records are not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// Time stamp.
    pub time: u64,
    /// Offset of the record in the sub-buffer's data.
    pub offset: usize,
    /// Payload, padded to a multiple of 4 bytes. It starts with the event's number.
    pub payload: &'a [u8],
}

/// An invalid record. The rest of its sub-buffer cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// Offset of the record in the sub-buffer's data.
    pub offset: usize,
    /// Bytes from there to the end of the data.
    pub unread: usize,
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, unread } = self;
        write!(
            f,
            "the record at {offset} does not end in the {unread} bytes after it"
        )
    }
}

impl std::error::Error for BadRecord {}

/// Iterator over a sub-buffer's records. Ends after the first [`BadRecord`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    data: &'a [u8],
    at: usize,
    time: u64,
    order: Order,
}

impl<'a> Records<'a> {
    /// Returns the offset of the next record.
    pub const fn offset(&self) -> usize {
        self.at
    }

    /// Returns the time stamp of the last record, or of the sub-buffer before the first.
    pub const fn time(&self) -> u64 {
        self.time
    }

    /// Reads the record header at `at`: its type, its delta, and the rest of the data.
    fn header(&self) -> Option<(u32, u64, &'a [u8])> {
        let word = self.order.u32(self.data, self.at)?;
        let (kind, delta) = match self.order {
            Order::Little => (word & 31, word >> 5),
            Order::Big => (word >> DELTA_BITS, word & ((1 << DELTA_BITS) - 1)),
        };
        Some((kind, delta.into(), &self.data[self.at + 4..]))
    }

    /// Returns the next record; `Some(None)` for padding and time records.
    fn step(&mut self) -> Option<Option<RawRecord<'a>>> {
        let (kind, delta, rest) = self.header()?;
        let word = self.order.u32(rest, 0);
        let offset = self.at;
        let (skip, len): (usize, usize) = match kind {
            0 => (4, (word? as usize).checked_sub(4)?),
            PADDING if delta == 0 => {
                self.at = self.data.len();
                return Some(None);
            }
            PADDING => (0, word? as usize),
            TIME_EXTEND | TIME_STAMP => (0, 4),
            words => (0, words as usize * 4),
        };
        let end = skip.checked_add(len)?;
        let payload = rest.get(skip..end)?;
        if end % 4 != 0 {
            return None;
        }
        self.at += 4 + end;
        let long = || (u64::from(word.unwrap_or_default()) << DELTA_BITS) + delta;
        match kind {
            // The time belongs to the discarded record.
            PADDING => {}
            TIME_EXTEND => self.time = self.time.wrapping_add(long()),
            TIME_STAMP => self.time = absolute(long(), self.time),
            _ => {
                self.time = self.time.wrapping_add(delta);
                return Some(Some(RawRecord {
                    time: self.time,
                    offset,
                    payload,
                }));
            }
        }
        Some(None)
    }
}

/// Completes an absolute stamp with the upper bits of the previous stamp.
fn absolute(stamp: u64, before: u64) -> u64 {
    let upper = before >> STAMP_BITS << STAMP_BITS;
    if upper == 0 {
        return stamp;
    }
    let full = stamp | upper;
    if full < before {
        full.wrapping_add(1 << STAMP_BITS)
    } else {
        full
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<RawRecord<'a>, BadRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.data.len() {
            match self.step() {
                Some(Some(record)) => return Some(Ok(record)),
                Some(None) => {}
                None => {
                    let bad = BadRecord {
                        offset: self.at,
                        unread: self.data.len() - self.at,
                    };
                    self.at = self.data.len();
                    return Some(Err(bad));
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(time: u64, words: &[u32]) -> Vec<u8> {
        let mut bytes = time.to_le_bytes().to_vec();
        bytes.extend((words.len() as u64 * 4).to_le_bytes());
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.resize(4096, 0xEE);
        bytes
    }

    fn read(bytes: &[u8]) -> Vec<Result<(u64, Vec<u8>), usize>> {
        let page = Page::new(bytes, PageForm::default()).unwrap();
        let records = page.records().map(|record| match record {
            Ok(record) => Ok((record.time, record.payload.to_vec())),
            Err(bad) => Err(bad.offset),
        });
        records.collect()
    }

    fn head(kind: u32, delta: u32) -> u32 {
        kind | delta << 5
    }

    #[test]
    fn deltas_extends_and_absolute_stamps_make_the_time() {
        let bytes = page(
            1000,
            &[
                head(1, 5),
                0xA, // data
                head(TIME_EXTEND, 3),
                2, // no record
                head(PADDING, 7),
                8,
                0, // taken back: no time
                head(0, 1),
                8,
                0xB, // length in a word of its own
                head(TIME_STAMP, 9),
                1,
                head(1, 1),
                0xC,
                head(PADDING, 0),
                head(1, 1),
                0xD, // behind the end
            ],
        );
        let after = 1005 + (2 << 27) + 3 + 1;
        let stamp = (1 << 27) + 9 + 1;
        assert_eq!(
            read(&bytes),
            [
                Ok((1005, vec![0xA, 0, 0, 0])),
                Ok((after, vec![0xB, 0, 0, 0])),
                Ok((stamp, vec![0xC, 0, 0, 0])),
            ]
        );
    }

    #[test]
    fn an_absolute_stamp_has_the_upper_bits_of_the_one_before_it() {
        let upper = 3 << STAMP_BITS;
        assert_eq!(absolute(7, upper | 5), upper | 7);
        assert_eq!(absolute(4, upper | 5), (4 << STAMP_BITS) | 4);
        assert_eq!(absolute(4, 5), 4);
    }

    #[test]
    fn a_record_that_does_not_fit_ends_its_page_and_those_before_it_are_kept() {
        for bad in [
            vec![head(0, 0), 0x12344],
            vec![head(0, 0), 3],
            vec![head(0, 0), 7, 0, 0],
            vec![head(28, 0), 1],
            vec![head(TIME_EXTEND, 0)],
            vec![head(0, 0)],
        ] {
            let mut words = vec![head(1, 5), 0xA];
            words.extend(bad);
            let read = read(&page(1, &words));
            assert_eq!(read, [Ok((6, vec![0xA, 0, 0, 0])), Err(8)]);
        }
    }

    #[test]
    fn a_commit_beyond_the_page_is_refused() {
        let mut bytes = page(1, &[]);
        bytes[8..12].copy_from_slice(&4081_u32.to_le_bytes());
        let page = Page::new(&bytes, PageForm::default());
        assert_eq!(page.unwrap_err(), BadPage::Commit(4081));
        assert_eq!(
            Page::new(&bytes[..15], PageForm::default()).unwrap_err(),
            BadPage::Short
        );
    }

    #[test]
    fn a_loss_on_a_64_bit_machine_is_read_with_its_upper_bits() {
        // Debian's Linux 6.1 wrote 0xffffffff80000ff0 before a full page.
        for (flags, missed) in [(-1_i64 << 31, 0), (-1 << 30, 6)] {
            let mut bytes = page(1, &[head(1, 5), 0xA, 6, 0]);
            bytes[8..16].copy_from_slice(&(flags + 8).to_le_bytes());
            let page = Page::new(&bytes, PageForm::default()).unwrap();
            assert_eq!((page.missed, page.data.len()), (Some(missed), 8));
        }
    }

    #[test]
    fn a_big_endian_page_of_a_32_bit_machine_is_read_and_its_lost_events_counted() {
        let mut bytes = 77_u64.to_be_bytes().to_vec();
        bytes.extend((8_u32 | 1 << 31 | 1 << 30).to_be_bytes());
        bytes.extend((1_u32 << 27 | 3).to_be_bytes());
        bytes.extend(0xAB_u32.to_be_bytes());
        bytes.extend(6_u32.to_be_bytes());
        let form = PageForm {
            order: Order::Big,
            commit_bytes: 4,
        };
        let page = Page::new(&bytes, form).unwrap();
        assert_eq!(page.missed, Some(6));
        let records: Vec<_> = page.records().map(Result::unwrap).collect();
        assert_eq!(records.len(), 1);
        assert_eq!(
            (records[0].time, records[0].payload),
            (80, &[0, 0, 0, 0xAB][..])
        );
    }
}

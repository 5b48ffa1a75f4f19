//! Records of all CPUs in one order.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nostall_pstore::Trust;
use nostall_tracefile::linux::{Page, PageForm};

use super::buffer::RingBuffer;
use super::page::PageState;
use crate::memory::Memory;

/// Order of several CPUs' records. Each CPU's records stay in the order of writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MergeBy {
    /// By boot, then by time.
    #[default]
    Boot,
    /// By time alone, so that boots are mixed. Linux merges in this way.
    Linux,
}

/// A record of the ring buffer.
#[derive(Clone, Debug)]
pub struct RingRecord<'a> {
    /// Number of the CPU.
    pub cpu: usize,
    /// Boot of the record, from 0.
    pub boot: u32,
    /// Time stamp: nanoseconds, unless another clock was chosen.
    pub time: u64,
    /// Payload, padded to 4 bytes.
    pub payload: Cow<'a, [u8]>,
    /// Number of its sub-buffer, and its offset in the data.
    pub place: (u32, usize),
    /// Trust level. Without a checksum, the best is [`Trust::Unchecked`].
    pub trust: Trust,
    /// Whether records before it, on its CPU, are lost to damage.
    pub lost: bool,
}

impl RingRecord<'_> {
    /// Copies the payload, if it is a part of the image.
    pub fn into_owned(self) -> RingRecord<'static> {
        RingRecord {
            payload: Cow::Owned(self.payload.into_owned()),
            ..self
        }
    }
}

/// Reader of a ring buffer's records, one by one.
#[derive(Clone, Debug)]
pub struct Merge {
    by: MergeBy,
    cursors: Vec<Cursor>,
    /// The CPUs that have a next record, by its place in the order.
    heap: BinaryHeap<Reverse<(u32, u64, usize)>>,
    /// The CPU of the last record. It is not in the heap.
    last: Option<usize>,
}

/// Position of a CPU's next record.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// Number of the sub-buffer in the order of writing.
    page: usize,
    /// Offset of the record's header in the data, or of padding before it.
    offset: usize,
    /// Time before that record.
    time: u64,
    /// Whether `time` is valid.
    is_inside: bool,
    /// Records before this position are lost.
    lost: bool,
}

impl Merge {
    /// Starts at the oldest records of each CPU.
    pub fn new(image: &Memory, buffer: &RingBuffer, by: MergeBy) -> Self {
        let mut merge = Self {
            by,
            cursors: vec![Cursor::default(); buffer.cpus.len()],
            heap: BinaryHeap::new(),
            last: None,
        };
        for cpu in 0..buffer.cpus.len() {
            merge.queue(image, buffer, cpu);
        }
        merge
    }

    /// Returns the next record. `image` and `buffer` are those of [`new`](Self::new).
    pub fn next<'a>(&mut self, image: &'a Memory, buffer: &RingBuffer) -> Option<RingRecord<'a>> {
        if let Some(cpu) = self.last.take() {
            self.queue(image, buffer, cpu);
        }
        let Reverse((_, _, cpu)) = self.heap.pop()?;
        self.last = Some(cpu);
        self.take(image, buffer, cpu)
    }

    /// Returns the record after the last one on the same CPU, and leaves it there.
    pub fn peek<'a>(&self, image: &'a Memory, buffer: &RingBuffer) -> Option<RingRecord<'a>> {
        let cpu = self.last?;
        self.cursors[cpu]
            .read(image, buffer, cpu)
            .map(|(record, _)| record)
    }

    /// Takes the record that [`peek`](Self::peek) returns.
    pub fn skip(&mut self, image: &Memory, buffer: &RingBuffer) {
        if let Some(cpu) = self.last {
            self.take(image, buffer, cpu);
        }
    }

    /// Returns the CPUs whose newest records are lost to damage; valid at the end.
    pub fn lost_at_end<'b>(&'b self, buffer: &'b RingBuffer) -> impl Iterator<Item = usize> + 'b {
        let cpus = buffer.cpus.iter().zip(&self.cursors);
        let lost = cpus.filter(|(cpu, cursor)| {
            let rest = cpu.pages.get(cursor.page..).unwrap_or_default();
            let mut rest = rest.iter().filter(|page| loses(page.state));
            cursor.lost || rest.next().is_some()
        });
        lost.map(|(cpu, _)| cpu.number)
    }

    fn take<'a>(
        &mut self,
        image: &'a Memory,
        buffer: &RingBuffer,
        cpu: usize,
    ) -> Option<RingRecord<'a>> {
        let (record, after) = self.cursors[cpu].read(image, buffer, cpu)?;
        self.cursors[cpu] = after;
        Some(record)
    }

    fn queue(&mut self, image: &Memory, buffer: &RingBuffer, cpu: usize) {
        if let Some((record, _)) = self.cursors[cpu].read(image, buffer, cpu) {
            let boot = match self.by {
                MergeBy::Boot => record.boot,
                MergeBy::Linux => 0,
            };
            self.heap.push(Reverse((boot, record.time, cpu)));
        }
    }
}

/// Returns whether records of a sub-buffer in this state are lost.
const fn loses(state: PageState) -> bool {
    matches!(
        state,
        PageState::Missing | PageState::Commit(_) | PageState::Cut { .. }
    )
}

impl Cursor {
    /// Reads the record at this position, and returns the position after it.
    fn read<'a>(
        mut self,
        image: &'a Memory,
        buffer: &RingBuffer,
        cpu: usize,
    ) -> Option<(RingRecord<'a>, Self)> {
        let part = &buffer.cpus[cpu];
        loop {
            let report = part.pages.get(self.page)?;
            let record = self.in_page(image, buffer.page(cpu, report.index), buffer.subbuf);
            if let Some((time, offset, payload, after)) = record {
                let is_sound = report.state == PageState::Sound && part.problems.is_empty();
                let record = RingRecord {
                    cpu: part.number,
                    boot: report.boot,
                    time,
                    payload,
                    place: (report.index, offset),
                    trust: if is_sound {
                        Trust::Unchecked
                    } else {
                        Trust::Unverified
                    },
                    lost: self.lost,
                };
                let after = Self {
                    offset: after,
                    time,
                    is_inside: true,
                    lost: false,
                    ..self
                };
                return Some((record, after));
            }
            self = Self {
                page: self.page + 1,
                lost: self.lost || loses(report.state),
                ..Self::default()
            };
        }
    }

    /// Reads the next record of a sub-buffer: time, offset, payload, and offset after it.
    fn in_page<'a>(
        &self,
        image: &'a Memory,
        address: u64,
        bytes: usize,
    ) -> Option<(u64, usize, Cow<'a, [u8]>, usize)> {
        let form = PageForm::default();
        let at = |bytes: &[u8]| {
            let page = Page::new(bytes, form).ok()?;
            let time = if self.is_inside { self.time } else { page.time };
            let mut records = page.records_from(self.offset, time);
            let record = records.next()?.ok()?;
            let start = record.payload.as_ptr().addr() - page.data.as_ptr().addr();
            Some((
                record.time,
                record.offset,
                start,
                record.payload.len(),
                records.offset(),
            ))
        };
        match image.read(address, bytes)? {
            Cow::Borrowed(bytes) => {
                let (time, offset, start, len, after) = at(bytes)?;
                let start = form.header() + start;
                Some((
                    time,
                    offset,
                    Cow::Borrowed(&bytes[start..start + len]),
                    after,
                ))
            }
            Cow::Owned(bytes) => {
                let (time, offset, start, len, after) = at(&bytes)?;
                let start = form.header() + start;
                Some((
                    time,
                    offset,
                    Cow::Owned(bytes[start..start + len].to_vec()),
                    after,
                ))
            }
        }
    }
}

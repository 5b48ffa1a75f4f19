//! Dumps by makedumpfile and QEMU in the kdump format, with compressed pages.
//!
//! Pages are decompressed when they are read. A page that the writer left out (`makedumpfile -d`)
//! is in no segment. The descriptor of a page is found through its segment, which knows the number
//! of pages before it. Only headers of 64-bit little-endian machines are read.

mod header;
mod named;
mod packing;
pub(super) mod split;

use std::borrow::Cow;
use std::cell::RefCell;
use std::iter;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use super::container::{Chunk, Container, Facts, PhysicalRange, find};
use super::error::Error;
use super::file::DumpFile;
use super::format::DumpFormat;
use super::kept::Kept;
use header::{DESCRIPTOR, Header, damaged};
use named::Named;
use packing::{Packing, Unpacker};

impl DumpFormat {
    /// A dump with compressed pages by makedumpfile or QEMU's `dump-guest-memory -z`.
    pub const KDUMP: Self = Self {
        name: "kdump",
        word: "kdump",
    };
}

/// Maximum number of segments, which need 24 bytes each. Dumps of large machines without free and
/// user pages have hundreds of thousands.
const MOST_SEGMENTS: usize = 1 << 22;

/// Maximum number of bytes that are decompressed at once.
const AT_ONCE: usize = 256 << 10;

/// Number of bytes of decompressed pages that are kept.
const KEPT: u64 = 16 << 20;

/// Number of zero pages that are worth a gap in the [data](Container::data).
const GAP: u64 = 16;

/// Number of descriptors of which one must fit the end of their table.
const TRIED: u64 = 64;

/// Place of a page in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Descriptor {
    offset: u64,
    size: u32,
    flags: u32,
}

/// A file of a dump.
#[derive(Debug)]
struct Part {
    file: Arc<DumpFile>,
    header: Header,
    /// Number of descriptors.
    count: u64,
    /// The page of zeros to which the descriptors of all such pages point.
    zero: Option<Descriptor>,
    /// Number of pages that are not in the file.
    missing: u64,
}

impl Part {
    fn open(file: &Arc<DumpFile>) -> Result<Option<Self>, Error> {
        let header = Header::read(file)?;
        Ok(header.map(|header| Self {
            file: Arc::clone(file),
            header,
            count: 0,
            zero: None,
            missing: 0,
        }))
    }

    /// Returns the end of a number of descriptors.
    fn end_of(&self, count: u64) -> u64 {
        let len = count.saturating_mul(DESCRIPTOR);
        self.header.descriptors.saturating_add(len)
    }

    /// Returns the end of the descriptors, where data may begin.
    fn data(&self) -> u64 {
        self.end_of(self.count)
    }

    /// Returns a descriptor; `None` if the file lacks it.
    fn descriptor(&self, number: u64) -> Option<Descriptor> {
        let offset = number.checked_mul(DESCRIPTOR)?;
        let offset = offset.checked_add(self.header.descriptors)?;
        let bytes = self.file.read(offset, DESCRIPTOR as usize)?;
        self.file.touched(offset, DESCRIPTOR);
        let (offset, rest) = bytes.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        Some(Descriptor {
            offset: u64::from_le_bytes(*offset),
            size: u32::from_le_bytes(*size),
            flags: u32::from_le_bytes(*rest.first_chunk()?),
        })
    }

    /// Returns the descriptors of a range that are not in holes of the file, in order. A descriptor
    /// in a hole is zero, so it names no page.
    fn described(&self, numbers: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let Range { start: mut at, end } = numbers;
        iter::from_fn(move || {
            let table = self.header.descriptors;
            let data = self.file.next_data(self.end_of(at)..self.end_of(end))?;
            let start = (data.start - table) / DESCRIPTOR;
            let start = start.max(at);
            at = (data.end - table).div_ceil(DESCRIPTOR).min(end);
            (start < at).then_some(start..at)
        })
    }

    /// Returns whether the bytes of a page are in the file.
    fn has(&self, descriptor: &Descriptor) -> bool {
        let size = u64::from(descriptor.size);
        (1..=self.header.page).contains(&size)
            && descriptor.offset >= self.data()
            && self.file.has(descriptor.offset, size)
    }

    /// Counts the pages that are not in the file, if it is cut off or incomplete, or has holes
    /// instead of descriptors.
    fn count_missing(&mut self) {
        let described = self.described(0..self.count);
        let described: u64 = described.map(|range| range.end - range.start).sum();
        // Descriptors of the page of zeros say nothing about the file's end.
        let mut descriptors = (0..self.count).rev().map(|number| self.descriptor(number));
        let last = descriptors.find(|it| it.is_none() || *it != self.zero);
        let has_all = last.is_none_or(|last| last.is_some_and(|last| !self.is_behind(&last)));
        let flattened = self.file.flattened.as_ref();
        let is_cut = flattened.is_some_and(|flattened| flattened.is_cut);
        if has_all && !is_cut && !self.header.is_incomplete && described >= self.count {
            return;
        }
        let mut missing = self.count;
        for number in self.described(0..self.count).flatten() {
            let descriptor = self.descriptor(number);
            if descriptor.is_some_and(|descriptor| self.has(&descriptor)) {
                missing -= 1;
            }
        }
        self.missing = missing;
    }

    /// Returns whether a page is behind the end of the file.
    fn is_behind(&self, descriptor: &Descriptor) -> bool {
        let end = descriptor.offset.saturating_add(descriptor.size.into());
        end > self.file.len()
    }

    /// Checks that the data begin where the descriptors end. Then the bitmap has as many bits as
    /// there are descriptors: a wrong bit would move all later pages. Finds the page of zeros, which
    /// is first.
    fn check(&mut self, unpacker: &mut Unpacker) -> Result<(), Error> {
        let tried = (0..self.count.min(TRIED)).map_while(|number| self.descriptor(number));
        // A writer without space leaves zeros.
        let tried = tried.filter(|it| it.offset > 0 && !self.is_behind(it));
        let tried: Vec<_> = tried.collect();
        let mut counts = vec![self.count];
        if self.header.is_split {
            // makedumpfile leaves space for the descriptors of all parts.
            let mut all = 0;
            let frames = 0..self.header.identity.max_frames;
            self.header.runs(&self.file, frames, |run| {
                all += run.end - run.start;
                Ok(())
            })?;
            counts.push(all);
        }
        counts
            .iter_mut()
            .for_each(|count| *count = self.end_of(*count));
        for data in counts {
            for first in &tried {
                if first.offset == data {
                    self.zero = self.is_zero(first, unpacker).then_some(*first);
                    return Ok(());
                }
                let size = first.offset.checked_sub(data);
                let Some(size) = size.filter(|size| *size <= self.header.page) else {
                    continue;
                };
                let zeros = Packing::ALL.map(|packing| Descriptor {
                    offset: data,
                    // A page has at most 64 KiB.
                    size: size as u32,
                    flags: packing as u32,
                });
                self.zero = zeros.into_iter().find(|zero| self.is_zero(zero, unpacker));
                if self.zero.is_some() {
                    return Ok(());
                }
            }
        }
        match tried.is_empty() {
            true => Ok(()),
            false => Err(damaged("its bitmap does not fit its page descriptors")),
        }
    }

    fn kind(&self, number: u64, named: &mut Named) -> Kind {
        let descriptor = self.descriptor(number);
        match descriptor {
            Some(_) if descriptor == self.zero => Kind::Zero,
            Some(it) if self.has(&it) => {
                match named.name(it.offset..it.offset + u64::from(it.size)) {
                    true => Kind::New,
                    false => Kind::Named,
                }
            }
            // A read counts it as missing or damaged.
            _ => Kind::New,
        }
    }

    fn is_zero(&self, descriptor: &Descriptor, unpacker: &mut Unpacker) -> bool {
        let mut page = Vec::new();
        let unpacked = self.unpack(descriptor, unpacker, &mut page);
        unpacked.is_some() && page.iter().all(|byte| *byte == 0)
    }

    /// Appends a page to `to`; `None` if it is damaged.
    fn unpack(
        &self,
        descriptor: &Descriptor,
        unpacker: &mut Unpacker,
        to: &mut Vec<u8>,
    ) -> Option<()> {
        if !self.has(descriptor) {
            return None;
        }
        let packing = Packing::of(descriptor.flags)?;
        let bytes = self
            .file
            .read(descriptor.offset, descriptor.size as usize)?;
        let start = to.len();
        to.resize(start + self.header.page as usize, 0);
        unpacker.unpack(packing, &bytes, &mut to[start..])
    }

    /// Returns bytes that are stored without a gap, from `skip` bytes after the start of a page on.
    /// They are at most `most`, and at least [`AT_ONCE`] if `most` is.
    fn stored(&self, number: u64, skip: usize, most: usize) -> Option<Cow<'_, [u8]>> {
        let page = self.header.page;
        let first = self.descriptor(number)?;
        let is_stored = |it: &Descriptor| it.flags == 0 && u64::from(it.size) == page;
        if !is_stored(&first) || !self.has(&first) {
            return None;
        }
        let pages = (skip as u64).saturating_add(most as u64).div_ceil(page);
        let follows = |nth: &u64| {
            let next = number.checked_add(*nth).filter(|next| *next < self.count);
            let next = next.and_then(|next| self.descriptor(next));
            let place = first.offset.saturating_add(nth.saturating_mul(page));
            next.is_some_and(|next| is_stored(&next) && next.offset == place)
        };
        let pages = 1 + (1..pages).take_while(follows).count();
        let len = (pages * page as usize - skip).min(most);
        if len < most.min(AT_ONCE) {
            return None;
        }
        let offset = first.offset.checked_add(skip as u64)?;
        self.file.touched(offset, len as u64);
        self.file.read(offset, len)
    }

    /// Returns the ranges of a segment to search, by the numbers of their descriptors. Holes of the
    /// table, long ranges of zero pages, and pages that another descriptor named before are left out.
    fn searched(
        &self,
        numbers: Range<u64>,
        named: Rc<RefCell<Named>>,
    ) -> impl Iterator<Item = Range<u64>> {
        self.described(numbers).flat_map(move |numbers| {
            let named = Rc::clone(&named);
            let mut at = numbers.start;
            iter::from_fn(move || {
                let mut found = None::<Range<u64>>;
                while at < numbers.end {
                    match self.kind(at, &mut named.borrow_mut()) {
                        Kind::New => {
                            let start = found.map_or(at, |found| found.start);
                            found = Some(start..at + 1);
                        }
                        Kind::Named if found.is_some() => break,
                        Kind::Zero if found.as_ref().is_some_and(|it| at - it.end >= GAP) => break,
                        Kind::Zero | Kind::Named => {}
                    }
                    at += 1;
                }
                found
            })
        })
    }
}

/// Worth of a page for a search.
enum Kind {
    New,
    Zero,
    /// Another descriptor has named its bytes.
    Named,
}

#[derive(Debug)]
struct Kdump {
    /// Files by page frame. There is at least one.
    parts: Vec<Part>,
    facts: Facts,
    page: u64,
    segments: Vec<PhysicalRange>,
    /// Number of each segment's first descriptor in its part.
    first: Vec<u64>,
    kept: Kept,
    unpacker: Mutex<Unpacker>,
}

/// Opens a kdump file; `None` if the file is none.
pub(super) fn open(file: &Arc<DumpFile>) -> Result<Option<Box<dyn Container>>, Error> {
    let Some(part) = Part::open(file)? else {
        return Ok(None);
    };
    Ok(Some(Box::new(Kdump::new(vec![part])?)))
}

impl Kdump {
    fn new(mut parts: Vec<Part>) -> Result<Self, Error> {
        // An empty part comes before the one with its first page frame.
        parts.sort_by_key(|part| (part.header.frames.start, part.header.frames.end));
        let page = parts[0].header.page;
        let range = |frames: Range<u64>| PhysicalRange {
            start: frames.start * page,
            len: (frames.end - frames.start) * page,
        };
        let mut unpacker = Unpacker::new();
        let mut facts = Facts::of(DumpFormat::KDUMP);
        facts.vmcoreinfo.clone_from(&parts[0].header.vmcoreinfo);
        let (mut segments, mut first) = (Vec::new(), Vec::new());
        let mut end = 0;
        for part in &mut parts {
            let (header, mut count) = (&part.header, 0);
            header.runs(&part.file, header.frames.clone(), |run| {
                if segments.len() == MOST_SEGMENTS {
                    return Err(damaged("its pages are in more than 4,194,304 ranges"));
                }
                first.push(count);
                count += run.end - run.start;
                segments.push(range(run));
                Ok(())
            })?;
            let absent = end..header.frames.start;
            end = header.frames.end;
            facts.leave_out(&part.header, &part.file, absent, range)?;
            part.count = count;
            part.check(&mut unpacker)?;
            part.count_missing();
            facts.missing = facts.missing.saturating_add(part.missing * page);
        }
        let header = &parts[0].header;
        let absent = end..header.identity.max_frames;
        facts.leave_out(header, &parts[0].file, absent, range)?;
        segments.shrink_to_fit();
        first.shrink_to_fit();
        Ok(Self {
            parts,
            facts,
            page,
            segments,
            first,
            kept: Kept::new((KEPT / page) as usize),
            unpacker: Mutex::new(unpacker),
        })
    }

    /// Returns the index of the part that has a page frame of a segment.
    fn part_index(&self, frame: u64) -> usize {
        let next = self
            .parts
            .partition_point(|part| part.header.frames.start <= frame);
        next.saturating_sub(1)
    }

    /// Returns the part that has a page frame of a segment.
    fn part(&self, frame: u64) -> &Part {
        &self.parts[self.part_index(frame)]
    }

    /// Appends a range of a page to `to`; `None` if the page is missing or damaged.
    fn read(
        &self,
        part: &Part,
        frame: u64,
        number: u64,
        range: Range<usize>,
        to: &mut Vec<u8>,
    ) -> Option<()> {
        let descriptor = part.descriptor(number);
        if let Some(descriptor) = &descriptor
            && part.zero.as_ref() == Some(descriptor)
        {
            to.resize(to.len() + range.len(), 0);
            return Some(());
        }
        // Such pages are counted already.
        if part.missing > 0 && descriptor.is_none_or(|descriptor| !part.has(&descriptor)) {
            return None;
        }
        self.kept.append(frame, range, to, |to| {
            let descriptor = descriptor?;
            part.file.touched(descriptor.offset, descriptor.size.into());
            let mut unpacker = self.unpacker.lock().unwrap_or_else(PoisonError::into_inner);
            part.unpack(&descriptor, &mut unpacker, to)
        })
    }
}

impl Facts {
    /// Adds a range of page frames whose pages are in a part that was not opened.
    fn leave_out(
        &mut self,
        header: &Header,
        file: &DumpFile,
        frames: Range<u64>,
        range: impl Fn(Range<u64>) -> PhysicalRange,
    ) -> Result<(), Error> {
        if frames.is_empty() {
            return Ok(());
        }
        let mut bytes = 0;
        let mut ends = None;
        header.runs(file, frames, |run| {
            let (first, _) = ends.unwrap_or((run.start, 0));
            ends = Some((first, run.end));
            bytes += range(run).len;
            Ok(())
        })?;
        if let Some((first, end)) = ends {
            self.absent.push(range(first..end));
            self.elsewhere = self.elsewhere.saturating_add(bytes);
        }
        Ok(())
    }
}

impl Container for Kdump {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn segments(&self) -> &[PhysicalRange] {
        &self.segments
    }

    fn chunk(&self, at: u64, most: usize) -> Chunk<'_> {
        let index = match find(&self.segments, at) {
            Ok(index) => index,
            Err(missing) => return Chunk::Missing(missing),
        };
        let inside = at - self.segments[index].start;
        let rest = usize::try_from(self.segments[index].len - inside).unwrap_or(usize::MAX);
        let most = most.min(rest);
        let page = self.page as usize;
        // Segments start with a page.
        let (mut frame, mut skip) = (at / self.page, (at % self.page) as usize);
        let mut number = self.first[index] + inside / self.page;
        let part = self.part(frame);
        if let Some(bytes) = part.stored(number, skip, most) {
            return Chunk::Bytes(bytes);
        }
        let most = most.min(AT_ONCE);
        let mut bytes = Vec::with_capacity(most.max(page));
        while bytes.len() < most {
            let range = skip..page.min(skip + most - bytes.len());
            if self.read(part, frame, number, range, &mut bytes).is_none() {
                break;
            }
            (frame, number, skip) = (frame + 1, number + 1, 0);
        }
        match bytes.is_empty() && most > 0 {
            true => {
                let last = self.first[index] + self.segments[index].len / self.page;
                let next = part.described(number + 1..last).next();
                let next = next.map_or(last, |next| next.start);
                Chunk::Missing((next - number) * self.page - skip as u64)
            }
            false => Chunk::Bytes(Cow::Owned(bytes)),
        }
    }

    fn data(&self) -> Box<dyn Iterator<Item = PhysicalRange> + '_> {
        let segments = self.segments.iter().zip(&self.first);
        let named: Vec<Rc<RefCell<Named>>> = self.parts.iter().map(|_| Rc::default()).collect();
        Box::new(segments.flat_map(move |(segment, first)| {
            let index = self.part_index(segment.start / self.page);
            let numbers = *first..*first + segment.len / self.page;
            let searched = self.parts[index].searched(numbers, Rc::clone(&named[index]));
            searched.map(move |numbers| PhysicalRange {
                start: segment.start + (numbers.start - first) * self.page,
                len: (numbers.end - numbers.start) * self.page,
            })
        }))
    }

    fn damaged(&self) -> u64 {
        self.kept.damaged(|_| self.page)
    }

    fn has_lost(&self) -> bool {
        self.parts.iter().any(|part| part.file.bytes.has_lost())
    }

    fn check(&self) -> Result<(), Error> {
        self.parts
            .iter()
            .try_for_each(|part| part.file.bytes.check())
    }
}

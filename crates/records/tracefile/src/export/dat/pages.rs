//! Pages of Linux's ring buffer, stored in a file until all are written.

use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

/// Size of a page in bytes.
pub const PAGE: usize = 4096;
/// Size of a page's header in bytes: time stamp and committed length.
pub const HEADER: usize = 16;

/// The kernel lost records before the page.
const LOST: u64 = 1 << 31;
/// The number of lost records follows the data.
const LOST_STORED: u64 = 1 << 30;

/// Type of the record with the upper bits of a long time delta.
const TIME_EXTEND: u32 = 30;
const DELTA_BITS: u32 = 27;
/// Number of bits in a delta, including the record for its upper bits.
const LONGEST_DELTA: u32 = DELTA_BITS + 32;

/// Complete pages of all CPUs, in a file without a name.
#[derive(Debug)]
pub struct Spool {
    page_size: usize,
    /// Positions of each CPU's pages in the file.
    cpus: Vec<Vec<u32>>,
    /// Pages of all CPUs, in the order in which they were completed.
    file: BufWriter<File>,
    written: u32,
}

impl Spool {
    pub fn new(page_size: usize) -> io::Result<Self> {
        Ok(Self {
            page_size,
            cpus: Vec::new(),
            file: BufWriter::with_capacity(1 << 18, tempfile::tempfile()?),
            written: 0,
        })
    }

    pub const fn page_size(&self) -> usize {
        self.page_size
    }

    /// Adds a page. Its length is at most the page size.
    pub fn push(&mut self, cpu: u32, page: &[u8]) -> io::Result<()> {
        let cpu = cpu as usize;
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, Vec::new);
        }
        self.file.write_all(page)?;
        let rest = (self.page_size - page.len()) as u64;
        io::copy(&mut io::repeat(0).take(rest), &mut self.file)?;
        self.cpus[cpu].push(self.written);
        self.written += 1;
        Ok(())
    }

    /// Returns the number of bytes of all pages.
    pub const fn len(&self) -> u64 {
        self.written as u64 * self.page_size as u64
    }

    /// Returns the number of pages of each CPU.
    pub fn pages(&self) -> impl ExactSizeIterator<Item = usize> {
        self.cpus.iter().map(Vec::len)
    }

    /// Writes the pages, one CPU after another.
    pub fn copy(self, out: &mut impl Write) -> io::Result<()> {
        let mut file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        let mut page = vec![0; self.page_size];
        for number in self.cpus.iter().flatten() {
            let at = u64::from(*number) * self.page_size as u64;
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut page)?;
            out.write_all(&page)?;
        }
        Ok(())
    }
}

/// Pages that are made of records.
pub struct Pages {
    cpus: Vec<Cpu>,
    spool: Spool,
}

/// Pages of one CPU.
#[derive(Default)]
struct Cpu {
    /// Time of the current page, and its records.
    start: u64,
    data: Vec<u8>,
    /// Time of the last record.
    last: u64,
    /// Number of records lost before this page; 0 if unknown.
    lost: Option<u64>,
}

impl Cpu {
    /// Returns the current page, unless it is empty.
    fn page(&mut self) -> Option<Vec<u8>> {
        if self.data.is_empty() {
            return None;
        }
        let mut commit = self.data.len() as u64;
        let lost = self.lost.take();
        match lost {
            None => {}
            Some(0) => commit |= LOST,
            Some(_) => commit |= LOST | LOST_STORED,
        }
        let mut page = self.start.to_le_bytes().to_vec();
        page.extend(commit.to_le_bytes());
        page.append(&mut self.data);
        if let Some(lost) = lost {
            page.extend(lost.to_le_bytes());
        }
        Some(page)
    }

    /// Returns the number of bytes for records. The number of lost records follows them.
    fn room(&self) -> usize {
        PAGE - HEADER - if self.lost.is_some() { 8 } else { 0 }
    }
}

impl Pages {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            cpus: Vec::new(),
            spool: Spool::new(PAGE)?,
        })
    }

    /// Adds a record. The length of `payload` is a multiple of 4.
    pub fn record(&mut self, cpu: u32, time: u64, payload: &[u8]) -> io::Result<()> {
        let number = cpu;
        let cpu = self.cpu(number);
        let words = payload.len() / 4;
        let head = if words <= 28 { 4 } else { 8 };
        // A clock that steps back or jumps far starts a new page, because deltas have no sign.
        let is_back = time.wrapping_sub(cpu.last) >> LONGEST_DELTA != 0;
        // 8 bytes are for a long delta.
        if !cpu.data.is_empty()
            && (is_back || cpu.data.len() + 8 + head + payload.len() > cpu.room())
        {
            self.end(number)?;
        }
        let cpu = self.cpu(number);
        // A page with lost records starts where they are missing.
        if cpu.data.is_empty() && (cpu.lost.is_none() || is_back) {
            cpu.start = time;
            cpu.last = time;
        }
        let mut delta = time - cpu.last;
        cpu.last = time;
        let mut word = |word: u32| cpu.data.extend(word.to_le_bytes());
        if delta >> DELTA_BITS != 0 {
            let low = (delta & ((1 << DELTA_BITS) - 1)) as u32;
            word(low << 5 | TIME_EXTEND);
            word((delta >> DELTA_BITS) as u32);
            delta = 0;
        }
        if words <= 28 {
            word((delta as u32) << 5 | words as u32);
        } else {
            word((delta as u32) << 5);
            word(payload.len() as u32 + 4);
        }
        cpu.data.extend(payload);
        Ok(())
    }

    /// Notes that `records` records are missing from `time` on; 0 if the number is unknown.
    pub fn lost(&mut self, cpu: u32, time: u64, records: u64) -> io::Result<()> {
        self.end(cpu)?;
        let cpu = self.cpu(cpu);
        cpu.start = time;
        cpu.last = time;
        let lost = &mut cpu.lost;
        *lost = Some(match *lost {
            Some(before) if before != 0 && records != 0 => before.saturating_add(records),
            Some(_) => 0,
            None => records,
        });
        Ok(())
    }

    /// Returns the CPUs that lost records after their last record, with the number and the last
    /// time.
    pub fn lost_at_the_end(&self) -> Vec<(u32, u64)> {
        let cpus = (0..).zip(&self.cpus);
        let lost = cpus.filter(|(_, cpu)| cpu.data.is_empty() && cpu.lost.is_some());
        lost.map(|(number, cpu)| (number, cpu.last)).collect()
    }

    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        let cpu = cpu as usize;
        if cpu >= self.cpus.len() {
            self.cpus.resize_with(cpu + 1, Cpu::default);
        }
        &mut self.cpus[cpu]
    }

    /// Completes the CPU's page.
    fn end(&mut self, number: u32) -> io::Result<()> {
        match self.cpu(number).page() {
            Some(page) => self.spool.push(number, &page),
            None => Ok(()),
        }
    }

    /// Completes all pages.
    pub fn finish(mut self) -> io::Result<Spool> {
        for cpu in 0..self.cpus.len() {
            self.end(cpu as u32)?;
        }
        Ok(self.spool)
    }
}

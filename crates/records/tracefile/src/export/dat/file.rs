//! A trace.dat file of version 6: the description of the records, then the pages.

use std::io::{self, Write};

use super::pages::Spool;

/// Multiple of which the pages' offset in the file is one. Larger pages need no larger one.
const ALIGNMENT: usize = 4096;

/// Describes the records of a trace.dat file. The texts are those of tracefs.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// `events/header_page`: the fields of a page's header.
    pub header_page: Vec<u8>,
    /// `events/header_event`: the parts of a record's header.
    pub header_event: Vec<u8>,
    /// Formats of ftrace's own events: `events/ftrace/*/format`.
    pub ftrace: Vec<Vec<u8>>,
    /// Names of event systems, with the formats of their events: `events/SYSTEM/*/format`.
    pub systems: Vec<(String, Vec<Vec<u8>>)>,
    /// Names of functions, in the format of `/proc/kallsyms`.
    pub symbols: Vec<u8>,
    /// Names of tasks: `saved_cmdlines`.
    pub commands: Vec<u8>,
    /// `trace_clock`: the clocks, with the used one in brackets.
    pub clock: Vec<u8>,
}

impl Description {
    /// Writes a file with the pages.
    pub(super) fn write(&self, pages: Spool, out: &mut impl Write) -> io::Result<()> {
        let page_size = pages.page_size() as u32;
        let mut header = self.header(page_size);
        header.extend((pages.pages().len() as u32).to_le_bytes());
        header.extend(b"options  \0");
        // The clock's name is option 4, and 0 ends the options.
        header.extend(4_u16.to_le_bytes());
        header.extend((self.clock.len() as u32 + 1).to_le_bytes());
        header.extend(&self.clock);
        header.extend([0; 3]);
        header.extend(b"flyrecord\0");
        let end = header.len() + pages.pages().len() * 16;
        let mut at = end.next_multiple_of(ALIGNMENT.max(pages.page_size())) as u64;
        let start = at as usize;
        for count in pages.pages() {
            let bytes = count as u64 * u64::from(page_size);
            header.extend(at.to_le_bytes());
            header.extend(bytes.to_le_bytes());
            at += bytes;
        }
        header.resize(start, 0);
        out.write_all(&header)?;
        pages.copy(out)?;
        out.flush()
    }

    /// Returns the file's header up to the names of tasks.
    fn header(&self, page_size: u32) -> Vec<u8> {
        let mut header = b"\x17\x08\x44tracing6\0".to_vec();
        // Little endian, and a `long` of 8 bytes.
        header.extend([0, 8]);
        header.extend(page_size.to_le_bytes());
        let text = |header: &mut Vec<u8>, text: &[u8]| {
            header.extend((text.len() as u64).to_le_bytes());
            header.extend(text);
        };
        let formats = |header: &mut Vec<u8>, formats: &[Vec<u8>]| {
            header.extend((formats.len() as u32).to_le_bytes());
            formats.iter().for_each(|format| text(header, format));
        };
        header.extend(b"header_page\0");
        text(&mut header, &self.header_page);
        header.extend(b"header_event\0");
        text(&mut header, &self.header_event);
        formats(&mut header, &self.ftrace);
        header.extend((self.systems.len() as u32).to_le_bytes());
        for (name, events) in &self.systems {
            header.extend(name.as_bytes());
            header.push(0);
            formats(&mut header, events);
        }
        header.extend((self.symbols.len() as u32).to_le_bytes());
        header.extend(&self.symbols);
        // No stored formats of trace_printk.
        header.extend(0_u32.to_le_bytes());
        text(&mut header, &self.commands);
        header
    }
}

/// Collects pages of Linux's ring buffer for a trace.dat file.
///
/// The pages are in a temporary file without a name until [`write`](Self::write).
#[derive(Debug)]
pub struct Recording(Spool);

impl Recording {
    /// Creates a recording of pages of this many bytes.
    ///
    /// # Errors
    ///
    /// Errors of the temporary file.
    pub fn new(page_size: usize) -> io::Result<Self> {
        Spool::new(page_size).map(Self)
    }

    /// Adds the bytes of one read of `per_cpu/cpuN/trace_pipe_raw`: a page, or its start.
    ///
    /// # Errors
    ///
    /// Errors of the temporary file, such as a full disk.
    ///
    /// # Panics
    ///
    /// If `page` is longer than the page size.
    pub fn push(&mut self, cpu: u32, page: &[u8]) -> io::Result<()> {
        self.0.push(cpu, page)
    }

    /// Returns the number of bytes of all pages.
    pub const fn bytes(&self) -> u64 {
        self.0.len()
    }

    /// Writes the trace.dat file of a little-endian 64-bit machine.
    ///
    /// # Errors
    ///
    /// Errors of `out` and of the temporary file.
    pub fn write(self, description: &Description, out: &mut impl Write) -> io::Result<()> {
        description.write(self.0, out)
    }
}

//! Records of one CPU, page by page.

use std::io::{self, BufReader, Read, Seek};
use std::ops::Range;
use std::sync::Arc;
use std::vec;

use super::contents::Times;
use super::span::Data;
use crate::linux::{Page, PageForm};

/// Records of one CPU of one buffer.
#[derive(Debug)]
pub(super) struct Stream<R> {
    cpu: u32,
    input: BufReader<Data<R>>,
    form: PageForm,
    page_size: usize,
    times: Times,
    /// Number of bytes according to the file's header; `None` for compressed data.
    promised: Option<u64>,
    time: u64,
    items: vec::IntoIter<Item>,
    is_done: bool,
}

/// One item of a stream.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub time: u64,
    pub cpu: u32,
    pub record: Record,
}

#[derive(Clone, Debug)]
pub(super) enum Record {
    /// A payload: its page, and its range there.
    Payload(Arc<[u8]>, Range<usize>),
    /// The kernel lost this number of records; 0 if unknown.
    Lost(u64),
    /// Damaged bytes.
    Damaged,
    /// The rest of the CPU's records is missing, with the reason.
    Cut(Arc<io::Error>),
}

impl<R: Read + Seek> Stream<R> {
    /// Creates the stream of the records in `data`, with pages of `page_size` bytes. `promised` is
    /// the length of plain data.
    pub(super) fn new(
        cpu: u32,
        data: Data<R>,
        promised: Option<u64>,
        (form, page_size): (PageForm, usize),
        times: Times,
        memory: usize,
    ) -> Self {
        Self {
            cpu,
            input: BufReader::with_capacity(memory.max(page_size), data),
            form,
            page_size,
            times,
            promised,
            time: 0,
            items: Vec::new().into_iter(),
            is_done: false,
        }
    }

    /// Returns the number of bytes of the file that were read.
    pub(super) fn done(&self) -> u64 {
        self.input.get_ref().done()
    }

    /// Reads the next page's records.
    fn advance(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        let page = self.input.by_ref().take(self.page_size as u64);
        let read = { page }.read_to_end(&mut bytes)? as u64;
        if let Some(promised) = &mut self.promised {
            *promised -= read.min(*promised);
        }
        if bytes.len() < self.page_size {
            self.is_done = true;
            if self.promised.is_some_and(|promised| promised > 0) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if bytes.is_empty() {
                return Ok(());
            }
        }
        let bytes: Arc<[u8]> = bytes.into();
        let mut items = Vec::new();
        match Page::new(&bytes, self.form) {
            Err(_) => items.push(self.item(self.time, Record::Damaged)),
            Ok(page) => {
                // An empty page of a CPU without records may have no time.
                if page.missed.is_some() || !page.data.is_empty() {
                    self.time = page.time;
                }
                if let Some(lost) = page.missed {
                    items.push(self.item(page.time, Record::Lost(lost)));
                }
                for record in page.records() {
                    let Ok(record) = record else {
                        items.push(self.item(self.time, Record::Damaged));
                        break;
                    };
                    self.time = record.time;
                    let start = record.payload.as_ptr().addr() - bytes.as_ptr().addr();
                    let place = start..start + record.payload.len();
                    items.push(self.item(record.time, Record::Payload(Arc::clone(&bytes), place)));
                }
            }
        }
        self.items = items.into_iter();
        Ok(())
    }

    fn item(&self, time: u64, record: Record) -> Item {
        Item {
            time: self.times.apply(time),
            cpu: self.cpu,
            record,
        }
    }
}

impl<R: Read + Seek> Iterator for Stream<R> {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(item);
            }
            if self.is_done {
                return None;
            }
            if let Err(error) = self.advance() {
                self.is_done = true;
                return Some(self.item(self.time, Record::Cut(Arc::new(error))));
            }
        }
    }
}

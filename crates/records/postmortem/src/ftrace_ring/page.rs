//! State of one sub-buffer.

use nostall_tracefile::linux::{Page, PageForm};

use crate::memory::Memory;

/// State of a sub-buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PageState {
    /// Each record ends where the next one starts.
    Sound,
    /// The image lacks the sub-buffer.
    Missing,
    /// More bytes are committed than fit. No record is read.
    Commit(u64),
    /// A record does not fit. The records before it are read.
    Cut {
        /// Offset of that record in the data.
        offset: usize,
        /// Bytes from there to the end of the committed data.
        unread: usize,
    },
    /// Its time is not between those of its neighbours.
    OddTime,
}

impl PageState {
    /// Returns the word for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sound => "sound",
            Self::Missing => "missing",
            Self::Commit(_) => "commit",
            Self::Cut { .. } => "cut",
            Self::OddTime => "odd_time",
        }
    }
}

/// A sub-buffer that is not empty.
#[derive(Clone, Copy, Debug)]
pub struct PageReport {
    /// Its number among the CPU's sub-buffers.
    pub index: u32,
    /// State of the sub-buffer.
    pub state: PageState,
    /// Number of readable records.
    pub records: u32,
    /// Times of the first and the last readable record, in the unit of the trace's clock. Without
    /// records, the sub-buffer's own time.
    pub times: (u64, u64),
    /// Boot of the records, from 0.
    pub boot: u32,
}

impl PageReport {
    /// Reads sub-buffer `index` at `address`; `None` if it is empty.
    pub(super) fn read(image: &Memory, address: u64, bytes: usize, index: u32) -> Option<Self> {
        let mut report = Self {
            index,
            state: PageState::Sound,
            records: 0,
            times: (0, 0),
            boot: 0,
        };
        let Some(bytes) = image.read(address, bytes) else {
            report.state = PageState::Missing;
            return Some(report);
        };
        let page = match Page::new(&bytes, PageForm::default()) {
            Ok(page) => page,
            Err(nostall_tracefile::linux::BadPage::Commit(commit)) => {
                report.state = PageState::Commit(commit);
                return Some(report);
            }
            Err(_) => return None,
        };
        report.times = (page.time, page.time);
        for record in page.records() {
            match record {
                Ok(record) => {
                    if report.records == 0 {
                        report.times.0 = record.time;
                    }
                    report.times.1 = record.time;
                    report.records += 1;
                }
                Err(bad) => {
                    report.state = PageState::Cut {
                        offset: bad.offset,
                        unread: bad.unread,
                    };
                }
            }
        }
        let is_empty = report.records == 0 && report.state == PageState::Sound;
        (!is_empty).then_some(report)
    }
}

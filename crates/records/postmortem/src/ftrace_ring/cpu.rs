//! One CPU's part of a ring buffer: its sub-buffers in the order of writing.

use super::meta::Meta;
use super::page::{PageReport, PageState};
use crate::memory::Memory;

/// One CPU's part of a ring buffer.
#[derive(Clone, Debug)]
pub struct Cpu {
    /// Number of the CPU.
    pub number: usize,
    /// Physical address of its description.
    pub meta: u64,
    /// Physical address of its first sub-buffer.
    pub first: u64,
    /// Sub-buffers that are not empty, in the order of writing. If the description is damaged, they
    /// may be in the order of their times.
    pub pages: Vec<PageReport>,
    /// Sentences about damage of the description. With any, Linux drops the CPU's records.
    pub problems: Vec<String>,
    /// Addresses of the kernel's function and object, which give its KASLR offset.
    pub(super) anchors: Option<(u64, u64)>,
}

impl Cpu {
    /// Reads the CPU whose description is at `at`. `known` is a sound description of the same
    /// buffer, and `first` the virtual address where this CPU's sub-buffers should start.
    pub(super) fn read(
        image: &Memory,
        number: usize,
        at: u64,
        header: u64,
        known: &Meta,
        first: u64,
    ) -> Self {
        let meta = Meta::read(image.container(), known.version, at);
        let mut cpu = Self {
            number,
            meta: at,
            first: at + header,
            pages: Vec::new(),
            problems: Vec::new(),
            anchors: None,
        };
        let order = match meta {
            Some(meta) if meta.agrees(known, first) => {
                cpu.anchors = (meta.text != 0).then_some((meta.text, meta.data));
                cpu.order(image, &meta, known, first)
            }
            _ => {
                let problem = "its description is missing or overwritten: \
                               the sub-buffers are in the order of their times";
                cpu.problems.push(problem.to_owned());
                None
            }
        };
        let never = meta.is_some_and(|meta| meta.head == 0 && meta.commit == 0);
        let page = |index: u32| {
            let address = cpu.first.checked_add(u64::from(index) * known.subbuf)?;
            PageReport::read(image, address, known.subbuf as usize, index)
        };
        match order {
            Some(order) => cpu.pages = order.into_iter().filter_map(page).collect(),
            None => {
                let is_there = |page: &PageReport| page.state != PageState::Missing;
                let pages = (0..known.subbufs as u32).filter_map(page);
                cpu.pages = pages.filter(is_there).collect();
                cpu.pages.sort_by_key(|page| page.times.0);
            }
        }
        if never && cpu.problems.is_empty() && !cpu.pages.is_empty() {
            let problem = "its description says that the CPU never recorded";
            cpu.problems.push(problem.to_owned());
        }
        cpu
    }

    /// Returns the sub-buffers from the oldest to the newest; `None` if the order is unknown.
    fn order(&mut self, image: &Memory, meta: &Meta, known: &Meta, first: u64) -> Option<Vec<u32>> {
        let mut problem = |text: &str| self.problems.push(text.to_owned());
        let same = meta.magic == known.magic
            && meta.word == known.word
            && (meta.subbuf, meta.subbufs) == (known.subbuf, known.subbufs);
        if !known.version.has_header() && !same {
            problem("the fixed numbers of its description are overwritten");
        }
        if meta.first != first {
            problem("the address of its first sub-buffer is overwritten");
        }
        let Some(table) = known.table(image, self.meta) else {
            problem(
                "its table of sub-buffers is no permutation: they are in the order of their times",
            );
            return None;
        };
        if meta.head == 0 && meta.commit == 0 {
            // The CPU was never online, and all sub-buffers are empty.
            return Some(table);
        }
        let (reader, ring) = table.split_first()?;
        let commit = known.index(first, meta.commit);
        let mut order = vec![*reader];
        if commit == Some(*reader) {
            return Some(order);
        }
        let place = |index: u32| ring.iter().position(|other| *other == index);
        let Some(head) = known.index(first, meta.head).and_then(place) else {
            problem(
                "the address of its oldest sub-buffer makes no sense: they are in the order of their times",
            );
            return None;
        };
        let commit = commit.and_then(place);
        if commit.is_none() {
            problem("the address of its newest sub-buffer makes no sense: all are read");
        }
        let last = match commit {
            Some(commit) => (commit + ring.len() - head) % ring.len(),
            None => ring.len() - 1,
        };
        order.extend((0..=last).map(|step| ring[(head + step) % ring.len()]));
        Some(order)
    }

    /// Marks sub-buffers whose time is odd, and numbers the boots: time steps back once for
    /// each.
    pub(super) fn tell_boots(&mut self) {
        let with_records: Vec<usize> = (0..self.pages.len())
            .filter(|at| self.pages[*at].records > 0)
            .collect();
        let mut boot = 0;
        // The last sub-buffer whose time is in order, and the previous one.
        let mut before: (Option<usize>, Option<usize>) = (None, None);
        for (nth, &at) in with_records.iter().enumerate() {
            let first = self.pages[at].times.0;
            let end = |of: Option<usize>| of.map_or(0, |of| self.pages[of].times.1);
            if first < end(before.0) {
                let next = with_records
                    .get(nth + 1)
                    .map(|next| self.pages[*next].times.0);
                if next.is_some_and(|next| next >= end(before.0)) {
                    self.set_odd(at, boot);
                    continue;
                }
                if before.1.is_some() && first >= end(before.1) {
                    // The previous sub-buffer is far ahead of both neighbours.
                    let odd = before.0.unwrap_or_default();
                    self.set_odd(odd, boot);
                    before = (before.1, None);
                } else {
                    boot += 1;
                    before = (None, None);
                }
            }
            self.pages[at].boot = boot;
            before = (Some(at), before.0);
        }
        // Sub-buffers without records belong to the boot of the one before them.
        let mut boot = 0;
        for page in &mut self.pages {
            if page.records > 0 {
                boot = page.boot;
            }
            page.boot = boot;
        }
    }

    fn set_odd(&mut self, at: usize, boot: u32) {
        let page = &mut self.pages[at];
        page.boot = boot;
        if page.state == PageState::Sound {
            page.state = PageState::OddTime;
        }
    }

    /// Returns the number of readable records.
    pub fn records(&self) -> u64 {
        self.pages.iter().map(|page| u64::from(page.records)).sum()
    }

    /// Returns the sub-buffers that are not wholly readable.
    pub fn damaged(&self) -> impl Iterator<Item = &PageReport> {
        self.pages
            .iter()
            .filter(|page| page.state != PageState::Sound)
    }

    /// Returns whether the next boot of Linux would show the CPU's records: one bad record hides
    /// all.
    pub fn is_shown_by_linux(&self) -> bool {
        let is_fine =
            |page: &PageReport| matches!(page.state, PageState::Sound | PageState::OddTime);
        self.problems.is_empty() && self.pages.iter().all(is_fine)
    }

    /// Returns the times of the first and the last record of a boot.
    pub(super) fn times(&self, boot: u32) -> Option<(u64, u64)> {
        let mut pages = self.pages.iter();
        let is_of = |page: &&PageReport| {
            page.boot == boot && page.records > 0 && page.state != PageState::OddTime
        };
        let first = pages.find(is_of)?;
        let last = pages.rfind(is_of).unwrap_or(first);
        Some((first.times.0, last.times.1))
    }

    /// Returns the number of boots.
    pub(super) fn boots(&self) -> u32 {
        self.pages
            .iter()
            .map(|page| page.boot + 1)
            .max()
            .unwrap_or(0)
    }
}

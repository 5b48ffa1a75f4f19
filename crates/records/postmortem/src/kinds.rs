//! The kinds of records that are found by a signature. To add one: a file with its search, its
//! reading and its output, such as `banner.rs`, and its line in [`KINDS`].

use std::ops::Range;

#[cfg(feature = "cli")]
use crate::cli::{buffers, kernel_logs, part::Output, rings, traces};
use crate::discovery::Discovery;
use crate::memory::Memory;
use crate::scan::Finder;
use crate::{banner, ftrace_ring, log_ring, trace_region, vmcoreinfo};

/// A kind of records.
pub(crate) struct Kind {
    finder: &'static Finder,
    /// Its output by the command.
    #[cfg(feature = "cli")]
    pub output: &'static Output,
}

macro_rules! kind {
    ($finder:path, $output:path) => {
        Kind {
            finder: &$finder,
            #[cfg(feature = "cli")]
            output: &$output,
        }
    };
}

/// The kinds, in the order of output.
pub(crate) static KINDS: &[Kind] = &[
    kind!(vmcoreinfo::FINDER, kernel_logs::OUTPUT),
    kind!(log_ring::FINDER, rings::OUTPUT),
    kind!(trace_region::FINDER, traces::OUTPUT),
    kind!(ftrace_ring::FINDER, buffers::OUTPUT),
    kind!(banner::FINDER, banner::output::OUTPUT),
];

impl<'a> Discovery<'a> {
    /// Searches all of the memory, for the kinds of [`within`](Self::within).
    pub fn new(memory: &'a Memory) -> Self {
        Self::within(memory, 0..u64::MAX, Some(0..u64::MAX))
    }

    /// Searches a part of the memory for records that start in it, but not for banners. An end of
    /// [`u64::MAX`] is the end of the address space. `regions` is the part that pstore regions lie
    /// in; without it, they are not searched for.
    pub fn within(memory: &'a Memory, within: Range<u64>, regions: Option<Range<u64>>) -> Self {
        let finders = KINDS.iter().map(|kind| kind.finder);
        let finders: Vec<_> = finders.filter(|finder| !finder.on_request).collect();
        Self::of_kinds(memory, within, regions, &finders)
    }

    /// Searches like [`within`](Self::within), and for banners.
    pub fn of_all_kinds(
        memory: &'a Memory,
        within: Range<u64>,
        regions: Option<Range<u64>>,
    ) -> Self {
        let finders: Vec<_> = KINDS.iter().map(|kind| kind.finder).collect();
        Self::of_kinds(memory, within, regions, &finders)
    }
}

//! Detection of pstore regions with unknown addresses and parameters in a dump.
//!
//! Headers are found by their signatures. The distances between headers give the zones' sizes, and
//! those give Linux's parameters. Open questions are in [`FoundRegion::doubts`].
//!
//! Ordinary data sometimes resembles a region: four letters and zeros look like an empty trace
//! zone. Each candidate therefore has a [`Grade`], reasons and doubts. An empty region may be
//! [`Doubtful`](Grade::Doubtful) and still be real.

mod found;
mod hypothesis;
mod records;
mod report;
mod scorer;
mod search;
mod solve;

use std::ops::Range;
use std::vec::Vec;

use crate::memory::container::Container;
use crate::memory::run::Run;
use crate::memory::slices::Slices;
pub use found::{Detection, FoundRegion, Grade};
use hypothesis::Hypothesis;
use search::{Candidate, Search};

/// Maximum number of returned candidates.
const MOST: usize = 1024;

/// Returns all candidates in `bytes`; addresses are offsets.
///
/// It takes a second or two for 4 GiB, and never much longer, for any contents.
pub fn detect(bytes: &[u8]) -> Detection {
    detect_runs([(0, bytes)])
}

/// Returns all candidates in several runs of bytes, each with the address of its first byte.
///
/// A region may extend over runs with adjacent addresses. If runs overlap, the one that starts
/// lower has the bytes.
pub fn detect_runs<'a>(runs: impl IntoIterator<Item = (u64, &'a [u8])>) -> Detection {
    in_container(&Slices::new(runs), 0..u64::MAX)
}

/// Returns all candidates in a part of the memory. An end of [`u64::MAX`] is the end of the address
/// space.
pub(crate) fn in_container(memory: &dyn Container, window: Range<u64>) -> Detection {
    beside(memory, window, &mut |_, _, _| {})
}

/// Returns all candidates like [`in_container`], and passes each searched piece to `also`, with its
/// run and position.
pub(crate) fn beside(
    memory: &dyn Container,
    window: Range<u64>,
    also: &mut dyn FnMut(&Run<'_>, usize, &[u8]),
) -> Detection {
    let mut search = Search::default();
    let searched = Run::all(memory, window).filter_map(|run| {
        let candidates = search.run(&run, also);
        // A dump may have very many runs.
        (!candidates.is_empty()).then_some((run, candidates))
    });
    let searched: Vec<_> = searched.collect();
    let solved = solve::solve(&searched);
    let mut is_complete = !search.is_cut_short && !solved.is_cut_short;

    let mut regions: Vec<(Hypothesis, Vec<Hypothesis>)> = Vec::new();
    let hypotheses = solved.hypotheses.into_iter();
    for hypothesis in hypotheses.filter(Hypothesis::is_noteworthy) {
        let mut others = (0..regions.len()).filter(|&i| overlap(&regions[i].0, &hypothesis));
        let (other, another) = (others.next(), others.next());
        let headers = &searched[hypothesis.run].1;
        match other {
            Some(other)
                if another.is_some() || !goes_on(headers, &regions[other].0, &hypothesis) =>
            {
                regions[other].1.push(hypothesis);
            }
            _ if hypothesis.params().is_none() => {}
            _ if regions.len() == MOST => is_complete = false,
            _ => regions.push((hypothesis, Vec::new())),
        }
    }
    let found = regions.iter().filter_map(|(hypothesis, others)| {
        report::found(&searched[hypothesis.run].0, hypothesis, others)
    });
    Detection {
        found: found.collect(),
        is_complete,
        searched: search.searched(),
    }
}

/// Returns whether a hypothesis that overlaps a better one is a region of its own: several zones
/// outside have headers. Zones from elsewhere before a region may look like its first ones.
fn goes_on(headers: &[Candidate], better: &Hypothesis, hypothesis: &Hypothesis) -> bool {
    const SEVERAL: usize = 3;
    let until = |end: usize| headers.partition_point(|header| header.at < end);
    let (start, end) = (hypothesis.start, hypothesis.start + hypothesis.used());
    let (first, last) = (better.start, better.start + better.used());
    let before = until(first.max(start)) - until(start);
    let after = until(end) - until(last.min(end));
    hypothesis.grade() == Grade::Convincing
        && before + after >= SEVERAL + hypothesis.unexplained_headers
}

fn overlap(a: &Hypothesis, b: &Hypothesis) -> bool {
    a.run == b.run && a.start < b.start + b.used() && b.start < a.start + a.used()
}

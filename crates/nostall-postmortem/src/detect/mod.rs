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
pub(crate) mod run;
mod search;
mod solve;
mod witness;

use std::vec::Vec;

pub use found::{Detection, FoundRegion, Grade};
use hypothesis::Hypothesis;
use run::{Prefetch, Run};
use search::Search;

/// Maximum number of returned candidates.
const MOST: usize = 1024;

/// Returns all candidates in `bytes`; addresses are offsets.
///
/// It takes a second or two for 4 GiB, and never much longer, for any contents.
pub fn detect(bytes: &[u8]) -> Detection {
    in_runs(&[Run::of(0, bytes)], None)
}

/// Returns all candidates in several runs of bytes, each with the address of its first byte.
///
/// A region may extend over runs with adjacent addresses. If runs overlap, the one that starts
/// lower has the bytes.
pub fn detect_runs<'a>(runs: impl IntoIterator<Item = (u64, &'a [u8])>) -> Detection {
    let mut runs: Vec<(u64, &[u8])> = runs.into_iter().collect();
    runs.sort_by_key(|(address, _)| *address);
    let mut end = 0u64;
    let apart = runs.into_iter().filter_map(|(address, bytes)| {
        let known = usize::try_from(end.saturating_sub(address)).ok()?;
        let bytes = bytes.get(known..).filter(|bytes| !bytes.is_empty())?;
        let start = address + known as u64;
        end = start.saturating_add(bytes.len() as u64);
        Some((start, bytes))
    });
    let apart: Vec<_> = apart.collect();
    let data = apart
        .iter()
        .map(|(start, bytes)| *start..start.saturating_add(bytes.len() as u64));
    in_runs(&Run::join(apart.iter().copied(), data), None)
}

/// Returns all candidates in these runs. Calls `prefetch` with each part before it is searched.
pub(crate) fn in_runs(runs: &[Run<'_>], prefetch: Option<Prefetch<'_>>) -> Detection {
    let mut search = Search::default();
    let searched = runs.iter().map(|run| (run, search.run(run, prefetch)));
    let searched: Vec<_> = searched.collect();
    let solved = solve::solve(&searched);
    let mut is_complete = !search.is_cut_short && !solved.is_cut_short;

    let mut regions: Vec<(Hypothesis, Vec<Hypothesis>)> = Vec::new();
    let hypotheses = solved.hypotheses.into_iter();
    for hypothesis in hypotheses.filter(Hypothesis::is_noteworthy) {
        let other = regions
            .iter()
            .position(|(other, _)| overlap(other, &hypothesis));
        match other {
            Some(other) => regions[other].1.push(hypothesis),
            None if hypothesis.params().is_none() => {}
            None if regions.len() == MOST => is_complete = false,
            None => regions.push((hypothesis, Vec::new())),
        }
    }
    let found = regions.iter().filter_map(|(hypothesis, others)| {
        report::found(&runs[hypothesis.run], hypothesis, others)
    });
    Detection {
        found: found.collect(),
        is_complete,
        searched: search.searched(),
    }
}

fn overlap(a: &Hypothesis, b: &Hypothesis) -> bool {
    a.run == b.run && a.start < b.start + b.used() && b.start < a.start + a.used()
}

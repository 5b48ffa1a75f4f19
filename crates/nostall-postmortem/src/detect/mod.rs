//! Regions in a dump of which nothing is known.
//!
//! Headers are found by their signatures; from the distances between them follow the zones' sizes,
//! and from these the parameters that Linux had. Open questions are in [`FoundRegion::doubts`].
//!
//! Ordinary data resembles a region now and then: four letters and zeros have the form
//! of an empty trace zone. Each candidate therefore has a [`Grade`], its reasons and its
//! doubts. An empty region may be [`Doubtful`](Grade::Doubtful) and real nevertheless.

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

/// Most candidates returned.
const MOST: usize = 1024;

/// All candidates in `bytes`, whose addresses are offsets.
///
/// Takes a second or two for 4 GiB, and never much longer, for any contents.
pub fn detect(bytes: &[u8]) -> Detection {
    in_runs(&[Run::of(0, bytes)], None)
}

/// All candidates in several runs of bytes, each with the address of its first.
///
/// A region may go on from one run to the next where their addresses are adjacent. Of
/// runs that overlap, the one that starts lower has the bytes.
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

/// All candidates in these runs. Calls `prefetch` with each part that is searched next.
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

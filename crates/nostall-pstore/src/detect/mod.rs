//! Regions in a dump of which nothing is known.
//!
//! Headers are found by their signatures; from the distances between them follow
//! the zones' sizes, and from these the parameters that Linux had. What cannot be
//! known is said ([`Found::doubts`]).

mod hypothesis;
mod records;
mod report;
mod search;
mod solve;
mod witness;

use std::string::String;
use std::vec::Vec;

use crate::format::LinuxVersion;
use crate::geometry::Geometry;
use crate::layout::Params;
use hypothesis::Hypothesis;

/// Most regions returned.
const MOST: usize = 256;

/// A region, and how it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where it starts in the bytes given.
    pub start: usize,
    /// How many of the bytes given are its: its size, or fewer if the dump ends
    /// before.
    pub len: usize,
    /// How to read it.
    pub geometry: Geometry,
    /// The parameters that would make Linux divide it so.
    pub params: Params,
    /// The kernel that wrote it, if there are trace zones.
    pub version: Option<LinuxVersion>,
    /// How likely it is to be one: to compare with others.
    pub bits: i32,
    /// How each thing was found out, a line each.
    pub why: Vec<String>,
    /// What was not, a line each.
    pub doubts: Vec<String>,
}

/// All regions in `bytes`, the likeliest first; none overlaps another.
///
/// Takes a second or two for 4 GiB, and never much longer, whatever they hold.
pub fn detect(bytes: &[u8]) -> Vec<Found> {
    let all = solve::solve(bytes, &search::search(bytes));
    let mut regions: Vec<(Hypothesis, Vec<Hypothesis>)> = Vec::new();
    for hypothesis in all.into_iter().filter(is_convincing) {
        let other = regions
            .iter()
            .position(|(other, _)| overlap(other, &hypothesis));
        match other {
            Some(other) => regions[other].1.push(hypothesis),
            None if regions.len() < MOST && hypothesis.params().is_some() => {
                regions.push((hypothesis, Vec::new()));
            }
            None => {}
        }
    }
    let found = regions
        .iter()
        .filter_map(|(hypothesis, others)| report::found(bytes, hypothesis, others));
    found.collect()
}

/// All regions in several runs of bytes, each with the address of its first; the
/// addresses returned are those of the regions. None goes on from one run to the
/// next.
pub fn detect_runs<'a>(runs: impl IntoIterator<Item = (u64, &'a [u8])>) -> Vec<(u64, Found)> {
    let mut all = Vec::new();
    for (address, bytes) in runs {
        let at = |found: Found| (address.saturating_add(found.start as u64), found);
        all.extend(detect(bytes).into_iter().map(at));
    }
    all.sort_by_key(|(_, found)| -found.bits);
    all
}

fn overlap(a: &Hypothesis, b: &Hypothesis) -> bool {
    a.start < b.start + b.used() && b.start < a.start + a.used()
}

/// Two headers in the right places; or one and something that confirms it.
fn is_convincing(hypothesis: &Hypothesis) -> bool {
    let evidence = hypothesis.evidence;
    match evidence.headers {
        0 => false,
        1 => evidence.bits >= 22 && evidence.parities + evidence.full + evidence.contents > 0,
        _ => evidence.bits >= 40 && hypothesis.score >= 40,
    }
}

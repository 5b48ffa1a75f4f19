//! Derives regions from headers: hypotheses from the distances between headers, judged by the
//! bytes.
//!
//! A region is solved from a pivot: a header that may be the first trace zone's, or the last or
//! last but one of all. The solver then finds the zones after and before it. The distances between
//! adjacent headers are the zones' sizes, or twice that if a header is missing. Linux's arithmetic
//! allows few of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::vec::Vec;

use super::hypothesis::{Hypothesis, Records, Traces};
use super::records;
use super::scorer::{Evidence, Scorer, ZoneGuess, has_parity};
use super::search::{CUT, Candidate};
use crate::memory::run::Run;
use nostall_pstore::{ByteOrder, HEADER, MAX_PARITY, SIGNATURE, ZoneHeader, ZoneKind, ZoneOrder};

/// Limits for the number of zone checks: in total, and for the first try of each pivot.
const BUDGET: usize = 1 << 23;
const BUDGET_FIRST: usize = 1 << 14;
const BUDGET_EACH: usize = 1 << 19;

/// Limits for the number of kept hypotheses: in total, and of one pivot.
const KEPT: usize = 4096;
const KEPT_EACH: usize = 6;

/// Maximum number of matching parity sizes per position. Half a size of 127 matches by chance; more
/// match only where all bytes are equal.
const CHECKS: usize = 6;

/// Difference in bits at which trace zones are not examined further.
const MUCH: i32 = 40;

/// Number of headers inside a zone's data that may occur by chance.
const CROWD: usize = 3;

/// Distance beyond which headers do not support each other: 64 MiB.
const NEAR: usize = 1 << 26;

/// Range of zone and region sizes, as powers of two.
const SIZES: core::ops::Range<u32> = 4..31;

/// A memory run and the possible headers in it.
pub(super) type Searched<'a> = (Run<'a>, Vec<Candidate>);

/// Hypotheses for several runs.
#[derive(Debug, Default)]
pub(super) struct Solved {
    /// Best hypotheses, in descending order.
    pub(super) hypotheses: Vec<Hypothesis>,
    /// Whether some were not tried.
    pub(super) is_cut_short: bool,
}

/// Returns the hypotheses that are worth examining.
pub(super) fn solve(searched: &[Searched<'_>]) -> Solved {
    let mut sites = Vec::new();
    for (index, (run, candidates)) in searched.iter().enumerate() {
        sites.extend(Site::all(index, run, candidates));
    }
    let solvers: Vec<Solver<'_>> = sites.iter().flat_map(Site::solvers).collect();
    let mut pivots: Vec<Pivot> = Vec::new();
    for (index, solver) in solvers.iter().enumerate() {
        pivots.extend(solver.pivots(index));
    }
    // A flood of headers without further evidence comes last. Among equals, the limit is spread over
    // all of memory.
    let mut order: Vec<u32> = (0..).take(pivots.len()).collect();
    order.sort_unstable_by_key(|&index| {
        (
            Reverse(pivots[index as usize].promise),
            index.reverse_bits(),
        )
    });

    let mut solved = Solved::default();
    let all = &mut solved.hypotheses;
    let mut budget = BUDGET;
    for each in [BUDGET_FIRST, BUDGET_EACH] {
        // A pivot that needs more checks waits for the others.
        order.retain(|&index| {
            let given = each.min(budget);
            if given == 0 {
                return true;
            }
            let Pivot { solver, at, .. } = pivots[index as usize];
            let solver = &solvers[solver as usize];
            let scorer = solver.scorer(given);
            let is_done = solver.solve(&scorer, at as usize, all);
            budget -= given - scorer.budget();
            !is_done
        });
    }
    solved.is_cut_short = !order.is_empty();
    solved.is_cut_short |= best(all, KEPT);
    solved
}

/// Keeps the best `count` hypotheses, sorted. Returns whether there were more.
fn best(all: &mut Vec<Hypothesis>, count: usize) -> bool {
    all.sort_by_key(|hypothesis| Reverse((hypothesis.grade(), hypothesis.score)));
    let more = all.len() > count;
    all.truncate(count);
    more
}

/// Headers of one run and one byte order, all at even or all at odd positions. The zones of a
/// region are an even number of bytes apart.
struct Site<'a> {
    index: usize,
    run: &'a Run<'a>,
    order: ByteOrder,
    plain: Vec<usize>,
    /// Trace headers by signature.
    traces: BTreeMap<u32, Vec<usize>>,
    all_traces: Vec<usize>,
    /// Headers whose zone, or the one before it, has evidence besides the header.
    proven: BTreeSet<usize>,
}

/// Returns the parity sizes from `least` on with which the header at `at` is correct, if its zone
/// ends at `end`. The header's parity is at the end.
fn parities(run: &Run<'_>, at: usize, end: usize, least: usize) -> Vec<usize> {
    // The bytes at the zone's end that may be parity.
    let from = end.saturating_sub(MAX_PARITY).max(at + HEADER);
    let zone = end.checked_sub(from).and_then(|len| run.get(from, len));
    let (Some(header), Some(zone)) = (run.array(at), zone) else {
        return Vec::new();
    };
    let mut sum = header.iter().fold(0, |sum, byte| sum ^ byte);
    let sizes = (1..=MAX_PARITY).zip(zone.iter().rev());
    let likely = sizes.filter(|(parity, byte)| {
        sum ^= **byte;
        // All bytes of a codeword sum to 0, because 1 is a root.
        sum == 0 && *parity >= least
    });
    let checked = likely.map(|(parity, _)| parity).take(CHECKS);
    checked
        .filter(|parity| has_parity(&header, &zone[zone.len() - parity..]))
        .collect()
}

impl<'a> Site<'a> {
    fn all(index: usize, run: &'a Run<'a>, candidates: &[Candidate]) -> Vec<Self> {
        let mut sites = Vec::new();
        for order in [ByteOrder::Little, ByteOrder::Big] {
            for odd in [0, 1] {
                let mut site = Self {
                    index,
                    run,
                    order,
                    plain: Vec::new(),
                    traces: BTreeMap::new(),
                    all_traces: Vec::new(),
                    proven: BTreeSet::new(),
                };
                for candidate in candidates {
                    if candidate.order != order || candidate.at & 1 != odd {
                        continue;
                    }
                    let signature = candidate.header.signature;
                    match candidate.version() {
                        None => site.plain.push(candidate.at),
                        Some(_) => {
                            site.traces.entry(signature).or_default().push(candidate.at);
                            site.all_traces.push(candidate.at);
                        }
                    }
                }
                // A dump may have a million runs without any header.
                if !site.plain.is_empty() || !site.all_traces.is_empty() {
                    site.prove();
                    sites.push(site);
                }
            }
        }
        sites
    }

    /// Finds the headers with evidence that scattered headers do not have by chance. That is parity
    /// at the end of the zone up to the next header, or three zones of one size.
    fn prove(&mut self) {
        let mut all = [&self.plain[..], &self.all_traces].concat();
        all.sort_unstable();
        let proven = |i: usize| {
            let gap = |i: usize| Some(all.get(i + 1)? - all.get(i)?);
            let is_equal = gap(i).is_some() && gap(i) == gap(i + 1) && gap(i) == gap(i + 2);
            is_equal || gap(i).is_some_and(|gap| self.has_parity(all[i], gap))
        };
        let indices = (0..all.len()).filter(|&i| proven(i));
        // The header after such zones may be the one from which the region is solved.
        let near = indices.flat_map(|i| &all[i..all.len().min(i + 5)]);
        self.proven = near.copied().collect();
    }

    /// Returns whether the header at `at` has parity at the end of a zone of `gap` bytes. Few bytes
    /// of it are no evidence.
    fn has_parity(&self, at: usize, gap: usize) -> bool {
        const LEAST: usize = 4;
        gap <= 1 << SIZES.end && !parities(self.run, at, at + gap, LEAST).is_empty()
    }

    fn solvers(&self) -> impl Iterator<Item = Solver<'_>> {
        let solver = |trace, traces| Solver {
            index: self.index,
            run: self.run,
            order: self.order,
            trace,
            plain: &self.plain,
            traces,
            all_traces: &self.all_traces,
            proven: &self.proven,
        };
        let traces = self.traces.iter();
        let traces = traces.map(move |(signature, traces)| solver(*signature, traces));
        iter::once(solver(SIGNATURE, &[])).chain(traces)
    }
}

/// A header from which a region is solved. It is small, because there may be millions.
#[derive(Clone, Copy)]
struct Pivot {
    /// Index of its solver.
    solver: u32,
    /// Index among the trace headers, or among the plain ones if there are none.
    at: u32,
    /// Expected evidence; higher is better.
    promise: u8,
}

/// Headers of one byte order and one kernel version.
#[derive(Clone, Copy)]
struct Solver<'a> {
    index: usize,
    run: &'a Run<'a>,
    order: ByteOrder,
    trace: u32,
    plain: &'a [usize],
    /// Headers with the signature `trace`.
    traces: &'a [usize],
    all_traces: &'a [usize],
    proven: &'a BTreeSet<usize>,
}

/// The trace zones, or the position where they would be.
#[derive(Clone, Copy)]
struct Middle {
    start: usize,
    traces: Option<Traces>,
}

impl Middle {
    fn end(self) -> usize {
        let traces = self.traces;
        self.start + traces.map_or(0, |traces| traces.zone * traces.count)
    }
}

/// The zones before the middle.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Front {
    start: usize,
    records: Records,
    console: usize,
    /// Size of the pmsg zone between these and the trace zones, in bytes; 0 for none.
    pmsg: usize,
    evidence: Evidence,
}

impl Solver<'_> {
    /// Returns the pivots of the solver with this index.
    fn pivots(&self, index: usize) -> impl Iterator<Item = Pivot> {
        let (ats, kind) = match self.traces {
            [] => (self.plain, ZoneKind::Console),
            traces => (traces, ZoneKind::Ftrace),
        };
        ats.iter().zip(0..).map(move |(at, number)| Pivot {
            solver: index as u32,
            at: number,
            promise: self.promise(*at, kind) + 4 * u8::from(self.proven.contains(at)),
        })
    }

    /// Solves a pivot. Returns whether everything was tried.
    fn solve(&self, scorer: &Scorer<'_>, at: usize, all: &mut Vec<Hypothesis>) -> bool {
        let middles = if self.traces.is_empty() {
            self.without_traces(at)
        } else {
            self.with_traces(at)
        };
        self.pivot(scorer, &middles, all)
    }

    /// Returns the expected evidence of the header at `at`: its contents, or a plain signature near
    /// it.
    fn promise(&self, at: usize, kind: ZoneKind) -> u8 {
        let Some(header) = self.run.array(at) else {
            return 0;
        };
        let header = ZoneHeader::decode(header, self.order);
        if header.size > 0 {
            return 3;
        }
        let next = self.plain.partition_point(|&plain| plain <= at);
        let is_near = |other: Option<&usize>| other.is_some_and(|&o| o.abs_diff(at) <= NEAR);
        let before = next - usize::from(self.is_plain(at));
        match kind {
            _ if is_near(self.plain.get(next)) => 2,
            _ if is_near(
                before
                    .checked_sub(1)
                    .and_then(|before| self.plain.get(before)),
            ) =>
            {
                2
            }
            ZoneKind::Ftrace => 0,
            _ => 1,
        }
    }

    fn scorer(&self, budget: usize) -> Scorer<'_> {
        Scorer::new(self.run, self.order, self.trace, budget)
    }

    /// Tries all zones around these middles. Returns whether everything was tried.
    fn pivot(&self, scorer: &Scorer<'_>, middles: &[Middle], all: &mut Vec<Hypothesis>) -> bool {
        let Some(first) = middles.first() else {
            return true;
        };
        let mut here = Vec::new();
        for parity in self.parities(scorer, first.start) {
            let mut fronts: Option<(usize, Vec<Front>)> = None;
            for (middle, traces) in self.likely(scorer, middles, parity) {
                let fronts = match &fronts {
                    Some((start, fronts)) if *start == middle.start => fronts,
                    _ => {
                        let new = self.fronts_of(scorer, middle, parity);
                        &fronts.insert((middle.start, new)).1
                    }
                };
                for (pmsg, last) in self.pmsgs(scorer, middle.end(), parity) {
                    if scorer.spend(fronts.len()).is_none() {
                        break;
                    }
                    for front in fronts {
                        if front.pmsg > 0 && pmsg > 0 {
                            continue;
                        }
                        let evidence = front.evidence + traces + last;
                        here.extend(self.judged(front, middle, pmsg, parity, evidence));
                    }
                }
            }
        }
        best(&mut here, KEPT_EACH);
        all.extend(here);
        if all.len() > 2 * KEPT {
            best(all, KEPT);
        }
        scorer.budget() > 0
    }

    fn judged(
        &self,
        front: &Front,
        middle: Middle,
        pmsg: usize,
        parity: usize,
        evidence: Evidence,
    ) -> Option<Hypothesis> {
        let mut hypothesis = Hypothesis {
            run: self.index,
            start: front.start,
            records: front.records,
            console: front.console,
            traces: middle.traces,
            pmsg: front.pmsg + pmsg,
            zone_order: if front.pmsg > 0 {
                ZoneOrder::Linux6_2
            } else {
                ZoneOrder::Linux4_0
            },
            parity,
            order: self.order,
            trace: self.trace,
            evidence,
            unexplained_headers: 0,
            score: 0,
        };
        let used = hypothesis.used();
        if evidence.headers == 0 || evidence.bits < 20 || used > i32::MAX as usize {
            return None;
        }
        let within = |ats: &[usize]| {
            let to = ats.partition_point(|&at| at < front.start + used);
            to - ats.partition_point(|&at| at < front.start)
        };
        // Headers of all kernels count: a hypothesis with headers inside a zone explains less.
        let headers = within(self.plain) + within(self.all_traces);
        hypothesis.unexplained_headers =
            headers.saturating_sub(evidence.headers + evidence.wrong_sizes);
        hypothesis.score = evidence.bits + hypothesis.usual(self.run.len())
            - 14 * hypothesis.unexplained_headers.min(1000) as i32;
        Some(hypothesis)
    }

    /// Returns the parity sizes that headers near `at` suggest; no parity is always possible.
    fn parities(&self, scorer: &Scorer<'_>, at: usize) -> Vec<usize> {
        let mut counts = [0usize; MAX_PARITY + 1];
        let near = |ats: &[usize]| {
            let middle = ats.partition_point(|&other| other < at);
            ats[middle.saturating_sub(4)..ats.len().min(middle + 5)].to_vec()
        };
        let mut headers = near(self.plain);
        headers.extend(near(self.traces));
        headers.sort_unstable();
        for (i, &header) in headers.iter().enumerate() {
            let next = headers.get(i + 1).copied();
            if scorer.spend(2).is_none() {
                break;
            }
            if let Some(next) = next {
                self.count_parities(header, next, &mut counts);
            }
            // The ends of the last header's zone, and of one before a gap, are unknown.
            if i + 1 == headers.len() || header == at {
                for log in SIZES {
                    let _ = scorer.spend(1);
                    self.count_parities(header, header + (1 << log), &mut counts);
                }
            }
        }
        let mut parities: Vec<usize> = (1..=MAX_PARITY).filter(|&p| counts[p] > 0).collect();
        parities.sort_by_key(|&parity| usize::MAX - counts[parity] * parity.min(5));
        parities.truncate(3);
        parities.push(0);
        parities
    }

    /// Counts the [`parities`] with which the header at `at` is correct.
    fn count_parities(&self, at: usize, end: usize, counts: &mut [usize; MAX_PARITY + 1]) {
        for parity in parities(self.run, at, end, 1) {
            counts[parity] += 1;
        }
    }

    /// Returns middles of trace zones whose first available header has index `first`.
    fn with_traces(&self, first: usize) -> Vec<Middle> {
        let at = self.traces[first];
        let gap = |i: usize| Some(self.traces.get(i + 1)? - self.traces.get(i)?);
        let before = first.checked_sub(1).and_then(gap);
        // No region starts in the middle of equal zones.
        if before.is_some() && before == gap(first) || self.is_lonely(first) {
            return Vec::new();
        }
        let is_trace = |at: usize| self.traces.binary_search(&at).is_ok();
        let mut middles = Vec::new();
        for (zone, is_gap) in self.trace_sizes(first) {
            if zone <= HEADER || at >= zone && is_trace(at - zone) {
                continue;
            }
            let mut count = 1;
            while is_trace(at + count * zone) || is_trace(at + (count + 1) * zone) {
                count += 1;
            }
            for missing in 0..=usize::from(is_gap) {
                let Some(start) = at.checked_sub(missing * zone) else {
                    break;
                };
                let counts = count + missing..=2 * count + 2;
                let traces = counts.filter_map(|count| Traces::new(zone, count));
                middles.extend(traces.take(2).map(|traces| Middle {
                    start,
                    traces: Some(traces),
                }));
            }
        }
        middles
    }

    /// Returns whether trace header `first` has no support: neither a header nearby, nor the bytes
    /// after it.
    fn is_lonely(&self, first: usize) -> bool {
        let at = self.traces[first];
        let company = |others: &[usize]| {
            let next = others.partition_point(|&other| other <= at);
            let after = others.get(next).is_some_and(|&next| next - at <= NEAR);
            let before = others[..next].iter().rev().find(|&&other| other < at);
            after || before.is_some_and(|before| at - before <= NEAR)
        };
        let records = || {
            let header = self.run.array(at);
            let header = header.map(|header| ZoneHeader::decode(header, self.order));
            header.is_some_and(|header| records::look(self.run, at, header, self.order).is_some())
        };
        !(company(self.traces) || company(self.plain) || records())
    }

    /// Returns possible sizes of trace zones: the distance to the next header, or half of it if a
    /// header is missing (then a gap). If nothing follows, powers of two.
    fn trace_sizes(&self, first: usize) -> Vec<(usize, bool)> {
        let at = self.traces[first];
        let next_plain = self.plain.partition_point(|&plain| plain < at);
        let next_plain = self.plain.get(next_plain).map(|next| next - at);
        let next_trace = self.traces.get(first + 1).map(|next| next - at);
        let gaps = [next_trace, next_plain].into_iter().flatten();
        let gaps = gaps.clone().chain(gaps.map(|gap| gap / 2));
        let mut sizes: Vec<(usize, bool)> = gaps.map(|gap| (gap, true)).collect();
        sizes.extend(self.alone(at).map(|size| (size, false)));
        // The second of two zones, if the first has no header: a power of two precedes it.
        if let (None, Some(before)) = (next_trace, self.before(at).last()) {
            let rests = SIZES.map(|log| (at - before).checked_sub(1 << log));
            sizes.extend(rests.flatten().map(|size| (size, true)));
        }
        sizes.retain(|(size, _)| size % 2 == 0 && *size <= i32::MAX as usize);
        sizes.sort_unstable_by_key(|&(size, is_gap)| (size, !is_gap));
        sizes.dedup_by_key(|(size, _)| *size);
        sizes
    }

    /// Returns the powers of two that may be the size of a zone at `at`. The zone may extend to the
    /// next header, or some way beyond the end of the bytes.
    fn alone(&self, at: usize) -> impl Iterator<Item = usize> {
        let next = |ats: &[usize]| {
            let next = ats.partition_point(|&other| other <= at);
            ats.get(next).map_or(usize::MAX, |next| next - at)
        };
        let room = next(self.plain).min(next(self.traces));
        let reach = self.reach(at);
        SIZES
            .map(|log| 1usize << log)
            .take_while(move |&size| size <= room && size < reach)
    }

    /// Returns the maximum size of a zone at `at`, because the dump may be cut off.
    fn reach(&self, at: usize) -> usize {
        let here = self.run.len().saturating_sub(at);
        let says = self.run.array(at).map_or(0, |header| {
            HEADER + ZoneHeader::decode(header, self.order).size as usize
        });
        says.max(here).min(1 << 31).saturating_mul(CUT)
    }

    /// Returns middles without trace zones. Plain header `last` belongs to the zone after them, or
    /// to the last zone.
    fn without_traces(&self, last: usize) -> Vec<Middle> {
        let gap = |i: usize| Some(self.plain.get(i + 1)? - self.plain.get(i)?);
        let at = self.plain[last];
        let before = last.checked_sub(1).and_then(gap);
        // No region ends in the middle of equal zones.
        if before.is_some() && before == gap(last) && before == gap(last + 1) {
            return Vec::new();
        }
        let ends = before.into_iter().chain(self.alone(at));
        let mut starts: Vec<usize> = ends.map(|size| at + size).collect();
        starts.push(at);
        starts.sort_unstable();
        starts.dedup();
        let middle = |start| Middle {
            start,
            traces: None,
        };
        starts.into_iter().map(middle).collect()
    }

    /// Returns the middles that are not much worse than the best, by position.
    fn likely(
        &self,
        scorer: &Scorer<'_>,
        middles: &[Middle],
        parity: usize,
    ) -> Vec<(Middle, Evidence)> {
        let heard = middles.iter().filter_map(|&middle| {
            let traces = self.hear_traces(scorer, middle, parity)?;
            Some((middle, traces))
        });
        let mut heard: Vec<(Middle, Evidence)> = heard.collect();
        let best = heard.iter().map(|(_, traces)| traces.bits).max();
        heard.retain(|(_, traces)| best.is_some_and(|best| traces.bits >= best - MUCH));
        heard.sort_by_key(|(middle, _)| middle.start);
        heard
    }

    fn hear_traces(&self, scorer: &Scorer<'_>, middle: Middle, parity: usize) -> Option<Evidence> {
        let Some(traces) = middle.traces else {
            return Some(Evidence::default());
        };
        let mut sum = Evidence::default();
        for index in 0..traces.count {
            let guess = ZoneGuess {
                at: middle.start + index * traces.zone,
                size: traces.zone,
                kind: ZoneKind::Ftrace,
                cpu: (traces.count > 1).then_some(index),
            };
            sum = sum + scorer.score(guess, parity)?;
        }
        Some(sum)
    }

    /// Returns the pmsg zones that may start at `at`, and none.
    fn pmsgs(&self, scorer: &Scorer<'_>, at: usize, parity: usize) -> Vec<(usize, Evidence)> {
        let mut pmsgs = Vec::from([(0, Evidence::default())]);
        if at >= self.run.len() || (!self.is_signed(at) && parity == 0) {
            return pmsgs;
        }
        let reach = self.reach(at);
        let sizes = SIZES.map(|log| 1usize << log);
        for size in sizes.take_while(|&size| size < reach && !self.is_crowded(at, at + size)) {
            let guess = ZoneGuess {
                at,
                size,
                kind: ZoneKind::Pmsg,
                cpu: None,
            };
            let evidence = scorer.score(guess, parity);
            pmsgs.extend(evidence.filter(|e| e.bits > 0).map(|e| (size, e)));
        }
        pmsgs
    }

    /// Returns the best candidates for the zones before a middle: dmesg zones, the console zone,
    /// and possibly the pmsg zone.
    fn fronts_of(&self, scorer: &Scorer<'_>, middle: Middle, parity: usize) -> Vec<Front> {
        let end = middle.start;
        let mut fronts = self.fronts(scorer, end, parity);
        if middle.traces.is_none() {
            return fronts;
        }
        let sizes = SIZES.map(|log| 1usize << log);
        let starts = sizes.map_while(|size| Some((size, end.checked_sub(size)?)));
        for (pmsg, at) in starts.take_while(|&(_, at)| !self.is_crowded(at, end)) {
            // Its header may be missing: it follows the console zone, whose size is a power of two.
            let last = self.before(at).last();
            let is_behind_console = last.is_some_and(|last| (at - last).is_power_of_two());
            if at >= self.run.len() || !(self.is_signed(at) || parity > 0 || is_behind_console) {
                continue;
            }
            let guess = ZoneGuess {
                at,
                size: pmsg,
                kind: ZoneKind::Pmsg,
                cpu: None,
            };
            let evidence = scorer.score(guess, parity);
            let Some(evidence) = evidence.filter(|e| e.bits > 0 || is_behind_console) else {
                continue;
            };
            let before = self.fronts(scorer, at, parity).into_iter();
            fronts.extend(before.map(|front| Front {
                pmsg,
                evidence: front.evidence + evidence,
                ..front
            }));
        }
        fronts
    }

    /// Returns the best candidates for the zones before `end`: dmesg zones, then the console zone.
    fn fronts(&self, scorer: &Scorer<'_>, end: usize, parity: usize) -> Vec<Front> {
        let mut fronts = Vec::new();
        for (console, evidence) in self.consoles(scorer, end, parity) {
            let front = Front {
                start: end - console,
                records: Records::default(),
                console,
                pmsg: 0,
                evidence,
            };
            fronts.push(front);
            let mut good = None;
            for zone in self.record_sizes(front.start) {
                // Where zones follow each other, so does every second one.
                if good.is_some_and(|good| zone % good == 0) {
                    continue;
                }
                if let Some(front) = self.with_records(scorer, front, zone, parity) {
                    let missing = front.evidence.missing * 4;
                    if front.records.count >= 3 && missing <= front.records.count {
                        good = good.or(Some(zone));
                    }
                    fronts.push(front);
                }
            }
        }
        fronts.sort_by_key(|front| -front.evidence.bits);
        fronts.dedup();
        fronts.truncate(8);
        fronts
    }

    /// Returns the console zones that may end at `end`, and none.
    fn consoles(&self, scorer: &Scorer<'_>, end: usize, parity: usize) -> Vec<(usize, Evidence)> {
        let mut consoles = Vec::from([(0, Evidence::default())]);
        let before = self.before(end);
        // Its header may be missing: it follows the last dmesg zone.
        let behind_records = |console: usize| match before {
            [.., a, b] => {
                [1, 2].contains(&((end - b - console.min(end - b)) / (b - a)))
                    && (end - b - console.min(end - b)).is_multiple_of(b - a)
            }
            _ => false,
        };
        for size in SIZES.map(|log| 1usize << log) {
            let Some(at) = end.checked_sub(size) else {
                break;
            };
            if self.is_crowded(at, end) {
                break;
            }
            if at >= self.run.len() || !(self.is_signed(at) || parity > 0 || behind_records(size)) {
                continue;
            }
            let guess = ZoneGuess {
                at,
                size,
                kind: ZoneKind::Console,
                cpu: None,
            };
            let evidence = scorer.score(guess, parity);
            let likely = |e: &Evidence| e.bits > 0 || behind_records(size);
            consoles.extend(evidence.filter(likely).map(|e| (size, e)));
        }
        consoles
    }

    /// Returns possible sizes of dmesg zones that end at `end`.
    fn record_sizes(&self, end: usize) -> Vec<usize> {
        let before = self.before(end);
        let last = &before[before.len().saturating_sub(CROWD)..];
        let gaps = last.iter().map(|at| end - at);
        let mut sizes: Vec<usize> = gaps.clone().chain(gaps.map(|gap| gap / 2)).collect();
        sizes.extend(last.windows(2).map(|pair| pair[1] - pair[0]));
        sizes.retain(|&size| size % 2 == 0 && size > HEADER && size <= i32::MAX as usize);
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Adds dmesg zones of `zone` bytes before the others: those with headers, and one more if
    /// there is evidence for it.
    fn with_records(
        &self,
        scorer: &Scorer<'_>,
        others: Front,
        zone: usize,
        parity: usize,
    ) -> Option<Front> {
        let at = |count: usize| others.start.checked_sub(count * zone);
        let is_header = |count| at(count).is_some_and(|at| self.is_signed(at));
        let most = Records::most(zone).min(others.start / zone);
        let mut front = others;
        let mut pending = Evidence::default();
        for count in 1..=most {
            let guess = ZoneGuess {
                at: at(count)?,
                size: zone,
                kind: ZoneKind::Dmesg,
                cpu: None,
            };
            let evidence = scorer.score(guess, parity)?;
            pending = pending + evidence;
            if pending.bits > 0 || is_header(count) {
                front.start = guess.at;
                front.records = Records { zone, count };
                front.evidence = front.evidence + pending;
                pending = Evidence::default();
            } else if !is_header(count + 1) {
                break;
            }
            if front.evidence.missing * 4 > count + 8 {
                break;
            }
        }
        (front.records.count > 0).then_some(front)
    }

    /// Returns whether a zone from `at` to `end` would contain too many headers.
    fn is_crowded(&self, at: usize, end: usize) -> bool {
        let first = self.plain.partition_point(|&plain| plain <= at);
        self.plain
            .get(first + CROWD - 1)
            .is_some_and(|&other| other < end)
    }

    fn is_plain(&self, at: usize) -> bool {
        self.plain.binary_search(&at).is_ok()
    }

    /// Returns whether a plain header is at `at`, or its signature with impossible sizes.
    fn is_signed(&self, at: usize) -> bool {
        let header = || Some(ZoneHeader::decode(self.run.array(at)?, self.order));
        let is_damaged = || {
            header().is_some_and(|header| header.signature == SIGNATURE)
                && Candidate::read(self.run, at, self.order).is_none()
        };
        self.is_plain(at) || is_damaged()
    }

    /// Returns the plain headers before `end`.
    fn before(&self, end: usize) -> &[usize] {
        &self.plain[..self.plain.partition_point(|&at| at < end)]
    }
}

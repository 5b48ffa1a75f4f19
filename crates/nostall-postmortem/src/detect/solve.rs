//! From headers to regions: hypotheses from the distances between headers, judged
//! by the bytes.
//!
//! A region is solved from a pivot, a header taken for the first trace zone's or for the last or
//! last but one of all. From it, the solver finds the following and the preceding zones. The
//! distances between neighbouring headers are the zones' sizes or twice as much, where one is
//! missing; Linux's arithmetic allows few of them.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::vec::Vec;

use super::hypothesis::{Hypothesis, Records, Traces};
use super::records;
use super::run::Run;
use super::search::{CUT, Candidate};
use super::witness::{Claim, Evidence, Witness, has_parity};
use nostall_pstore::{ByteOrder, HEADER, MAX_PARITY, SIGNATURE, ZoneHeader, ZoneKind, ZoneOrder};

/// Questions to the bytes, about zones: in all, for one pivot at first, and for one that
/// needs more.
const PATIENCE: usize = 1 << 23;
const PATIENCE_FIRST: usize = 1 << 14;
const PATIENCE_EACH: usize = 1 << 19;

/// Hypotheses kept, in all, and of one pivot.
const KEPT: usize = 4096;
const KEPT_EACH: usize = 6;

/// Parity sizes tried in one place, of those that may be: among 127, one half
/// passes by chance, and more only where bytes are all the same.
const CHECKS: usize = 6;

/// Bits by which trace zones are too bad to be examined further.
const MUCH: i32 = 40;

/// So many headers lie within no zone's data by chance.
const CROWD: usize = 3;

/// Headers farther apart than this are no company: 64 MiB.
const NEAR: usize = 1 << 26;

/// A zone is no smaller, and a size no larger than a region.
const SIZES: core::ops::Range<u32> = 4..31;

/// A run of memory, and the possible headers in it.
pub(super) type Searched<'a> = (&'a Run<'a>, Vec<Candidate>);

/// Hypotheses of several runs.
#[derive(Debug, Default)]
pub(super) struct Solved {
    /// The best ones, the best first.
    pub(super) hypotheses: Vec<Hypothesis>,
    /// Whether some were not tried.
    pub(super) is_cut_short: bool,
}

/// The hypotheses worth a look.
pub(super) fn solve(searched: &[Searched<'_>]) -> Solved {
    let mut sites = Vec::new();
    for (index, (run, candidates)) in searched.iter().enumerate() {
        sites.extend(Site::all(index, run, candidates));
    }
    let mut pivots: Vec<Pivot<'_>> = sites.iter().flat_map(Site::pivots).collect();
    // A flood of headers that show nothing comes last.
    pivots.sort_by_key(|pivot| Reverse(pivot.promise));

    let mut solved = Solved::default();
    let all = &mut solved.hypotheses;
    let mut patience = PATIENCE;
    for each in [PATIENCE_FIRST, PATIENCE_EACH] {
        // A pivot that takes longer than usual must wait for the others.
        pivots.retain(|pivot| {
            let given = each.min(patience);
            if given == 0 {
                return true;
            }
            let witness = pivot.solver.witness(given);
            let is_done = pivot.solve(&witness, all);
            patience -= given - witness.patience();
            !is_done
        });
    }
    solved.is_cut_short = !pivots.is_empty();
    solved.is_cut_short |= best(all, KEPT);
    solved
}

/// The best `count` hypotheses, sorted. Returns whether there were more.
fn best(all: &mut Vec<Hypothesis>, count: usize) -> bool {
    all.sort_by_key(|hypothesis| Reverse((hypothesis.grade(), hypothesis.score)));
    let more = all.len() > count;
    all.truncate(count);
    more
}

/// The headers of one run in one byte order, and all at even or all at odd places: the
/// zones of a region lie an even number of bytes apart.
struct Site<'a> {
    index: usize,
    run: &'a Run<'a>,
    order: ByteOrder,
    plain: Vec<usize>,
    /// By their signatures.
    traces: BTreeMap<u32, Vec<usize>>,
    all_traces: Vec<usize>,
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
                sites.push(site);
            }
        }
        sites
    }

    fn pivots(&self) -> Vec<Pivot<'_>> {
        let solver = |trace, traces| Solver {
            index: self.index,
            run: self.run,
            order: self.order,
            trace,
            plain: &self.plain,
            traces,
            all_traces: &self.all_traces,
        };
        let mut pivots = Vec::new();
        let plain = solver(SIGNATURE, &[]);
        pivots.extend((0..self.plain.len()).map(|at| Pivot {
            at,
            promise: plain.promise(self.plain[at], ZoneKind::Console),
            solver: plain,
        }));
        for (signature, traces) in &self.traces {
            let solver = solver(*signature, traces);
            pivots.extend((0..traces.len()).map(|at| Pivot {
                at,
                promise: solver.promise(traces[at], ZoneKind::Ftrace),
                solver,
            }));
        }
        pivots
    }
}

/// A header to solve a region from.
struct Pivot<'a> {
    solver: Solver<'a>,
    /// Its number among the trace headers, or the plain ones if there are none.
    at: usize,
    /// How much there is to be expected of it.
    promise: u8,
}

impl Pivot<'_> {
    /// Returns whether all was tried.
    fn solve(&self, witness: &Witness<'_>, all: &mut Vec<Hypothesis>) -> bool {
        let middles = if self.solver.traces.is_empty() {
            self.solver.without_traces(self.at)
        } else {
            self.solver.with_traces(self.at)
        };
        self.solver.pivot(witness, &middles, all)
    }
}

/// The headers of one byte order and one kernel version.
#[derive(Clone, Copy)]
struct Solver<'a> {
    index: usize,
    run: &'a Run<'a>,
    order: ByteOrder,
    trace: u32,
    plain: &'a [usize],
    /// Those with the signature `trace`.
    traces: &'a [usize],
    all_traces: &'a [usize],
}

/// The trace zones, or where there are none, the place where they would be.
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
    /// Bytes of the zone for user space's messages between these and the trace zones; 0: none.
    pmsg: usize,
    evidence: Evidence,
}

impl Solver<'_> {
    /// How much is to be expected of the header at `at`: contents, or else a plain
    /// signature near it.
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

    fn witness(&self, patience: usize) -> Witness<'_> {
        Witness::new(self.run, self.order, self.trace, patience)
    }

    /// All that may surround one of these middles. Returns whether all was tried.
    fn pivot(&self, witness: &Witness<'_>, middles: &[Middle], all: &mut Vec<Hypothesis>) -> bool {
        let Some(first) = middles.first() else {
            return true;
        };
        let mut here = Vec::new();
        for parity in self.parities(witness, first.start) {
            let mut fronts: Option<(usize, Vec<Front>)> = None;
            for (middle, traces) in self.likely(witness, middles, parity) {
                let fronts = match &fronts {
                    Some((start, fronts)) if *start == middle.start => fronts,
                    _ => {
                        let new = self.fronts_of(witness, middle, parity);
                        &fronts.insert((middle.start, new)).1
                    }
                };
                for (pmsg, last) in self.pmsgs(witness, middle.end(), parity) {
                    if witness.spend(fronts.len()).is_none() {
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
        witness.patience() > 0
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
            strangers: 0,
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
        // Those of all kernels: a hypothesis with headers inside of a zone explains less.
        let headers = within(self.plain) + within(self.all_traces);
        hypothesis.strangers = headers.saturating_sub(evidence.headers + evidence.wrong_sizes);
        hypothesis.score = evidence.bits + hypothesis.usual(self.run.len())
            - 14 * hypothesis.strangers.min(1000) as i32;
        Some(hypothesis)
    }

    /// The parity sizes that headers near `at` speak for; none is always possible.
    fn parities(&self, witness: &Witness<'_>, at: usize) -> Vec<usize> {
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
            if witness.spend(2).is_none() {
                break;
            }
            if let Some(next) = next {
                self.count_parities(header, next, &mut counts);
            }
            // The last one's end is not known, nor that of one before a gap.
            if i + 1 == headers.len() || header == at {
                for log in SIZES {
                    let _ = witness.spend(1);
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

    /// With how many parity bytes the header at `at` is right if a zone ends at
    /// `end`: its parity comes last.
    fn count_parities(&self, at: usize, end: usize, counts: &mut [usize; MAX_PARITY + 1]) {
        // The last bytes of the zone, as many as may be parity.
        let from = end.saturating_sub(MAX_PARITY).max(at + HEADER);
        let zone = end
            .checked_sub(from)
            .and_then(|len| self.run.get(from, len));
        let (Some(header), Some(zone)) = (self.run.array(at), zone) else {
            return;
        };
        let mut sum = header.iter().fold(0, |sum, byte| sum ^ byte);
        let mut checks = 0;
        for (parity, byte) in (1..=MAX_PARITY).zip(zone.iter().rev()) {
            sum ^= byte;
            // All bytes of a codeword sum to 0, one being a root.
            if sum == 0 && checks < CHECKS {
                checks += 1;
                counts[parity] += usize::from(has_parity(&header, &zone[zone.len() - parity..]));
            }
        }
    }

    /// A middle of trace zones, of which the first that has a header is number
    /// `first` of the trace headers.
    fn with_traces(&self, first: usize) -> Vec<Middle> {
        let at = self.traces[first];
        let gap = |i: usize| Some(self.traces.get(i + 1)? - self.traces.get(i)?);
        let before = first.checked_sub(1).and_then(gap);
        // In the midst of equal zones nothing starts.
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

    /// Whether no evidence supports trace header number `first`: neither another header anywhere
    /// near, nor the bytes after it.
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

    /// How large trace zones may be: as far as the next header, half as far if one
    /// is missing (these are gaps); or, if nothing follows, a power of two.
    fn trace_sizes(&self, first: usize) -> Vec<(usize, bool)> {
        let at = self.traces[first];
        let next_plain = self.plain.partition_point(|&plain| plain < at);
        let next_plain = self.plain.get(next_plain).map(|next| next - at);
        let next_trace = self.traces.get(first + 1).map(|next| next - at);
        let gaps = [next_trace, next_plain].into_iter().flatten();
        let gaps = gaps.clone().chain(gaps.map(|gap| gap / 2));
        let mut sizes: Vec<(usize, bool)> = gaps.map(|gap| (gap, true)).collect();
        sizes.extend(self.alone(at).map(|size| (size, false)));
        // The last of two, where the first has no header: before that is a power of two.
        if let (None, Some(before)) = (next_trace, self.before(at).last()) {
            let rests = SIZES.map(|log| (at - before).checked_sub(1 << log));
            sizes.extend(rests.flatten().map(|size| (size, true)));
        }
        sizes.retain(|(size, _)| size % 2 == 0 && *size <= i32::MAX as usize);
        sizes.sort_unstable_by_key(|&(size, is_gap)| (size, !is_gap));
        sizes.dedup_by_key(|(size, _)| *size);
        sizes
    }

    /// The powers of two that a zone at `at` may be large, up to the next header
    /// or some way beyond the bytes' end.
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

    /// How large a zone at `at` is at most: the dump may have been cut off.
    fn reach(&self, at: usize) -> usize {
        let here = self.run.len().saturating_sub(at);
        let says = self.run.array(at).map_or(0, |header| {
            HEADER + ZoneHeader::decode(header, self.order).size as usize
        });
        says.max(here).min(1 << 31).saturating_mul(CUT)
    }

    /// No trace zones: plain header number `last` is the zone's that would follow
    /// them, or the last one's.
    fn without_traces(&self, last: usize) -> Vec<Middle> {
        let gap = |i: usize| Some(self.plain.get(i + 1)? - self.plain.get(i)?);
        let at = self.plain[last];
        let before = last.checked_sub(1).and_then(gap);
        // In the midst of equal zones nothing ends.
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

    /// The middles that are not much worse than the best, by their starts.
    fn likely(
        &self,
        witness: &Witness<'_>,
        middles: &[Middle],
        parity: usize,
    ) -> Vec<(Middle, Evidence)> {
        let heard = middles.iter().filter_map(|&middle| {
            let traces = self.hear_traces(witness, middle, parity)?;
            Some((middle, traces))
        });
        let mut heard: Vec<(Middle, Evidence)> = heard.collect();
        let best = heard.iter().map(|(_, traces)| traces.bits).max();
        heard.retain(|(_, traces)| best.is_some_and(|best| traces.bits >= best - MUCH));
        heard.sort_by_key(|(middle, _)| middle.start);
        heard
    }

    fn hear_traces(
        &self,
        witness: &Witness<'_>,
        middle: Middle,
        parity: usize,
    ) -> Option<Evidence> {
        let Some(traces) = middle.traces else {
            return Some(Evidence::default());
        };
        let mut sum = Evidence::default();
        for index in 0..traces.count {
            let claim = Claim {
                at: middle.start + index * traces.zone,
                size: traces.zone,
                kind: ZoneKind::Ftrace,
                cpu: (traces.count > 1).then_some(index),
            };
            sum = sum + witness.hear(claim, parity)?;
        }
        Some(sum)
    }

    /// The zone for user space's messages that may start at `at`, or none.
    fn pmsgs(&self, witness: &Witness<'_>, at: usize, parity: usize) -> Vec<(usize, Evidence)> {
        let mut pmsgs = Vec::from([(0, Evidence::default())]);
        if at >= self.run.len() || (!self.is_signed(at) && parity == 0) {
            return pmsgs;
        }
        let reach = self.reach(at);
        let sizes = SIZES.map(|log| 1usize << log);
        for size in sizes.take_while(|&size| size < reach && !self.is_crowded(at, at + size)) {
            let claim = Claim {
                at,
                size,
                kind: ZoneKind::Pmsg,
                cpu: None,
            };
            let evidence = witness.hear(claim, parity);
            pmsgs.extend(evidence.filter(|e| e.bits > 0).map(|e| (size, e)));
        }
        pmsgs
    }

    /// Returns the best candidates for the zones before a middle: dmesg zones, the console's, and
    /// before traces that of user space's messages.
    fn fronts_of(&self, witness: &Witness<'_>, middle: Middle, parity: usize) -> Vec<Front> {
        let end = middle.start;
        let mut fronts = self.fronts(witness, end, parity);
        if middle.traces.is_none() {
            return fronts;
        }
        let sizes = SIZES.map(|log| 1usize << log);
        let starts = sizes.map_while(|size| Some((size, end.checked_sub(size)?)));
        for (pmsg, at) in starts.take_while(|&(_, at)| !self.is_crowded(at, end)) {
            // Its header may be missing: it lies after the console's zone, a power of two.
            let last = self.before(at).last();
            let is_behind_console = last.is_some_and(|last| (at - last).is_power_of_two());
            if at >= self.run.len() || !(self.is_signed(at) || parity > 0 || is_behind_console) {
                continue;
            }
            let claim = Claim {
                at,
                size: pmsg,
                kind: ZoneKind::Pmsg,
                cpu: None,
            };
            let evidence = witness.hear(claim, parity);
            let Some(evidence) = evidence.filter(|e| e.bits > 0 || is_behind_console) else {
                continue;
            };
            let before = self.fronts(witness, at, parity).into_iter();
            fronts.extend(before.map(|front| Front {
                pmsg,
                evidence: front.evidence + evidence,
                ..front
            }));
        }
        fronts
    }

    /// Returns the best candidates for the zones before `end`: dmesg zones, then the console's.
    fn fronts(&self, witness: &Witness<'_>, end: usize, parity: usize) -> Vec<Front> {
        let mut fronts = Vec::new();
        for (console, evidence) in self.consoles(witness, end, parity) {
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
                // Where zones follow each other, every second one does too.
                if good.is_some_and(|good| zone % good == 0) {
                    continue;
                }
                if let Some(front) = self.with_records(witness, front, zone, parity) {
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

    /// The console zones that may end at `end`, and none.
    fn consoles(&self, witness: &Witness<'_>, end: usize, parity: usize) -> Vec<(usize, Evidence)> {
        let mut consoles = Vec::from([(0, Evidence::default())]);
        let before = self.before(end);
        // Its header may be missing: it lies after the last dmesg zone.
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
            let claim = Claim {
                at,
                size,
                kind: ZoneKind::Console,
                cpu: None,
            };
            let evidence = witness.hear(claim, parity);
            let likely = |e: &Evidence| e.bits > 0 || behind_records(size);
            consoles.extend(evidence.filter(likely).map(|e| (size, e)));
        }
        consoles
    }

    /// How large dmesg zones that end at `end` may be.
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

    /// Dmesg zones of `zone` bytes before the others: as many as have headers, and
    /// one more if there is something to be said for it.
    fn with_records(
        &self,
        witness: &Witness<'_>,
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
            let claim = Claim {
                at: at(count)?,
                size: zone,
                kind: ZoneKind::Dmesg,
                cpu: None,
            };
            let evidence = witness.hear(claim, parity)?;
            pending = pending + evidence;
            if pending.bits > 0 || is_header(count) {
                front.start = claim.at;
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

    /// Whether one zone from `at` to `end` would hold too many headers.
    fn is_crowded(&self, at: usize, end: usize) -> bool {
        let first = self.plain.partition_point(|&plain| plain <= at);
        self.plain
            .get(first + CROWD - 1)
            .is_some_and(|&other| other < end)
    }

    fn is_plain(&self, at: usize) -> bool {
        self.plain.binary_search(&at).is_ok()
    }

    /// Whether a plain header is at `at`, or its signature before sizes that cannot be.
    fn is_signed(&self, at: usize) -> bool {
        let header = || Some(ZoneHeader::decode(self.run.array(at)?, self.order));
        let is_damaged = || {
            header().is_some_and(|header| header.signature == SIGNATURE)
                && Candidate::read(self.run, at, self.order).is_none()
        };
        self.is_plain(at) || is_damaged()
    }

    /// The plain headers before `end`.
    fn before(&self, end: usize) -> &[usize] {
        &self.plain[..self.plain.partition_point(|&at| at < end)]
    }
}

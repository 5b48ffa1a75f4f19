//! Report of a detection: findings, evidence and open questions.

use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::hypothesis::{CHANCE, CONVINCING, Hypothesis};
use super::records::{self, Look};
use super::{FoundRegion, Grade};
use crate::count::counted;
use crate::geometry::Geometry;
use crate::memory::run::Run;
use nostall_pstore::RecordFormat;
use nostall_pstore::{BLOCK, ByteOrder, HEADER, LinuxVersion, SIGNATURE, ZoneHeader, ZoneKind};
use nostall_pstore::{FTRACE_PER_CPU, Layout, Params};

/// Difference in bits up to which a worse hypothesis is still possible.
const CLOSE: i32 = 12;

/// Maximum number of other possibilities in the report.
const OTHERS: usize = 4;

/// Returns the region of a hypothesis; `others` are the worse ones.
pub(super) fn found(
    run: &Run<'_>,
    hypothesis: &Hypothesis,
    others: &[Hypothesis],
) -> Option<FoundRegion> {
    let mut params = hypothesis.params()?;
    let layout = Layout::new(&params).ok()?;
    let looks = looks(run, hypothesis, &layout);
    let record_format = record_format(&looks);
    if let [look] = looks[..]
        && look.cpu.is_none()
        && hypothesis.traces.is_some_and(|traces| traces.count == 1)
    {
        params.flags &= !FTRACE_PER_CPU;
        params.cpus = usize::from(look.most) + 1;
    }
    let geometry = Geometry::of(
        &Layout::new(&params).ok()?,
        hypothesis.order,
        record_format.unwrap_or(RecordFormat::Bits64),
    );
    let here = run.len().saturating_sub(hypothesis.start);
    let mut found = FoundRegion {
        start: run.address(hypothesis.start),
        grade: hypothesis.grade(),
        len: params.mem_size.min(here),
        geometry,
        params,
        version: hypothesis
            .traces
            .map(|_| LinuxVersion(hypothesis.trace ^ SIGNATURE)),
        bits: hypothesis.score,
        why: Vec::new(),
        doubts: Vec::new(),
    };
    found.why = why(hypothesis, &found, &looks);
    found.doubts = too_little(hypothesis);
    found
        .doubts
        .extend(doubts(run, hypothesis, &found, record_format.is_none()));
    found.doubts.extend(also(&params, hypothesis, others));
    Some(found)
}

/// Returns the reasons why the hypothesis is not convincing.
fn too_little(hypothesis: &Hypothesis) -> Vec<String> {
    let evidence = hypothesis.evidence;
    let mut lines = Vec::new();
    if hypothesis.grade() == Grade::Convincing {
        return lines;
    }
    lines.push(format!(
        "ordinary data looks like this by chance: {} of evidence, where {CONVINCING} convince",
        counted(hypothesis.proof(), "bit")
    ));
    if evidence.contents == 0 {
        lines.push("no zone holds contents that it should: all may be empty".to_string());
    }
    if hypothesis.traces.is_some() && evidence.proof == 0 {
        lines.push(
            "all headers are those of empty trace zones: a text of four letters has that form"
                .to_string(),
        );
    }
    if (1..=CHANCE).contains(&evidence.parity_bits) {
        lines.push(format!(
            "the parity agrees in {}, as many as do by chance",
            counted(evidence.parity_bits, "bit")
        ));
    }
    lines
}

fn looks(run: &Run<'_>, hypothesis: &Hypothesis, layout: &Layout) -> Vec<Look> {
    let looks = layout.zones_of(ZoneKind::Ftrace).filter_map(|zone| {
        let at = hypothesis.start + zone.offset;
        let header = ZoneHeader::decode(run.array(at)?, hypothesis.order);
        records::look(run, at, header, hypothesis.order)
    });
    looks.collect()
}

/// Returns the format that most records suggest.
fn record_format(looks: &[Look]) -> Option<RecordFormat> {
    let votes = RecordFormat::ALL.map(|record_format| {
        let of_format = looks
            .iter()
            .filter(|look| look.record_format == record_format);
        of_format.map(|look| look.records).sum::<usize>()
    });
    let most = *votes.iter().max()?;
    let best = RecordFormat::ALL
        .into_iter()
        .zip(votes)
        .find(|(_, n)| *n == most);
    best.filter(|_| most > 0)
        .map(|(record_format, _)| record_format)
}

fn why(hypothesis: &Hypothesis, found: &FoundRegion, looks: &[Look]) -> Vec<String> {
    let evidence = hypothesis.evidence;
    let zones = found.geometry.zones.len();
    let mut why = Vec::from([format!(
        "region: starts with the first of {zones} zones; {} of them have a header where it should be",
        evidence.headers
    )]);
    let records = hypothesis.records;
    if records.count > 0 {
        why.push(format!(
            "dmesg: {} of {:#x} bytes, as far as their headers are apart",
            counted(records.count, "zone"),
            records.zone
        ));
    }
    if hypothesis.console > 0 {
        why.push(format!(
            "console: {:#x} bytes, a power of two, to the next zone",
            hypothesis.console
        ));
    }
    if let Some(traces) = hypothesis.traces {
        let version = LinuxVersion(hypothesis.trace ^ SIGNATURE);
        why.push(format!(
            "traces: {} of {:#x} bytes ({:#x} divided), by headers with the version of Linux {version}",
            counted(traces.count, "zone"),
            traces.zone,
            traces.total
        ));
    }
    if hypothesis.pmsg > 0 {
        let place = match hypothesis.shows_order() && hypothesis.ends_with_traces() {
            true => ", before the traces, as in Linux 6.2 and newer",
            false => "",
        };
        why.push(format!("pmsg: {:#x} bytes{place}", hypothesis.pmsg));
    }
    let parity = hypothesis.parity;
    why.push(match (parity, evidence.full) {
        (0, 0) => "no error correction: no header has parity bytes".to_string(),
        (0, full) => format!(
            "no error correction: no header has parity bytes, and {} full to the last byte without",
            if full == 1 {
                "1 zone is".to_owned()
            } else {
                format!("{full} zones are")
            }
        ),
        _ => format!(
            "{} for each {BLOCK}: so many agree with {} of the headers",
            counted(parity, "parity byte"),
            evidence.parities
        ),
    });
    if !looks.is_empty() {
        let record_format = found.geometry.record_format;
        let records: usize = looks.iter().map(|look| look.records).sum();
        why.push(format!(
            "trace records: format {record_format}, by addresses, time stamps and CPU numbers of {}",
            counted(records, "record")
        ));
    }
    let order = match hypothesis.order {
        ByteOrder::Little => "little",
        ByteOrder::Big => "big",
    };
    why.push(format!("byte order: {order}-endian, by the signatures"));
    why
}

fn doubts(
    run: &Run<'_>,
    hypothesis: &Hypothesis,
    found: &FoundRegion,
    no_format: bool,
) -> Vec<String> {
    let mut doubts = Vec::new();
    let wrong_sizes = hypothesis.evidence.wrong_sizes;
    if wrong_sizes > 0 {
        doubts.push(format!(
            "{} with the right signature and sizes that cannot be",
            counted(wrong_sizes, "header")
        ));
    }
    let missing = hypothesis.evidence.missing - wrong_sizes;
    if missing > 0 {
        doubts.push(format!(
            "{} with no sound header: their places follow from their neighbours'",
            counted(missing, "zone")
        ));
    }
    if hypothesis.unexplained_headers > 0 {
        doubts.push(format!(
            "{} where no zone starts",
            counted(hypothesis.unexplained_headers, "header")
        ));
    }
    if found.len < found.params.mem_size {
        doubts.push(format!(
            "the dump ends {} before the region",
            counted(found.params.mem_size - found.len, "byte")
        ));
    }
    if !end_is_known(run, hypothesis) {
        doubts.push(format!(
            "nothing shows where the last zone ends: {:#x} bytes make the region's size the likeliest",
            hypothesis.used() - hypothesis.last_zone()
        ));
    }
    if hypothesis.records.count == 0 {
        doubts.push("mem_size is the sum of the zones: it may be larger".to_string());
    } else if found.params.mem_size != hypothesis.used() {
        doubts.push("mem_size is the roundest of those that divide so".to_string());
    }
    if hypothesis.traces.is_some() && no_format {
        doubts.push("no trace records to tell their format by: 64 assumed".to_string());
    }
    if hypothesis.traces.is_some_and(|traces| traces.count == 1) {
        let which = match found.geometry.traces_per_cpu {
            true => "one CPU assumed, but several may share it",
            false => "with records of several CPUs",
        };
        doubts.push(format!("there is one trace zone: {which}"));
    }
    doubts
}

/// Returns whether the end of the last zone is known, from its parity or because the zone is full.
fn end_is_known(run: &Run<'_>, hypothesis: &Hypothesis) -> bool {
    let several = match hypothesis.traces {
        Some(traces) => hypothesis.ends_with_traces() && traces.count > 1,
        None => hypothesis.pmsg == 0 && hypothesis.console == 0 && hypothesis.records.count > 1,
    };
    let at = hypothesis.start + hypothesis.last_zone();
    let full = run.array(at).is_some_and(|header| {
        let header = ZoneHeader::decode(header, hypothesis.order);
        at + HEADER + header.size as usize == hypothesis.start + hypothesis.used()
    });
    several || full || hypothesis.parity > 0
}

/// Returns other explanations that are nearly as good.
fn also(params: &Params, hypothesis: &Hypothesis, others: &[Hypothesis]) -> Vec<String> {
    let mut lines = Vec::new();
    for other in others {
        if other.score < hypothesis.score - CLOSE || lines.len() == OTHERS {
            break;
        }
        let Some(theirs) = other.params() else {
            continue;
        };
        let line = difference(params, &theirs, hypothesis, other);
        if !line.is_empty() && !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn difference(ours: &Params, theirs: &Params, our: &Hypothesis, their: &Hypothesis) -> String {
    let values = [
        ("mem_size", ours.mem_size, theirs.mem_size),
        ("record_size", ours.record_size, theirs.record_size),
        ("console_size", ours.console_size, theirs.console_size),
        ("ftrace_size", ours.ftrace_size, theirs.ftrace_size),
        ("pmsg_size", ours.pmsg_size, theirs.pmsg_size),
        ("ecc", ours.ecc, theirs.ecc),
        (
            "the number of CPUs",
            our.traces.map_or(0, |t| t.count),
            their.traces.map_or(0, |t| t.count),
        ),
        ("the start", our.start, their.start),
    ];
    let differing: Vec<String> = values
        .into_iter()
        .filter(|(_, ours, theirs)| ours != theirs)
        .map(|(name, _, theirs)| format!("{name} {theirs:#x}"))
        .chain(
            (ours.zone_order != theirs.zone_order)
                .then(|| format!("the order of zones of Linux {}", theirs.zone_order.since())),
        )
        .collect();
    if differing.is_empty() {
        return String::new();
    }
    format!("also possible: {}", differing.join(", "))
}

//! A summary of persistent RAM after a crash.

use nostall_pstore::{
    Layout, Load, PreviousBootZone, Reader, RecordFormat, Trace as Entry, Writer, ZoneKind,
};

use super::recovered::{self, Recovered, TraceSummary};
use super::region::{MOST_CPUS, Traces, params};
use crate::ReportText;
use crate::checksum::Checksum;

/// Reports the contents to `found`: each CPU's trace, the merge of all traces by their stamps, logs
/// and console. Nothing is changed.
pub fn recover<M: Load + ?Sized>(region: &M, cpus: u16, mut found: impl FnMut(Recovered)) {
    let Ok(layout) = Layout::new(&params(cpus, Traces::PerCpu)) else {
        return;
    };
    let left = nostall_pstore::recover(region, &layout, None).with(Reader {
        writer: Writer::DataFirst,
        ..Reader::careful(None)
    });
    for zone in left.zones_of(ZoneKind::Ftrace) {
        let cpu = Some(zone.place().index as u16);
        let trace = in_short(zone.traces(RecordFormat::NATIVE));
        found(Recovered::Trace { cpu, trace });
    }
    if let Some(merged) = left.traces::<{ MOST_CPUS as usize }>(RecordFormat::NATIVE) {
        let trace = in_short(merged);
        found(Recovered::Trace { cpu: None, trace });
    }
    for mut zone in left.zones_of(ZoneKind::Dmesg) {
        if let Some((_, start)) = zone.dmesg_header() {
            found(text(&mut zone, start, recovered::TextKind::Dmesg));
        }
    }
    for mut zone in left.zones_of(ZoneKind::Console) {
        if !zone.is_empty() {
            found(text(&mut zone, 0, recovered::TextKind::Console));
        }
    }
}

fn in_short(entries: impl Iterator<Item = Entry>) -> TraceSummary {
    let mut trace = TraceSummary::default();
    for Entry { record, .. } in entries {
        trace.add(record.ip, record.parent, record.stamp, record.cpu.into());
    }
    trace
}

fn text<M: Load + ?Sized>(
    zone: &mut PreviousBootZone<'_, M>,
    start: usize,
    kind: recovered::TextKind,
) -> Recovered {
    let mut checksum = Checksum::default();
    let mut end = start;
    while let Some((bytes, _)) = zone.chunk(end) {
        checksum.add(bytes);
        end += bytes.len();
    }
    let most = ReportText::new().capacity();
    let mut at = match kind {
        recovered::TextKind::Dmesg => start,
        recovered::TextKind::Console => end.saturating_sub(most).max(start),
    };
    let mut excerpt = ReportText::new();
    while let Some((bytes, _)) = zone.chunk(at).filter(|_| excerpt.len() < most) {
        let printable = bytes.iter().map(|&byte| match byte {
            b'\n' | b' '..=b'~' => byte.into(),
            _ => '?',
        });
        // Truncated to the room in the excerpt.
        let _ = printable
            .take(most - excerpt.len())
            .try_for_each(|c| excerpt.push(c));
        at += bytes.len();
    }
    Recovered::Text {
        kind,
        bytes: (end - start) as u64,
        checksum: checksum.0,
        text: excerpt,
    }
}

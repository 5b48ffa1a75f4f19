//! A hypothesis about the zones of a region: Linux's division, computed backwards.

use super::Grade;
use super::scorer::Evidence;
use nostall_pstore::ByteOrder;
use nostall_pstore::{FTRACE_PER_CPU, Layout, LinuxVersion, Params, SIGNATURE, ZoneOrder};

/// Adjacent trace zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Traces {
    /// Size of each zone in bytes.
    pub(super) zone: usize,
    /// Number of trace zones.
    pub(super) count: usize,
    /// Total size that Linux was configured with: a power of two.
    pub(super) total: usize,
}

impl Traces {
    /// Creates `count` zones of `zone` bytes; `None` if no power of two is divided like this.
    pub(super) fn new(zone: usize, count: usize) -> Option<Self> {
        let total = zone.checked_mul(count)?.checked_next_power_of_two()?;
        let fits = count > 0 && (total / count) & !1 == zone;
        fits.then_some(Self { zone, count, total })
    }
}

/// Adjacent dmesg zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Records {
    /// Size of each zone in bytes.
    pub(super) zone: usize,
    /// Number of dmesg zones.
    pub(super) count: usize,
}

impl Records {
    /// Returns the largest number of zones of this size in an area. With more, the record size
    /// would fit once more.
    pub(super) fn most(zone: usize) -> usize {
        let size = Self::size(zone);
        match zone - size {
            0 => usize::MAX,
            over => (size - 1) / over,
        }
    }

    /// Returns the record size that results in such a zone.
    fn size(zone: usize) -> usize {
        zone.checked_ilog2().map_or(0, |log| 1 << log)
    }
}

/// Location and division of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hypothesis {
    /// Index of the memory run.
    pub(super) run: usize,
    /// Start of the region in the run.
    pub(super) start: usize,
    /// The dmesg zones.
    pub(super) records: Records,
    /// Size of the console zone in bytes; 0 for none.
    pub(super) console: usize,
    /// The trace zones.
    pub(super) traces: Option<Traces>,
    /// Size of the pmsg zone in bytes; 0 for none.
    pub(super) pmsg: usize,
    /// Whether the pmsg zone is before or behind the trace zones.
    pub(super) zone_order: ZoneOrder,
    /// Parity bytes per block.
    pub(super) parity: usize,
    /// Byte order of the writer.
    pub(super) order: ByteOrder,
    /// Signature of the trace zones.
    pub(super) trace: u32,
    /// Evidence in the bytes.
    pub(super) evidence: Evidence,
    /// Number of headers inside the region that belong to none of its zones.
    pub(super) unexplained_headers: usize,
    /// Score in bits: how well the hypothesis explains the bytes, and how usual it is.
    pub(super) score: i32,
}

/// Proof in bits from which a hypothesis is convincing. A gigabyte of ordinary data has some below
/// it.
pub(super) const CONVINCING: i32 = 50;

/// Agreement in bits between headers and parity that occurs by chance, because many zone ends and
/// parity sizes are tried.
pub(super) const CHANCE: i32 = 24;

/// Penalty in bits for a zone order that this Linux version does not have. Distributions may have
/// changed it.
const OTHER_ORDER: i32 = 16;

impl Hypothesis {
    /// Returns the bits of proof for a region.
    pub(super) fn proof(&self) -> i32 {
        let parity = (self.evidence.parity_bits - CHANCE).max(0);
        self.evidence.proof.saturating_add(parity)
    }

    /// Returns the grade.
    pub(super) fn grade(&self) -> Grade {
        if self.proof() >= CONVINCING && self.is_likely() {
            Grade::Convincing
        } else {
            Grade::Doubtful
        }
    }

    /// Returns whether two headers are in the right places, or one with further confirmation.
    fn is_likely(&self) -> bool {
        let evidence = self.evidence;
        match evidence.headers {
            0 => false,
            1 => evidence.bits >= 22 && evidence.parities + evidence.full + evidence.contents > 0,
            _ => evidence.bits >= 40 && self.score >= 40,
        }
    }

    /// Returns whether the hypothesis is worth reporting. A trace zone's header alone is too
    /// common.
    pub(super) fn is_noteworthy(&self) -> bool {
        self.is_likely() || self.evidence.proof > 0
    }

    /// Returns the number of bytes from the region's start to the end of its last zone.
    pub(super) fn used(&self) -> usize {
        let traces = self.traces.map_or(0, |traces| traces.zone * traces.count);
        self.records.zone * self.records.count + self.console + traces + self.pmsg
    }

    /// Returns whether the trace zones are the last zones.
    pub(super) fn ends_with_traces(&self) -> bool {
        self.traces.is_some() && (self.pmsg == 0 || self.zone_order == ZoneOrder::Linux6_2)
    }

    /// Returns whether the order of the zones is visible.
    pub(super) fn shows_order(&self) -> bool {
        self.traces.is_some() && self.pmsg > 0
    }

    /// Returns the number of bytes from the region's start to the start of its last zone.
    pub(super) fn last_zone(&self) -> usize {
        let last = match self.traces {
            _ if self.pmsg > 0 && !self.ends_with_traces() => self.pmsg,
            Some(traces) => traces.zone,
            None if self.console > 0 => self.console,
            None => self.records.zone,
        };
        self.used() - last
    }

    /// Returns the region's size. The division leaves a few bytes, so several sizes are possible;
    /// this is the roundest.
    pub(super) fn mem_size(&self) -> usize {
        let others = self.console + self.traces.map_or(0, |traces| traces.total) + self.pmsg;
        let least = self.records.zone * self.records.count + others;
        let most = least + (2 * self.records.count).saturating_sub(1);
        let rounded = (0..usize::BITS).rev().map(|bits| most >> bits << bits);
        rounded
            .into_iter()
            .find(|&size| size >= least)
            .unwrap_or(least)
    }

    /// Returns how usual the division is for any contents, in bits; `len` is the number of bytes.
    pub(super) fn usual(&self, len: usize) -> i32 {
        let size = self.mem_size();
        let significant = size.checked_ilog2().unwrap_or(0) - size.trailing_zeros().min(31);
        let round = 12 - 2 * significant.min(6) as i32;
        let pages = if size.is_multiple_of(4096) { 4 } else { 0 };
        let end = self.start.saturating_add(size);
        let place = match self.start {
            0 if end == len => 16,
            _ if end == len => 6,
            _ if end > len => -8,
            start if start.is_multiple_of(4096) => 2,
            _ => 0,
        };
        let kinds = [(self.console, 3), (self.pmsg, 2), (self.records.count, 2)];
        let kinds = kinds.iter().filter(|(bytes, _)| *bytes > 0);
        let kinds: i32 = kinds.map(|(_, bits)| bits).sum();
        let parity = match self.parity {
            0 | 16 => 0,
            parity if parity.is_power_of_two() => -4,
            _ => -8,
        };
        let version = LinuxVersion(self.trace ^ SIGNATURE);
        let order = match self.zone_order == ZoneOrder::of(version) {
            false if self.shows_order() => -OTHER_ORDER,
            _ => 0,
        };
        round + pages + place + kinds + parity + order
    }

    /// Returns the parameters with which Linux creates this region, if any.
    pub(super) fn params(&self) -> Option<Params> {
        let mut params = Params {
            mem_size: self.mem_size(),
            record_size: Records::size(self.records.zone * self.records.count.min(1)),
            console_size: self.console,
            ftrace_size: self.traces.map_or(0, |traces| traces.total),
            pmsg_size: self.pmsg,
            ecc: self.parity,
            cpus: self.traces.map_or(1, |traces| traces.count),
            flags: FTRACE_PER_CPU,
            zone_order: if self.shows_order() {
                self.zone_order
            } else {
                ZoneOrder::default()
            },
        };
        // With the size rounded up, the region may have room for one more record.
        for _ in 0..2 {
            if let Ok(layout) = Layout::new(&params)
                && self.is(&layout)
            {
                return Some(params);
            }
            let rest = params.console_size + params.ftrace_size + params.pmsg_size;
            params.mem_size = rest + self.records.zone * self.records.count;
        }
        None
    }

    fn is(&self, layout: &Layout) -> bool {
        let count = self.records.count
            + usize::from(self.console > 0)
            + self.traces.map_or(0, |traces| traces.count)
            + usize::from(self.pmsg > 0);
        let last = layout.zones().last();
        let ends = last.is_some_and(|zone| zone.offset + zone.division.zone() == self.used());
        let first = layout.zones().next();
        let starts = self.records.count == 0
            || first.is_some_and(|zone| zone.division.zone() == self.records.zone);
        ends && starts && layout.zones().count() == count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nostall_pstore::ZoneKind;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_division_of_a_region_yields_its_parameters(
            mem_size in 1usize..1 << 24,
            logs in proptest::array::uniform4(5u32..20),
            cpus in 1usize..40,
            zone_order in proptest::sample::select(&ZoneOrder::ALL[..]),
        ) {
            let [record_size, console_size, ftrace_size, pmsg_size] = logs.map(|log| 1 << log);
            let params = Params {
                mem_size, record_size, console_size, ftrace_size, pmsg_size, ecc: 0, cpus,
                flags: FTRACE_PER_CPU, zone_order,
            };
            if let Ok(layout) = Layout::new(&params) {
                let zone = |kind| layout.zones_of(kind).next().map_or(0, |zone| zone.division.zone());
                let hypothesis = Hypothesis {
                    run: 0,
                    start: 0,
                    records: Records {
                        zone: zone(ZoneKind::Dmesg),
                        count: layout.zones_of(ZoneKind::Dmesg).count(),
                    },
                    console: console_size,
                    traces: Traces::new(zone(ZoneKind::Ftrace), cpus),
                    pmsg: pmsg_size,
                    zone_order,
                    parity: 0,
                    order: ByteOrder::Little,
                    trace: SIGNATURE,
                    evidence: Evidence::default(),
                    unexplained_headers: 0,
                    score: 0,
                };
                prop_assert!(hypothesis.records.count <= Records::most(hypothesis.records.zone.max(1)));
                let solved = hypothesis.params().unwrap();
                let again = Layout::new(&solved).unwrap();
                prop_assert!(again.zones().eq(layout.zones()));
            }
        }
    }
}

//! A region, planned: its parameters, those of them that are suggested, and its zones.

use anyhow::{Context, Result};
use nostall_postmortem::cli::Sizes;
use nostall_pstore::{FTRACE_PER_CPU, HEADER, Layout, Params, Place, ZoneKind, ZoneOrder};

/// Bytes of a line on the console, about.
pub const LINE: usize = 70;

/// The kinds of zones.
pub const KINDS: [ZoneKind; 4] = [
    ZoneKind::Dmesg,
    ZoneKind::Console,
    ZoneKind::Ftrace,
    ZoneKind::Pmsg,
];

/// Zones of one kind: they are equal, and lie side by side.
pub struct Row {
    pub first: Place,
    pub count: usize,
}

/// A page of the machines that Linux runs on; of some, the smallest.
const PAGE: u64 = 4096;

/// A region, planned.
pub struct Plan {
    pub layout: Layout,
    pub address: Option<u64>,
    /// Which sizes are nostall's suggestion, by Linux's names.
    pub suggested: Vec<&'static str>,
    /// Remarks for a person.
    pub notes: Vec<String>,
}

impl Plan {
    /// Plans a region with the sizes that are given, and suggests the others.
    pub fn new(
        size: usize,
        cpus: usize,
        zone_order: ZoneOrder,
        address: Option<u64>,
        given: &Sizes,
    ) -> Result<Self> {
        let (params, suggested) = suggest(size, cpus, given);
        let params = Params {
            zone_order,
            ..params
        };
        let layout = Layout::new(&params)?;
        if let Some(address) = address {
            address
                .checked_add(size as u64)
                .context("--address: the region would reach beyond the end of memory")?;
        }
        let mut notes: Vec<_> = layout.notes().map(|note| note.to_string()).collect();
        if params.ftrace_size == 0 && given.ftrace_size.is_none() {
            notes.push(format!(
                "no trace zones: a quarter of the region, divided by {} CPUs, is too little",
                cpus
            ));
        }
        if params.ftrace_size > 0 && params.ecc > 0 {
            notes.push(
                "with ECC, Linux's own view of the trace is garbled; nostall postmortem reads it"
                    .to_owned(),
            );
        }
        let whole = [("--address", address), ("--size", Some(size as u64))];
        for (name, number) in whole {
            if let Some(number) = number.filter(|number| !number.is_multiple_of(PAGE)) {
                notes.push(format!(
                    "{name} {number:#x} is not a multiple of {PAGE}: Linux maps whole pages, so \
                     keep everything else out of the first and the last one"
                ));
            }
        }
        Ok(Self {
            layout,
            address,
            suggested,
            notes,
        })
    }

    /// Returns the parameters that Linux must be given.
    pub const fn params(&self) -> &Params {
        self.layout.params()
    }

    /// Returns the zones in the order of their addresses, one row a kind.
    pub fn rows(&self) -> impl Iterator<Item = Row> {
        let rows = KINDS
            .into_iter()
            .filter_map(|kind| self.layout.row_of(kind));
        let mut rows: Vec<_> = rows.map(|(first, count)| Row { first, count }).collect();
        rows.sort_by_key(|row| row.first.offset);
        rows.into_iter()
    }
}

impl Row {
    /// Returns the bytes of each zone that are parity.
    pub const fn parity(&self) -> usize {
        let division = self.first.division;
        division.zone() - division.data() - HEADER
    }
}

/// More for one kernel log is of little use, and Linux allocates it several times.
const LARGEST_RECORD: usize = 128 << 10;

/// A CPU's trace in less than this is hardly worth its cost.
const SMALLEST_TRACE: usize = 1 << 10;

/// The parameters, and the names of those that are suggested.
fn suggest(size: usize, cpus: usize, given: &Sizes) -> (Params, Vec<&'static str>) {
    let fixed = [given.console_size, given.ftrace_size, given.pmsg_size];
    let fixed = fixed
        .into_iter()
        .flatten()
        .fold(0usize, usize::saturating_add);
    // The parts share a power of two within the rest, so that each is a power of two.
    let whole = match size.saturating_sub(fixed).checked_ilog2() {
        Some(log) => 1usize << log,
        None => 0,
    };
    let traces = match given.flags.unwrap_or(FTRACE_PER_CPU) & FTRACE_PER_CPU {
        0 => 1,
        _ => cpus,
    };
    let enough = traces
        .checked_mul(SMALLEST_TRACE)
        .is_some_and(|least| least <= whole / 4);
    let params = given.params(Params {
        record_size: (whole / 16).min(LARGEST_RECORD),
        console_size: whole / 4,
        ftrace_size: if enough { whole / 4 } else { 0 },
        pmsg_size: whole / 16,
        ..Params::command_line(size, cpus)
    });
    let sizes = [
        ("record_size", given.record_size),
        ("console_size", given.console_size),
        ("ftrace_size", given.ftrace_size),
        ("pmsg_size", given.pmsg_size),
    ];
    let suggested = sizes.into_iter().filter(|(_, size)| size.is_none());
    (params, suggested.map(|(name, _)| name).collect())
}

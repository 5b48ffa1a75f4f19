//! A sensible division, where none is given.

use nostall_pstore::{FTRACE_PER_CPU, Params};

use super::Sizes;

/// More for one kernel log is of little use, and Linux allocates it several times.
const LARGEST_RECORD: usize = 128 << 10;

/// A CPU's trace in less than this is hardly worth its cost.
const SMALLEST_TRACE: usize = 1 << 10;

/// The parameters, and the names of those that are suggested.
pub fn params(size: usize, cpus: usize, given: &Sizes) -> (Params, Vec<&'static str>) {
    let fixed = [given.console_size, given.ftrace_size, given.pmsg_size];
    let fixed = fixed
        .into_iter()
        .flatten()
        .fold(0usize, usize::saturating_add);
    // Of what is left, so much that every part is a power of two.
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

//! Tables and numbers for people.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// The table's lines, its columns from `text` on aligned to the right.
pub fn aligned(mut table: Table, text: usize) -> String {
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    for column in table.column_iter_mut().skip(text) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines: Vec<_> = table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.join("\n")
}

/// `1 CPU`, `2 CPUs`.
pub fn cpus(n: impl Into<usize>) -> String {
    match n.into() {
        1 => "1 CPU".to_owned(),
        n => format!("{n} CPUs"),
    }
}

/// `2 CPUs on 4 of the host`.
pub fn cpus_on_host(n: u16) -> String {
    format!("{} on {} of the host", cpus(n), host_cpus())
}

/// CPUs of the host.
pub fn host_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// With a decimal.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Three digits and a unit.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => return format!("{ns:.0} ns"),
        ns if ns < 999_500.0 => (ns / 1e3, "us"),
        ns if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let decimals = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_that_a_person_would_choose() {
        assert_eq!(time(812.4), "812 ns");
        assert_eq!(time(3_400.0), "3.40 us");
        assert_eq!(time(86_805.0), "86.8 us");
        assert_eq!(time(12_345_678.0), "12.3 ms");
        assert_eq!(time(3_142_000_000.0), "3.14 s");
    }
}

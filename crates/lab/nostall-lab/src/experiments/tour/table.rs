//! The tour's table, for 80 columns and 40 lines.

use comfy_table::Table;

use super::expected;
use super::row::{Limit, Pick, Row, Unit, Value};
use super::runs::{self, Runs};
use crate::experiments::entry::Entry;
use crate::report::page::HEADER;
use nostall_figures::metric::Metric;
use nostall_figures::numbers::grouped;
use nostall_figures::table::{aligned, percent, time};

/// Columns of a terminal.
const COLUMNS: usize = 80;

const LEGEND: &str =
    "limit: of hardware or work; factor: before/nostall. ~ varies, the rest is exact.";

const INSTALL: &str =
    "`make setup` installs QEMU. KVM needs /dev/kvm, and the right to write to it.";

/// Returns the table and the lines below it.
pub fn text(entries: &'static [Entry], runs: &Runs) -> String {
    let mut table = Table::new();
    table.set_header(HEADER);
    for row in rows(entries) {
        let mut cells = vec![row.name.to_owned()];
        if lacks(row, runs).is_none() {
            let find = |pick: &Pick, metric: &Metric| Some(runs.figure(pick, metric)?.value);
            cells.extend(
                row.cells(find)
                    .map(|cell| cell.unwrap_or("missing".to_owned())),
            );
            let mark = if is_exact(row) { "" } else { "~" };
            cells.push(mark.to_owned() + place(runs.place(&row.nostall, row.value)));
        }
        table.add_row(cells);
    }
    let width = rows(entries).map(|row| row.name.len()).max().unwrap_or(0) + 2;
    let table = aligned(table, 1);
    let mut made = table.lines();
    let mut lines: Vec<String> = made.next().map(str::to_owned).into_iter().collect();
    for entry in entries {
        lines.push(format!("{}: {}", entry.name, entry.tour.heading));
        for (row, line) in entry.tour.rows.iter().zip(&mut made) {
            lines.push(match lacks(row, runs) {
                None => line.to_owned(),
                Some((pick, why)) => {
                    let need = if pick.run.contains("--on kvm") {
                        "KVM"
                    } else {
                        "QEMU"
                    };
                    cut(format!("{:width$}needs {need}: {why}", row.name))
                }
            });
        }
    }
    lines.push(format!(
        "\n{LEGEND}\ndocs/src/tour.md explains each row. A row alone: `nostall-lab run` with"
    ));
    lines.extend(commands(entries).iter().map(|line| format!("  {line}")));
    if rows(entries).any(|row| lacks(row, runs).is_some()) {
        lines.push(INSTALL.to_owned());
    }
    lines.join("\n")
}

/// Names the rows that have a run and no figure.
pub fn faults(entries: &'static [Entry], runs: &Runs) -> Vec<String> {
    let mut faults = Vec::new();
    for row in rows(entries) {
        let ran = lacks(row, runs).is_none();
        let cells = row.cells(|pick, metric| Some(runs.figure(pick, metric)?.value));
        if ran && cells.iter().any(Option::is_none) {
            faults.push(format!("{}: a figure is missing", row.name));
        }
    }
    faults
}

/// Returns whether each cell of a row is the same in every run, and compared.
fn is_exact(row: &Row) -> bool {
    row.cells(expected::figure).iter().all(Option::is_some)
}

/// Returns the first strategy of a row whose machine is not there, and the reason.
fn lacks<'a>(row: &'a Row, runs: &'a Runs) -> Option<(&'a Pick, &'a str)> {
    let mut picks = row.picks();
    picks.find_map(|pick| Some((pick, runs.lacks(pick.run)?)))
}

fn rows(entries: &'static [Entry]) -> impl Iterator<Item = &'static Row> {
    entries.iter().flat_map(|entry| entry.tour.rows)
}

/// Returns the runs' arguments. Runs that differ in one word share a line.
fn commands(entries: &'static [Entry]) -> Vec<String> {
    let runs = runs::arguments(entries).into_iter();
    let lines = shared(runs.map(|run| run.split(' ').map(str::to_owned).collect()));
    let lines = shared(lines.into_iter()).into_iter();
    lines.map(|words| words.join(" ")).collect()
}

/// Joins lines that differ in one word.
fn shared(lines: impl Iterator<Item = Vec<String>>) -> Vec<Vec<String>> {
    let mut shared: Vec<Vec<String>> = Vec::new();
    for line in lines {
        let place = shared.iter_mut().find_map(|known| {
            let alike = known.len() == line.len();
            let pairs = known.iter().zip(&line).enumerate();
            let mut different = pairs.filter(|(_, (one, other))| one != other);
            let at = different.next().filter(|_| alike)?.0;
            different.next().is_none().then_some(())?;
            Some((known, at))
        });
        match place {
            Some((known, at)) => known[at] = format!("{}|{}", known[at], line[at]),
            None => shared.push(line),
        }
    }
    shared
}

impl Row {
    /// Returns the cells from `before` to `/Linux`; `None` where a figure is missing.
    pub(super) fn cells(
        &self,
        find: impl Fn(&Pick, &Metric) -> Option<f64>,
    ) -> [Option<String>; 6] {
        let of = |pick: &Pick, value: Value| value(&|metric| find(pick, metric));
        let cell = |value: Option<f64>| Some(self.unit.text(value?));
        let none = || Some("-".to_owned());
        let (before, nostall) = (of(&self.before, self.value), of(&self.nostall, self.value));
        let linux = self.fix.as_ref().map(|pick| of(pick, self.value));
        [
            cell(before),
            linux.map_or_else(none, cell),
            cell(nostall),
            match &self.limit {
                Limit::Unknown => none(),
                Limit::Derived(value) => cell(Some(*value)),
                Limit::Measured(pick, value) => cell(of(pick, *value)),
            },
            before.zip(nostall).map(|(before, now)| factor(before, now)),
            match linux {
                Some(linux) => linux.zip(nostall).map(|(linux, now)| factor(linux, now)),
                None => none(),
            },
        ]
    }
}

impl Unit {
    fn text(self, value: f64) -> String {
        match self {
            Self::Count => count(value),
            Self::Nanoseconds => time(value),
            Self::Share => percent(value),
        }
    }
}

/// Cuts a line to the width of a terminal, and marks that.
fn cut(line: String) -> String {
    const MARK: &str = "...";
    match line.chars().count() {
        length if length <= COLUMNS => line,
        _ => line.chars().take(COLUMNS - MARK.len()).collect::<String>() + MARK,
    }
}

/// At most four decimals.
fn count(value: f64) -> String {
    match value {
        value if value.fract() == 0.0 => grouped(value as u64),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.4}").trim_end_matches('0').to_owned(),
    }
}

/// Three digits at most that are not 0, in six characters.
fn factor(before: f64, now: f64) -> String {
    let factor = before / now;
    let (value, unit) = match factor {
        _ if now == 0.0 => return "to 0".to_owned(),
        factor if factor < 0.095 => return format!("{factor:.4}"),
        factor if factor < 9.95 => return format!("{factor:.1}"),
        factor if factor < 999.5 => return format!("{factor:.0}"),
        factor if factor < 999_500.0 => (factor / 1e3, 'k'),
        factor => (factor / 1e6, 'M'),
    };
    let decimals = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

fn place(on: Option<&str>) -> &str {
    match on {
        Some("qemu") => "QEMU",
        Some("kvm") => "KVM",
        Some("host-threads") => "host",
        Some(on) => on,
        None => "-",
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::expected;
    use super::*;
    use crate::experiments::EXPERIMENTS;

    #[test]
    fn a_factor_has_three_digits_and_a_count_four_decimals() {
        assert_eq!(factor(21e9, 28_900.0), "727 k");
        assert_eq!(factor(126e9, 40_100.0), "3.14 M");
        assert_eq!(factor(16.4e9, 1.21e6), "13.6 k");
        assert_eq!(factor(99.6, 2.3), "43");
        assert_eq!(factor(2.0, 2_719.0), "0.0007");
        assert_eq!(factor(1.0, 0.5), "2.0");
        assert_eq!(factor(2.0, 0.0), "to 0");
        assert_eq!(count(1_168.0), "1,168");
        assert_eq!(count(2.004), "2.00");
        assert_eq!(count(0.0625), "0.0625");
        assert_eq!(count(0.003), "0.003");
    }

    #[test]
    fn a_reason_that_is_too_long_for_the_terminal_is_cut_and_marked() {
        assert_eq!(cut("x".repeat(80)), "x".repeat(80));
        assert_eq!(cut("x".repeat(81)), "x".repeat(77) + "...");
    }

    #[test]
    fn runs_that_differ_in_one_word_share_a_line() {
        let lines = commands(EXPERIMENTS);
        let sizes = "uart --on model --profile hp-dl380-gen9|fast-16550a --bytes 1|2500|11500";
        assert!(lines.iter().any(|line| line == sizes), "{lines:?}");
    }

    /// Compares a line of the README with the exact figures.
    fn check(row: &Row, line: &str) {
        let words: Vec<_> = line.split("  ").map(str::trim).collect();
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        assert_eq!(words.len(), HEADER.len(), "{}: {line}", row.name);
        assert_eq!(words[0], row.name);
        let exact = row.cells(expected::figure).map(Option::unwrap);
        assert_eq!(words[1..7], exact, "make readme-table: {line}");
        assert!(["model", "QEMU", "KVM"].contains(&words[7]), "{line}");
    }

    #[test]
    fn the_readme_has_the_tours_exact_rows_and_no_others() {
        let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../README.md");
        // A published crate has no such file.
        let Ok(readme) = std::fs::read_to_string(readme) else {
            return;
        };
        let between = |text: &str| {
            let (_, rest) = text.split_once("<!-- tour:begin -->\n")?;
            Some(rest.split_once("<!-- tour:end -->")?.0.to_owned())
        };
        let block = between(&readme).expect("README.md has the tour's markers");
        let mut lines = block.lines().filter(|line| !line.is_empty());
        assert_eq!(lines.next(), Some("```text"));
        let header: Vec<_> = lines.next().unwrap().split_whitespace().collect();
        assert_eq!(header, HEADER[1..]);
        for entry in EXPERIMENTS {
            let mut exact = entry
                .tour
                .rows
                .iter()
                .filter(|row| is_exact(row))
                .peekable();
            if exact.peek().is_some() {
                let heading = format!("{}: {}", entry.name, entry.tour.heading);
                assert_eq!(lines.next(), Some(&*heading), "make readme-table");
            }
            for row in exact {
                check(row, lines.next().unwrap_or_default());
            }
        }
        assert_eq!(lines.next(), Some("```"));
        assert_eq!(lines.next(), None, "make readme-table");
    }
}

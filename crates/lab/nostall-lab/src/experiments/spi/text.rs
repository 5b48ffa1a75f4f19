//! The text about the flash, the card and the busy bus.

use comfy_table::Table;
use nostall_work::spi::{BusStrategy, SECTOR};

use super::fold::{fold, hex};
use super::metrics;
use super::run::SpiReports;
use crate::experiments::experiment::Answer;
use nostall_figures::figure::Figures;
use nostall_figures::numbers::grouped;
use nostall_figures::table::{Column, aligned, four_decimals, percent, time};

/// Folds the reports into the text and the figures. `on` names the machine of the flash and that of
/// the busy bus.
pub fn answer(
    headline: &str,
    on: [&'static str; 2],
    frames: u32,
    reports: &SpiReports,
) -> Answer<()> {
    let (figures, faults) = fold(on, frames, reports);
    let mut parts = vec![headline.to_owned()];
    parts.extend(flash(reports));
    parts.extend(table(frames, &figures));
    Answer::of(parts, figures, (), faults, success)
}

fn flash(reports: &SpiReports) -> Option<String> {
    let [maker, kind, size] = reports.flash?;
    let mut lines = vec![format!(
        "flash: {maker:02x} {kind:02x} {size:02x}, {}{}",
        match maker {
            // Known makers of flash chips (JEDEC JEP106, the first bank).
            0x9d => "ISSI, ",
            0xef => "Winbond, ",
            0xc2 => "Macronix, ",
            0x20 => "Micron, ",
            _ => "",
        },
        binary(1 << size.min(63)),
    )];
    if let Some(sector) = &reports.sector {
        lines[0] += &format!("; the sector at {:#x}, by its SHA-256:", sector.address);
        lines.push(format!("  found    {}", hex(&sector.before)));
        let (erase, write) = (time(sector.erase_ns as f64), time(sector.write_ns as f64));
        lines.push(match sector.not_erased {
            0 => format!(
                "  erased   to {} bytes of ones in {erase}; and written in {write}",
                grouped(SECTOR)
            ),
            n => format!("  erased   but for {} bytes", grouped(n)),
        });
        lines.push(format!("  written  {}", hex(&sector.pattern)));
        lines.push(format!("  read     {}", hex(&sector.after)));
    }
    Some(lines.join("\n"))
}

/// Formats a size in the largest unit that leaves no remainder.
fn binary(bytes: u64) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{} bytes", grouped(bytes))
}

/// Rows of the table of the busy bus, each with Linux's published figures before and with its fix.
const ROWS: [(Column, [&str; 2]); 9] = [
    (
        Column::of("messages a second", metrics::MESSAGES_PER_SECOND, rounded),
        ["-", "-"],
    ),
    (
        Column::of(
            "messages run by the worker",
            metrics::MESSAGES_BY_WORKER,
            grouped,
        ),
        ["-", "-"],
    ),
    (
        Column::of("worker woken", metrics::WAKEUPS, grouped),
        ["-", "1"],
    ),
    (
        Column::of(
            "worker woken, for each message",
            metrics::WAKEUPS_PER_MESSAGE,
            four_decimals,
        ),
        ["1", "-"],
    ),
    (
        Column::of(
            "worker's share of a CPU",
            metrics::WORKER_CPU_SHARE,
            percent,
        ),
        ["31 %", "0 %"],
    ),
    (
        Column::of("hardware put to sleep", metrics::TEARDOWNS, grouped),
        ["-", "-"],
    ),
    (
        Column::of(
            "context switches a second",
            metrics::CONTEXT_SWITCHES_PER_SECOND,
            rounded,
        ),
        ["59,000", "3,375"],
    ),
    (
        Column::of(
            "cross-CPU interrupts, in all",
            metrics::CROSS_CPU_INTERRUPTS,
            grouped,
        ),
        ["242,371", "2,948"],
    ),
    (
        Column::of(
            "interrupts a second",
            metrics::INTERRUPTS_PER_SECOND,
            rounded,
        ),
        ["37,700", "9,800"],
    ),
];

fn rounded(value: f64) -> String {
    grouped(value.round())
}

/// Returns the table of the busy bus, with Linux's published figures beside ours.
fn table(frames: u32, figures: &Figures) -> Option<String> {
    let rows = BusStrategy::ALL.map(|strategy| figures.row(strategy.name()));
    if rows.iter().any(|row| row.figure(metrics::FRAMES).is_none()) {
        return None;
    }
    let mut table = Table::new();
    let what = format!("{} CAN frames received", grouped(frames));
    table.set_header([
        what.as_str(),
        "pump",
        "caller",
        "| Linux: before",
        "with fix",
    ]);
    for (column, published) in ROWS {
        let cells = rows.iter().map(|row| column.cell(row));
        let label = [column.header.to_owned()].into_iter();
        table.add_row(label.chain(cells).chain(published.map(str::to_owned)));
    }
    let legend = "\
        Each frame takes three messages of the interrupt's task. For every tenth frame a\n\
        second task submits one frame, of two messages. pump: as in Linux before its\n\
        fix, the worker is woken after every message that leaves the bus idle. caller:\n\
        nostall-spi. -: not counted here. Linux: commit 412e60373245 of 2019, with\n\
        100,000 frames on a Raspberry Pi 3; of its cross-CPU interrupts, the\n\
        rescheduling ones of the busiest CPU. Compare the savings, not the speed.";
    Some(format!("{}\n\n{legend}", aligned(table, 1)))
}

fn success(figures: &Figures) -> String {
    let times = |strategy: BusStrategy| {
        figures
            .row(strategy.name())
            .get(metrics::WAKEUPS)
            .unwrap_or(0.0)
    };
    format!(
        "The sector was erased and holds the written bytes, which differ from the old\n\
         ones; nothing else in the flash has changed.\n\
         With each strategy every frame arrived as it was sent, and in order. With\n\
         caller the worker ran no message, and was woken\n\
         {} times; with pump {} times.",
        grouped(times(BusStrategy::Caller)),
        grouped(times(BusStrategy::Pump))
    )
}

#[cfg(test)]
mod tests {
    use super::binary;

    #[test]
    fn a_size_has_the_unit_that_leaves_nothing_over() {
        assert_eq!(binary(512), "512 bytes");
        assert_eq!(binary(4096), "4 KiB");
        assert_eq!(binary(32 << 20), "32 MiB");
        assert_eq!(binary((32 << 20) + 1), "33,554,433 bytes");
    }
}

//! The tables, for people.

use comfy_table::Table;
use nostall_console::{FlushLimits, StallDetector, Watchdog};
use nostall_devices::uart::{Line, Profile};
use nostall_io::Nanos;
use nostall_work::console::Strategy;

use super::measured::{Measured, Run, Setup};
use super::verdict::{BACKLOG, LINE_USE};
use crate::experiments::table::{aligned, cpus as in_words, host_cpus, percent, time};

impl Measured {
    pub(super) fn heading(&self) -> String {
        let cpus = in_words(self.cpus);
        let on = match &self.setup {
            Setup::Model => format!("model, {cpus}, virtual time"),
            Setup::Qemu { name, .. } => {
                let host = host_cpus();
                format!("{name}, {cpus} on {host} of the host, real time")
            }
        };
        format!(
            "console on {on}\n{};\n{} baud, ring of 1 MiB",
            self.log.describe(),
            self.rate
        )
    }

    /// The tables of each profile.
    pub(super) fn tables(&self) -> String {
        let profiles = self.profiles().map(|runs| {
            let name = runs[0].profile.name;
            let mut tables = format!("{name}\n{}\n\n{}", cpus(runs), self.line(runs));
            // Shorter logs are with the port before it shows.
            if self.log.is_flood
                && let Some(gain) = gain(runs)
            {
                tables += &format!("\n\n{gain}");
            }
            tables
        });
        profiles.collect::<Vec<_>>().join("\n\n")
    }

    /// What became of the line, and of a panic.
    fn line(&self, runs: &[Run]) -> String {
        let mut table = Table::new();
        let header = [
            "strategy", "task", "least", "B/s", "line", "lost", "first", "last", "unsent",
        ];
        table.set_header(header);
        for run in runs {
            let whole = &run.whole;
            let line = match whole.backlog >= BACKLOG && run.profile.line != Line::AtOnce {
                true => percent(whole.line_use()),
                false => "-".to_owned(),
            };
            let panicked = &run.panicked;
            let took = |time: Option<Nanos>| time.map_or("never".to_owned(), ns);
            table.add_row([
                run.strategy.name().to_owned(),
                percent(whole.share()),
                percent(whole.least_share()),
                format!("{:.0}", whole.bytes_per_second()),
                line,
                whole.lost.to_string(),
                took(panicked.panic.and_then(|panic| panic.first_byte)),
                took(panicked.panic.and_then(|panic| panic.last_byte)),
                run.unsent().to_string(),
            ]);
        }
        aligned(table, 1)
    }

    pub(super) fn legend(&self) -> String {
        let haste = u64::from(self.setup.haste());
        let mut legend = format!(
            "\
held: the longest time that a CPU could do nothing but serve the console; median
to max: what was added to a caller who logs; missed: ticks of a timer of 250 Hz
that never came; fired: reports of the detectors of lockups ({}) and stalls
({}); casc.: those that made their interrupt handler the console's owner.
task, least: what a second task got of the CPUs, and of that where it got least;
B/s, line: what arrived while there was something to send, and of what the line
can take; lost: records that the ring lost, and says so.
In a run with a panic, {} after the first line: first, last: how long
until the first byte of its text had arrived, and the last; unsent: records
that did not, of what was logged before (bounded sends for {} at most).
print-inline: as Linux 4.15 to 6.x, byte by byte: who logs prints all there is,
and hands over to who logs next, if somebody does; fifo-inline: the same by the
FIFO; bounded: nostall-console.",
            time((Watchdog::THRESHOLD / haste).0 as f64),
            time((StallDetector::THRESHOLD / haste).0 as f64),
            self.panic_at,
            FlushLimits::DEFAULT.total,
        );
        if let Setup::Model = &self.setup {
            legend += "\nOn the model instructions take no time; accesses to the port do.";
        }
        if let Setup::Qemu { part, has_nmi, .. } = &self.setup {
            legend += &format!(
                "\n\
Real time is short: 1 line in {part} of the log is logged, in as short a time, and\n\
the detectors are {haste} times as impatient (Linux's: 20 s and 21 s). The port\n\
is QEMU's, behind a throttle that makes it as slow as the one named; task: for\n\
how long a CPU had nothing to do, by its clock. What else the host does shows in\n\
these figures: they are told, and not judged."
            );
            if !has_nmi {
                legend += "\n\
Nothing here interrupts a CPU that has masked interrupts: who prints so panics,
or is stopped, when he is through; a panic waits for that, up to a second, and
first and last are counted from when its CPU was told to.";
            }
        }
        legend
    }
}

/// What the seed's FIFO writer is worth, in words.
fn gain(runs: &[Run]) -> Option<String> {
    let of = |strategy| runs.iter().find(|run| run.strategy == strategy);
    let before = &of(Strategy::PrintInline)?.whole;
    let fifo = &of(Strategy::FifoInline)?.whole;
    let more = fifo.bytes_per_second() / before.bytes_per_second() - 1.0;
    let why = match runs[0].profile {
        Profile::HP_DL380_GEN9 => " The article has 25 %.",
        _ if before.line_use() >= LINE_USE => " The line was full before.",
        _ => "",
    };
    Some(format!(
        "fifo-inline sends {:.0} % more bytes a second than print-inline, and still\n\
         holds a CPU for {}.{why}",
        more * 100.0,
        ns(fifo.longest_hold()),
    ))
}

/// What became of the CPUs, and of who logged.
fn cpus(runs: &[Run]) -> String {
    let mut table = Table::new();
    let header = [
        "strategy", "held", "median", "99.9 %", "max", "missed", "fired", "casc.",
    ];
    table.set_header(header);
    for run in runs {
        let whole = &run.whole;
        table.add_row([
            run.strategy.name().to_owned(),
            ns(whole.longest_hold()),
            ns(whole.delay(500)),
            ns(whole.delay(999)),
            ns(whole.delay(1000)),
            whole.missed().to_string(),
            whole.fired.len().to_string(),
            whole.cascades().to_string(),
        ]);
    }
    aligned(table, 1)
}

fn ns(span: Nanos) -> String {
    time(span.0 as f64)
}

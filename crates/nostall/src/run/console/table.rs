//! The tables, for people.

use comfy_table::Table;
use nostall_devices::uart::Line;
use nostall_io::Nanos;
use nostall_work::console::Strategy;

use super::{Measured, Run};
use crate::run::table::{aligned, percent, time};

impl Measured {
    pub(super) fn heading(&self) -> String {
        let cpus = match self.cpus {
            1 => "1 CPU".to_owned(),
            n => format!("{n} CPUs"),
        };
        format!(
            "console on model, {cpus}, virtual time\n{}; {} baud, ring of 1 MiB",
            self.log.describe(),
            self.rate
        )
    }

    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        table.set_header([
            "profile", "strategy", "held", "median", "99.9 %", "max", "missed", "fired", "casc.",
            "B/s", "line", "task", "least", "lost",
        ]);
        for run in &self.runs {
            let whole = &run.whole;
            let line = match run.profile.line {
                Line::AtOnce => "-".to_owned(),
                _ => percent(whole.line_use()),
            };
            table.add_row([
                run.group(),
                run.strategy.name().to_owned(),
                ns(whole.longest_hold()),
                ns(whole.delay(500)),
                ns(whole.delay(999)),
                ns(whole.delay(1000)),
                whole.missed().to_string(),
                whole.fired.len().to_string(),
                whole.cascades().to_string(),
                format!("{:.0}", whole.bytes_per_second()),
                line,
                percent(whole.share()),
                percent(whole.least_share()),
                whole.lost.to_string(),
            ]);
        }
        aligned(table, 2)
    }

    /// Of the panics.
    pub(super) fn panics(&self) -> String {
        let mut table = Table::new();
        let after = format!("panic at {}:", self.panic_at);
        table.set_header([after.as_str(), "", "first byte", "last byte", "unsent"]);
        for run in &self.runs {
            let panic = run.panicked.panic;
            let took = |time: Option<Nanos>| time.map_or("never".to_owned(), ns);
            table.add_row([
                run.group(),
                run.strategy.name().to_owned(),
                took(panic.and_then(|panic| panic.first_byte)),
                took(panic.and_then(|panic| panic.last_byte)),
                (run.panicked.checked.missing
                    - run.panicked.lost.min(run.panicked.checked.missing))
                .to_string(),
            ]);
        }
        aligned(table, 2)
    }

    pub(super) fn legend(&self) -> String {
        let mut legend = "\
held: the longest time that a CPU could do nothing but serve the console; median to
max: what was added to a caller who logs; missed: ticks of a timer of 250 Hz that
never came; fired: reports of lockup (20 s) and stall (21 s) detectors, as in Linux;
casc.: reports that made their interrupt handler the console's owner; B/s, line: what
arrived while there was something to send, and how much of what the line can take
that is; task, least: what a second task got of the CPUs, and where it got least;
lost: records that the ring lost, which are told of on the line; first, last byte: of
the panic's text, from the panic until it arrived; unsent: records that were left in
the ring when that was over.
print-inline: as Linux 4.15 to 6.x, byte by byte: who logs prints all there is, and
hands over to who logs next, if somebody does; fifo-inline: the same with a FIFO-full
at once; bounded: nostall-console."
            .to_owned();
        for (profile, gain) in self.gains() {
            legend += &format!("\n{profile}: fifo-inline sends {gain:+.0} % bytes a second");
            if profile == "hp-dl380-gen9" {
                legend += "; the article says around 25 %";
            }
            legend.push('.');
        }
        legend
    }

    /// What the seed's FIFO writer is worth, in percent.
    fn gains(&self) -> Vec<(&'static str, f64)> {
        let of = |run: &&Run, strategy| run.strategy == strategy;
        let before = self
            .runs
            .iter()
            .filter(|run| of(run, Strategy::PrintInline));
        let fifo = self.runs.iter().filter(|run| of(run, Strategy::FifoInline));
        before
            .zip(fifo)
            .map(|(before, fifo)| {
                let ratio = fifo.whole.bytes_per_second() / before.whole.bytes_per_second();
                (before.profile.name, (ratio - 1.0) * 100.0)
            })
            .collect()
    }
}

impl Run {
    /// The profile, once for all of its strategies.
    fn group(&self) -> String {
        if self.strategy == Strategy::ALL[0] {
            self.profile.name.to_owned()
        } else {
            String::new()
        }
    }
}

fn ns(span: Nanos) -> String {
    time(span.0 as f64)
}

//! The busy bus, beside the seed's figures.

use comfy_table::Table;
use nostall_work::spi::{SpiMeasured as Busy, Strategy};

use super::measured::Measured;
use crate::experiments::table::{aligned, percent};
use crate::grouped::grouped;

/// A figure of one strategy, if the machine can count it.
type Figure = fn(&Busy) -> Option<String>;

/// What is shown, how, and what the seed published of it, before and with its patch.
const ROWS: [(&str, Figure, [&str; 2]); 9] = [
    (
        "messages a second",
        |b| Some(grouped(b.per_second(b.messages).round())),
        ["-", "-"],
    ),
    (
        "messages run by the worker",
        |b| Some(grouped(b.by_worker)),
        ["-", "-"],
    ),
    ("worker woken", |b| Some(grouped(b.wakeups)), ["-", "1"]),
    (
        "worker woken, for each message",
        |b| Some(format!("{:.4}", b.wakeups_per_message())),
        ["1", "-"],
    ),
    (
        "worker's share of a CPU",
        |b| Some(percent(b.worker_share())),
        ["31 %", "0 %"],
    ),
    (
        "hardware put to sleep",
        |b| Some(grouped(b.teardowns)),
        ["-", "-"],
    ),
    (
        "context switches a second",
        |b| Some(grouped(b.per_second(b.switches?).round())),
        ["59,000", "3,375"],
    ),
    (
        "cross-CPU interrupts, in all",
        |b| b.cross_cpu.map(grouped),
        ["242,371", "2,948"],
    ),
    (
        "interrupts a second",
        |b| Some(grouped(b.per_second(b.interrupts?).round())),
        ["37,700", "9,800"],
    ),
];

/// What is derived from what was counted.
pub(super) trait Derived {
    fn per_second(&self, count: u64) -> f64;
    fn wakeups_per_message(&self) -> f64;
    fn worker_share(&self) -> f64;
}

impl Derived for Busy {
    fn per_second(&self, count: u64) -> f64 {
        count as f64 * 1e9 / self.ns.max(1) as f64
    }

    fn wakeups_per_message(&self) -> f64 {
        self.wakeups as f64 / self.messages.max(1) as f64
    }

    fn worker_share(&self) -> f64 {
        self.worker_ns as f64 / self.ns.max(1) as f64
    }
}

impl Measured {
    pub(super) fn table(&self) -> Option<String> {
        let [pump, caller] = Strategy::ALL.map(|strategy| self.busy(strategy));
        let (pump, caller) = (pump?, caller?);
        let mut table = Table::new();
        let what = format!("{} CAN frames received", grouped(self.frames));
        table.set_header([what.as_str(), "pump", "caller", "| seed: before", "with it"]);
        for (what, figure, [before, with]) in ROWS {
            let dash = |figure: Option<String>| figure.unwrap_or_else(|| "-".to_owned());
            table.add_row([
                what.to_owned(),
                dash(figure(pump)),
                dash(figure(caller)),
                before.to_owned(),
                with.to_owned(),
            ]);
        }
        let legend = "\
            Each frame takes three messages of the interrupt's task; for every tenth, a\n\
            second task submits one to be sent, by two. pump: as Linux was before the seed,\n\
            the worker is woken after every message that leaves the bus idle. caller: by\n\
            nostall-spi. -: nobody counts it here. seed: a Raspberry Pi 3 that received\n\
            100,000 frames in 2019; of cross-CPU interrupts the rescheduling ones, of the\n\
            busiest CPU. Compare what is saved, and not how fast it is.";
        Some(format!("{}\n\n{legend}", aligned(table, 1)))
    }
}

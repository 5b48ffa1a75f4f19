//! The figures, for programs.

use nostall_work::spi::Strategy;

use super::measured::Measured;
use super::table::Derived;
use crate::experiments::figure::Figure;

impl Measured {
    pub(super) fn figures(&self) -> Vec<Figure> {
        let mut figures = self.of_devices();
        for strategy in Strategy::ALL {
            let Some(busy) = self.busy(strategy) else {
                continue;
            };
            let always = [
                ("frames", f64::from(busy.received), "1"),
                ("messages", busy.messages as f64, "1"),
                ("messages_per_second", busy.per_second(busy.messages), "1/s"),
                ("messages_by_worker", busy.by_worker as f64, "1"),
                ("wakeups", busy.wakeups as f64, "1"),
                ("wakeups_per_message", busy.wakeups_per_message(), "1"),
                ("teardowns", busy.teardowns as f64, "1"),
                ("worker_cpu_share", busy.worker_share(), "1"),
            ];
            let per_second = |count: Option<u64>| count.map(|count| busy.per_second(count));
            let counted = [
                (
                    "context_switches_per_second",
                    per_second(busy.switches),
                    "1/s",
                ),
                (
                    "cross_cpu_interrupts",
                    busy.cross_cpu.map(|n| n as f64),
                    "1",
                ),
                (
                    "cross_cpu_interrupts_per_second",
                    per_second(busy.cross_cpu),
                    "1/s",
                ),
                ("interrupts_per_second", per_second(busy.interrupts), "1/s"),
            ];
            let counted = counted.map(|(metric, value, unit)| Some((metric, value?, unit)));
            let all = always.into_iter().chain(counted.into_iter().flatten());
            figures.extend(all.map(|(metric, value, unit)| Figure {
                path: "spi",
                strategy: strategy.name(),
                on: self.on.1,
                profile: None,
                metric: metric.to_owned(),
                value,
                unit,
                n: 1,
                ..Figure::default()
            }));
        }
        figures
    }

    /// Of the flash and the card, whose bus is driven by its caller.
    fn of_devices(&self) -> Vec<Figure> {
        let sector = self.outcome.sector.as_ref();
        let read = self.outcome.read.as_ref();
        let all = [
            ("flash_sector_erase_ns", sector.map(|s| s.erase_ns), "ns"),
            ("flash_sector_write_ns", sector.map(|s| s.write_ns), "ns"),
            ("card_files", read.map(|r| r.files.into()), "1"),
            ("card_bytes", read.map(|r| r.bytes), "B"),
            ("card_read_ns", read.map(|r| r.ns), "ns"),
            ("card_messages", read.map(|r| r.messages), "1"),
        ];
        let all = all.into_iter().filter_map(|(metric, value, unit)| {
            Some(Figure {
                path: "spi",
                strategy: Strategy::Caller.name(),
                on: self.on.0,
                profile: None,
                metric: metric.to_owned(),
                value: value? as f64,
                unit,
                n: 1,
                ..Figure::default()
            })
        });
        all.collect()
    }
}

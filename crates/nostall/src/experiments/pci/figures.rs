//! The figures, for programs.

use super::measured::{Measured, Way, word};
use super::run::Strategy;
use crate::experiments::figure::Figure;

impl Measured {
    pub(super) fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for way in &self.ways {
            let word = word(way.operation);
            let figure = |metric: String, value, unit| Figure {
                path: "pci",
                strategy: way.strategy.name(),
                on: self.on,
                profile: None,
                metric,
                value,
                unit,
                n: way.rounds.len(),
                ..Figure::default()
            };
            let accesses = way.each(|once| once.bus_accesses);
            figures.push(figure(format!("bus_accesses_per_{word}"), accesses, "1"));
            if let Some(exits) = way.exits() {
                figures.push(figure(format!("exits_per_{word}"), exits, "1"));
            }
            let Some(ns) = way.ns() else { continue };
            figures.push(figure(format!("ns_per_{word}"), ns, "ns"));
            for other in [Strategy::Ports, Strategy::Ram] {
                let other_ns = self.way(way.operation, other).and_then(Way::ns);
                if let Some(other_ns) = other_ns {
                    let metric = format!("{word}_time_ratio_to_{}", other.name());
                    figures.push(figure(metric, ns / other_ns, "1"));
                }
            }
        }
        for maps in self.maps() {
            let figure = |metric: &str, value: f64, unit| Figure {
                path: "pci",
                strategy: maps.strategy.name(),
                on: self.on,
                profile: None,
                metric: metric.to_owned(),
                value,
                unit,
                n: maps.boots,
                ..Figure::default()
            };
            for (metric, changes) in [
                ("maps_at_start", maps.at_start),
                ("map_changes", maps.changes),
            ] {
                figures.push(figure(metric, changes.count as f64, "1"));
            }
            for (metric, changes) in [
                ("maps_at_start_ns", maps.at_start),
                ("map_change_ns", maps.changes),
            ] {
                // Where no time passes there is none to tell.
                let took = changes.took.0;
                let is_timed = took > 0 || changes.count == 0;
                figures.extend(is_timed.then(|| figure(metric, took as f64, "ns")));
            }
        }
        for finds in &self.outcome.trees {
            let figure = |metric: &str, value: u32| Figure {
                path: "pci",
                strategy: finds.method.name(),
                on: self.on,
                profile: None,
                metric: metric.to_owned(),
                value: value.into(),
                unit: "1",
                n: 1,
                ..Figure::default()
            };
            let sum = &finds.sum;
            figures.push(figure("functions", sum.functions));
            figures.push(figure("buses", sum.buses));
            figures.push(figure("faults", sum.faults));
        }
        figures
    }
}

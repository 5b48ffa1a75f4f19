//! Whether all methods show the same.

use nostall_work::pci::{FoundCapability, FoundFunction, Method, Operation};

use super::measured::{Measured, Way, word};
use super::run::{Device, Finds};

impl Measured {
    pub(super) fn success(&self) -> String {
        let functions = self.finds().map_or(0, |finds| finds.devices.len());
        let functions = match functions {
            1 => "1 function".to_owned(),
            n => format!("{n} functions"),
        };
        let has = |method| self.outcome.by(method).is_some();
        let shown = match (has(Method::Ports), has(Method::Ecam)) {
            (true, true) => {
                format!("Ports, ECAM and what was chosen of them show the same {functions}; the")
            }
            (true, false) => format!("There is no ECAM to compare: ports show {functions}; the"),
            (false, _) => format!("There are no ports to compare: ECAM shows {functions}; the"),
        };
        format!("{shown}\nvirtio-drivers crate finds the same by our access.")
    }

    /// What was wrong with the devices on the way: no failure of ours, as long as every
    /// method shows the same.
    pub(super) fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        for finds in &self.outcome.trees {
            let method = finds.method.name();
            doubts.extend(finds.faults.iter().map(|what| format!("{method}: {what}")));
            let more = u64::from(finds.sum.faults).saturating_sub(finds.faults.len() as u64);
            if more > 0 {
                doubts.push(format!("{method}: and {more} more"));
            }
        }
        doubts
    }

    /// What is not as it should be; empty if all is.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let outcome = &self.outcome;
        for finds in &outcome.trees {
            if finds.sum.functions as usize != finds.devices.len() {
                let method = finds.method.name();
                faults.push(format!("{method}: the guest has not told of all functions"));
            }
        }
        if let Some(chosen) = self.finds() {
            let others = outcome
                .trees
                .iter()
                .filter(|finds| finds.method != chosen.method);
            faults.extend(others.filter_map(|other| difference(chosen, other)));
            let briefs = chosen
                .devices
                .iter()
                .filter(|device| device.found.segment == 0);
            let mut briefs: Vec<_> = briefs.map(Device::brief).collect();
            // It goes from bus to bus; we go down at each bridge.
            briefs.sort_unstable_by_key(|brief| (brief.bus, brief.devfn));
            if briefs != outcome.virtio_drivers {
                faults.push("the virtio-drivers crate finds other functions".to_owned());
            }
        }
        if faults.is_empty() && !outcome.equal {
            faults.push("the guest says that its trees differ".to_owned());
        }
        for way in &self.ways {
            let (word, strategy) = (word(way.operation), way.strategy.name());
            let accesses = matches!(way.operation, Operation::Read(_) | Operation::Write(_));
            if accesses && way.rounds.iter().any(|once| once.faults > 0) {
                faults.push(format!("{word} by {strategy}: not every access was made"));
            }
            let first = self
                .ways
                .iter()
                .find(|other| other.operation == way.operation);
            let values = |way: &Way| {
                way.rounds
                    .iter()
                    .all(|once| once.value == way.rounds[0].value)
            };
            let same = first.is_some_and(|first| first.rounds[0].value == way.rounds[0].value);
            if !values(way) || !same {
                faults.push(format!("{word} by {strategy}: it does not read the same"));
            }
        }
        faults
    }
}

/// Where two methods show something else in segment 0, in words.
fn difference(one: &Finds, other: &Finds) -> Option<String> {
    let (a, b) = (by_ports(one), by_ports(other));
    let differs = a.iter().zip(&b).find(|(a, b)| a != b);
    let at = match differs {
        Some((a, _)) => a.0.address(),
        None if a.len() == b.len() => return None,
        None => {
            let longer = if a.len() > b.len() { &a } else { &b };
            longer[a.len().min(b.len())].0.address()
        }
    };
    let (one, other) = (one.method.name(), other.method.name());
    Some(format!("{one} and {other} do not show the same at {at}"))
}

/// Each function, and its capabilities, without what ports do not reach.
fn by_ports(finds: &Finds) -> Vec<(&FoundFunction, Vec<FoundCapability>)> {
    let devices = finds.devices.iter();
    let near = devices.filter(|device| device.found.segment == 0);
    near.map(|device| {
        let capabilities = device.capabilities.iter();
        let near = capabilities.filter(|one| one.register < 256).copied();
        (&device.found, near.collect())
    })
    .collect()
}

//! How reports about configuration space become figures and findings.

use nostall_vm::MapChanges;
use nostall_work::pci::{FoundCapability, FoundFunction, Method, Operation, PciMeasured};

use super::metrics;
use super::run::{AccessStrategy, FoundTree, Mapping, Measuring, PciSurvey, SurveyedFunction};
use crate::experiments::verdict::group;
use nostall_figures::figure::Figures;
use nostall_figures::numbers::median;

/// Everything that a survey comes to.
pub struct Summary {
    pub figures: Figures,
    /// Differences between the methods, each in a line.
    pub faults: Vec<String>,
    /// Faults of the devices. They are not the verdict's, as long as every method shows the
    /// same.
    pub doubts: Vec<String>,
}

/// All rounds of one measurement.
type Rounds = ((Operation, AccessStrategy), Vec<(PciMeasured, Option<u64>)>);

/// The stable word for an operation.
pub fn word(operation: Operation) -> &'static str {
    operation.into()
}

/// Folds the reports. `measure` is the order of the figures.
pub fn fold(
    on: &'static str,
    survey: &PciSurvey,
    measure: &[(Operation, AccessStrategy)],
) -> Summary {
    let mut figures = Figures::new("pci", on);
    let measured = survey.measurings.iter().filter_map(|one| {
        let Measuring {
            operation,
            strategy,
            measured,
            exits,
        } = *one;
        Some(((operation, strategy), (measured?, exits)))
    });
    let mut rounds = group(measured);
    rounds.sort_by_key(|(key, _)| measure.iter().position(|one| one == key));
    for one in &rounds {
        add_measurement(&mut figures, one, &rounds);
    }
    let mappings = survey.mappings.iter().map(|boot| (boot.strategy, boot));
    for (strategy, boots) in group(mappings) {
        let mut record = figures.record(strategy.name());
        let at_start: fn(&Mapping) -> MapChanges = |boot| boot.at_start;
        let both = [
            (metrics::MAPS_AT_START, metrics::MAPS_AT_START_NS, at_start),
            (metrics::MAP_CHANGES, metrics::MAP_CHANGE_NS, |boot| {
                boot.changes
            }),
        ];
        for (metric, _, changes) in both {
            record.median(metric, boots.iter().map(|boot| changes(boot).count), 1.0);
        }
        for (_, metric, changes) in both {
            let took = || boots.iter().map(|boot| changes(boot).took.0);
            let counts = boots.iter().map(|boot| changes(boot).count);
            // Where no time passes there is none to show.
            if median(took().collect()) > 0 || median(counts.collect()) == 0 {
                record.median(metric, took(), 1.0);
            }
        }
    }
    for FoundTree { method, sum, .. } in &survey.trees {
        let mut record = figures.record(method.name());
        let counts = [
            (metrics::FUNCTIONS, sum.functions),
            (metrics::BUSES, sum.buses),
            (metrics::FAULTS, sum.faults),
        ];
        for (metric, count) in counts {
            record.value(metric, f64::from(count));
        }
    }
    let mut faults = tree_faults(survey);
    faults.extend(rounds.iter().flat_map(|one| measured_faults(one, &rounds)));
    Summary {
        figures,
        faults,
        doubts: doubts(survey),
    }
}

fn add_measurement(figures: &mut Figures, one: &Rounds, all: &[Rounds]) {
    let ((operation, strategy), rounds) = one;
    let mut record = figures
        .record(strategy.name())
        .of_case(Some(word(*operation).to_owned()));
    let per = per_operation(rounds);
    let accesses = rounds.iter().map(|(once, _)| once.bus_accesses);
    record.median(metrics::BUS_ACCESSES, accesses, per);
    let exits = rounds.iter().filter_map(|(_, exits)| *exits);
    record.median(metrics::EXITS, exits, per);
    let Some(ns) = ns(rounds) else { return };
    let times = || rounds.iter().map(|(once, _)| once.ns);
    record.median(metrics::NS, times(), per);
    for (metric, other) in [
        (metrics::TIME_RATIO_TO_PORTS, AccessStrategy::Ports),
        (metrics::TIME_RATIO_TO_RAM, AccessStrategy::Ram),
    ] {
        let mut others = all.iter().filter(|(key, _)| *key == (*operation, other));
        let Some(other_ns) = others.next().and_then(|(_, rounds)| self::ns(rounds)) else {
            continue;
        };
        let ratios = times().map(|ns| ns as f64 / per / other_ns);
        record.value_of(metric, ns / other_ns, ratios);
    }
}

/// Number of operations in one measurement.
fn per_operation(rounds: &[(PciMeasured, Option<u64>)]) -> f64 {
    let operations = rounds.first().map_or(1, |(once, _)| once.operations.max(1));
    f64::from(operations)
}

/// Time of one operation; `None` where no time passes.
fn ns(rounds: &[(PciMeasured, Option<u64>)]) -> Option<f64> {
    let ns = median(rounds.iter().map(|(once, _)| once.ns).collect());
    (ns > 0).then(|| ns as f64 / per_operation(rounds))
}

fn doubts(survey: &PciSurvey) -> Vec<String> {
    let mut doubts = Vec::new();
    for tree in &survey.trees {
        let method = tree.method.name();
        doubts.extend(tree.faults.iter().map(|what| format!("{method}: {what}")));
        let more = u64::from(tree.sum.faults).saturating_sub(tree.faults.len() as u64);
        if more > 0 {
            doubts.push(format!("{method}: and {more} more"));
        }
    }
    doubts
}

fn tree_faults(survey: &PciSurvey) -> Vec<String> {
    let mut faults = Vec::new();
    for tree in &survey.trees {
        if tree.sum.functions as usize != tree.functions.len() {
            let method = tree.method.name();
            faults.push(format!("{method}: the guest has not told of all functions"));
        }
    }
    // It shows more than ports do.
    if let Some(chosen) = survey.by(Method::Auto) {
        let others = survey.trees.iter();
        let others = others.filter(|tree| tree.method != chosen.method);
        faults.extend(others.filter_map(|other| difference(chosen, other)));
        let functions = chosen.functions.iter();
        let near = functions.filter(|function| function.found.segment == 0);
        let mut ids: Vec<_> = near.map(SurveyedFunction::id).collect();
        // It goes from bus to bus. Our walk goes down at each bridge.
        ids.sort_unstable_by_key(|(bus, devfn, ..)| (*bus, *devfn));
        if ids != survey.virtio_drivers {
            faults.push("the virtio-drivers crate finds other functions".to_owned());
        }
    }
    if faults.is_empty() && !survey.equal {
        faults.push("the guest says that its trees differ".to_owned());
    }
    faults
}

fn measured_faults(one: &Rounds, all: &[Rounds]) -> Vec<String> {
    let ((operation, strategy), rounds) = one;
    let (word, strategy) = (word(*operation), strategy.name());
    let mut faults = Vec::new();
    let accesses = matches!(operation, Operation::Read(_) | Operation::Write(_));
    if accesses && rounds.iter().any(|(once, _)| once.faults > 0) {
        faults.push(format!("{word} by {strategy}: not every access was made"));
    }
    let mut alike = all.iter().filter(|((other, _), _)| other == operation);
    let expected = alike.next().map(|(_, rounds)| rounds[0].0.value);
    if rounds.iter().any(|(once, _)| Some(once.value) != expected) {
        faults.push(format!("{word} by {strategy}: it does not read the same"));
    }
    faults
}

/// Where two methods show different functions in segment 0, in words.
fn difference(one: &FoundTree, other: &FoundTree) -> Option<String> {
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

/// Each function and its capabilities, without registers that ports do not reach.
fn by_ports(tree: &FoundTree) -> Vec<(&FoundFunction, Vec<FoundCapability>)> {
    let functions = tree.functions.iter();
    let near = functions.filter(|function| function.found.segment == 0);
    near.map(|function| {
        let capabilities = function.capabilities.iter();
        let near = capabilities.filter(|one| one.register < 256).copied();
        (&function.found, near.collect())
    })
    .collect()
}

/// Returns a line for each function, as `lspci -Dn` has it.
pub fn functions(survey: &PciSurvey) -> Option<String> {
    let tree = survey.by(Method::Auto)?;
    let functions = tree.functions.iter().map(|one| one.found.function());
    let lines = functions.map(|function| format!("  {function}"));
    Some(format!(
        "Functions:\n{}",
        lines.collect::<Vec<_>>().join("\n")
    ))
}

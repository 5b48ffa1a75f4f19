//! PCI configuration space: what each way to it costs, and whether all show the same.

use std::ffi::OsString;
use std::io;

use anyhow::Result;
use nostall_io::Nanos;
use nostall_pci::{Bar, Names};
use nostall_vm::{Guest, MapChanges};
use nostall_work::pci::{Method, Operation, PciMeasured as Once, READS, WRITES};
use serde::Serialize;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use super::kvm;
use super::model;
use super::run::{self, Experiment, Finds, Outcome, Strategy, Window};
use crate::experiments::experiment::Answer;
use crate::experiments::on::{On, on_qemu};
use crate::experiments::progress::Busy;
use crate::experiments::table::cpus as cpus_in_words;
use crate::experiments::verdict::median;
use crate::output::Style;
use crate::pci::json::{BaseAddress, Device};
use crate::pci::tree;

/// How often everything is measured.
const ROUNDS: u16 = 5;

/// What is measured: as much as in the seed, unless an interpreter has to do it.
fn operations(on: &On) -> [Operation; 4] {
    let less = match on {
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        On::Kvm(on) if on.speed.is_interpreted() => 10,
        _ => 1,
    };
    [
        Operation::Read(READS / less),
        Operation::Write(WRITES / less),
        Operation::Scan,
        Operation::Init,
    ]
}

/// The ways that a machine has.
const fn strategies(on: &On) -> &'static [Strategy] {
    match on {
        On::Qemu { .. } => &[
            Strategy::Ports,
            Strategy::Ecam,
            Strategy::Ram,
            Strategy::Auto,
        ],
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        On::Kvm(_) => &[
            Strategy::Ports,
            Strategy::PortsCoalesced,
            Strategy::Ecam,
            Strategy::EcamShadow,
            Strategy::Ram,
            Strategy::Auto,
        ],
        // Plain memory is measured in time, which does not pass there.
        On::Model => &[Strategy::Ports, Strategy::Ecam, Strategy::EcamShadow],
    }
}

/// Everything that is measured on such a machine, once.
fn measurings(on: &On) -> Vec<(Operation, Strategy)> {
    let each = |operation| {
        let all = strategies(on).iter().copied();
        let can = all.filter(move |strategy| match operation {
            Operation::Read(_) | Operation::Write(_) => true,
            // One function in plain memory is nothing to walk.
            Operation::Scan | Operation::Init => *strategy != Strategy::Ram,
        });
        can.map(move |strategy| (operation, strategy))
    };
    operations(on).into_iter().flat_map(each).collect()
}

/// What was measured.
pub struct Measured {
    /// Where.
    pub headline: String,
    /// The stable word for that.
    pub on: &'static str,
    pub rounds: u16,
    pub outcome: Outcome,
    pub ways: Vec<Way>,
}

/// The PCI devices that were found, for programs.
#[derive(Serialize)]
pub struct Devices {
    pub devices: Vec<Device>,
}

/// One operation in one way, over all rounds.
pub struct Way {
    pub operation: Operation,
    pub strategy: Strategy,
    pub rounds: Vec<Once>,
    /// VM exits of each round; empty if the machine cannot count them.
    pub exits: Vec<u64>,
}

/// Cost of mapping configuration space into a guest for one way to it: medians over boots.
pub struct Maps {
    pub strategy: Strategy,
    pub boots: usize,
    pub at_start: MapChanges,
    pub changes: MapChanges,
}

/// Runs the experiment on `on`.
pub fn measure(on: &On, note: Option<&str>, cpus: u16, qemu_args: &[OsString]) -> Result<Measured> {
    let _busy = Busy::new("reading configuration space");
    let experiment = Experiment {
        measure: &measurings(on),
        repeat: match on {
            On::Qemu { .. } => ROUNDS,
            #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
            On::Kvm(on) => on.rounds(ROUNDS),
            // What is counted there is the same every time.
            On::Model => 1,
        },
    };
    let (outcome, headline) = match on {
        On::Qemu { qemu, kernel } => {
            let guest = Guest {
                qemu_args,
                ..Guest::new(kernel, cpus)
            };
            let (outcome, ran) = run::run(qemu, &guest, &experiment)?;
            (outcome, on_qemu("pci", qemu, &cpus_in_words(cpus), &ran))
        }
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        On::Kvm(on) => {
            let guest = Guest::new(&on.kernel, cpus);
            let (outcome, ran, notes) = kvm::run(&on.kvm, &guest, &experiment)?;
            (outcome, on.headline_of("pci on kvm", &ran, &notes))
        }
        On::Model => {
            let headline = "pci on model: access counts, no times".to_owned();
            (model::run(&experiment)?, headline)
        }
    };
    let headline = [Some(headline.as_str()), note].into_iter().flatten();
    Ok(Measured {
        headline: headline.collect::<Vec<_>>().join("\n"),
        on: on.name(),
        rounds: experiment.repeat,
        ways: ways(&outcome, experiment.measure),
        outcome,
    })
}

/// What was measured, in this order.
fn ways(outcome: &Outcome, measure: &[(Operation, Strategy)]) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for (operation, strategy) in measure {
        ways.push(Way {
            operation: *operation,
            strategy: *strategy,
            rounds: Vec::new(),
            exits: Vec::new(),
        });
    }
    for one in &outcome.measurings {
        let Some(measured) = one.measured else {
            continue;
        };
        let (operation, strategy) = (one.operation, one.strategy);
        let same = |way: &Way| (way.operation, way.strategy) == (operation, strategy);
        if let Some(way) = ways.iter_mut().find(|way| same(way)) {
            way.rounds.push(measured);
            way.exits.extend(one.exits);
        }
    }
    // What the machine turned out not to have.
    ways.retain(|way| !way.rounds.is_empty());
    ways
}

/// The stable word for what is done, once.
pub const fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::Read(_) => "read",
        Operation::Write(_) => "write",
        Operation::Scan => "scan",
        Operation::Init => "init",
    }
}

impl Way {
    /// The median for one operation.
    pub fn each(&self, value: impl Fn(&Once) -> u64) -> f64 {
        let operations = self.rounds.first().map_or(1, |once| once.operations.max(1));
        median(self.rounds.iter().map(value).collect()) as f64 / f64::from(operations)
    }

    /// `None` where no time passes.
    pub fn ns(&self) -> Option<f64> {
        Some(self.each(|once| once.ns)).filter(|ns| *ns > 0.0)
    }

    pub fn exits(&self) -> Option<f64> {
        let operations = self.rounds.first()?.operations.max(1);
        let exits = (!self.exits.is_empty()).then(|| median(self.exits.clone()))?;
        Some(exits as f64 / f64::from(operations))
    }
}

impl Measured {
    /// For people and for programs.
    pub fn answer(&self) -> Answer<Devices> {
        let faults = self.faults();
        let devices = self.devices();
        let mut drawn = Vec::new();
        // A vector takes all that is written to it.
        let _ = tree::write(&devices, Style::of(&io::stdout()), &mut drawn);
        let drawn = String::from_utf8_lossy(&drawn);
        let mut parts = vec![
            format!("{}\n{}", self.headline, self.machine()),
            self.table(),
            drawn.trim_end().to_owned(),
        ];
        let doubts = self.doubts();
        if !doubts.is_empty() {
            parts.push(format!("Wrong with it:\n  {}", doubts.join("\n  ")));
        }
        parts.push(if faults.is_empty() {
            self.success()
        } else {
            format!("Not as it should be:\n  {}", faults.join("\n  "))
        });
        Answer {
            text: parts.join("\n\n"),
            figures: self.figures().into(),
            found: Devices { devices },
            failure: faults.into_iter().next(),
        }
    }

    /// What the guest says of its machine.
    pub fn machine(&self) -> String {
        let machine = &self.outcome.machine;
        let first = if machine.ecam_first { "ECAM" } else { "ports" };
        let mut lines = vec![
            format!("{}: the policy is {first} first", machine.environment),
            format!("chosen: {}", machine.why),
        ];
        for window in &self.outcome.windows {
            let Window { segment, start, .. } = window;
            let (from, to) = window.buses;
            lines.push(format!(
                "ECAM: segment {segment:04x}, buses {from:02x} to {to:02x}, at {start:#x}"
            ));
            if let Some(doubt) = &window.doubt {
                lines.push(format!("  not used: {doubt}"));
            }
        }
        if let Some(why) = &self.outcome.no_windows {
            lines.push(format!("ECAM: none: {why}"));
        }
        lines.join("\n")
    }

    pub fn way(&self, operation: Operation, strategy: Strategy) -> Option<&Way> {
        let mut ways = self.ways.iter();
        ways.find(|way| way.operation == operation && way.strategy == strategy)
    }

    /// Cost of mapping, by strategy.
    pub fn maps(&self) -> Vec<Maps> {
        let mut maps: Vec<Maps> = Vec::new();
        for one in &self.outcome.mappings {
            let strategy = one.strategy;
            if maps.iter().any(|known| known.strategy == strategy) {
                continue;
            }
            let boots = self.outcome.mappings.iter();
            let boots: Vec<_> = boots.filter(|boot| boot.strategy == strategy).collect();
            let medians = |of: fn(&run::Mapping) -> MapChanges| MapChanges {
                count: median(boots.iter().map(|boot| of(boot).count).collect()),
                took: Nanos(median(boots.iter().map(|boot| of(boot).took.0).collect())),
            };
            maps.push(Maps {
                strategy,
                boots: boots.len(),
                at_start: medians(|boot| boot.at_start),
                changes: medians(|boot| boot.changes),
            });
        }
        maps
    }

    /// By the chosen method, which shows more than ports do.
    pub fn finds(&self) -> Option<&Finds> {
        self.outcome.by(Method::Auto)
    }

    /// As `nostall pci list` has them.
    pub fn devices(&self) -> Vec<Device> {
        let names = Names::of_the_system();
        let devices = self.finds().map_or(&[][..], |finds| &finds.devices);
        devices.iter().map(|device| shown(device, &names)).collect()
    }
}

/// A function as it is listed, with the sizes of its BARs.
fn shown(device: &run::Device, names: &Names) -> Device {
    let found = &device.found;
    let mut shown = Device::new(&found.function(), names);
    shown.set_windows(found.windows());
    let bars = found.bars.iter().map(|bar| Bar::from(*bar));
    shown.bars.extend(bars.map(|bar| BaseAddress::of(&bar)));
    for one in &device.capabilities {
        if let Some(one) = one.capability() {
            shown.add_capability(&one);
        }
        if let Some(one) = one.extended() {
            shown.add_extended(&one);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::run::Measuring;
    use nostall_work::pci::{Found, FoundCapability, Tree};

    use super::*;

    fn device(devfn: u8) -> run::Device {
        let found = Found {
            segment: 0,
            bus: 0,
            devfn,
            vendor: 0x1af4,
            device: 0x10f5,
            revision: 0,
            class: 0x12_0000,
            header: 0,
            multi_function: false,
            subsystem: None,
            buses: None,
            windows: [None; 3],
            interrupt: (0, 0),
            bars: Default::default(),
        };
        run::Device {
            found,
            capabilities: Vec::new(),
        }
    }

    fn finds(method: Method, devices: &[run::Device]) -> Finds {
        let sum = Tree {
            method,
            functions: devices.len() as u32,
            buses: 1,
            faults: 0,
            digest: 0,
        };
        Finds {
            method,
            devices: devices.to_vec(),
            faults: Vec::new(),
            sum,
        }
    }

    /// Two devices, found by each of three methods; two reads by each of two.
    fn measured(change: impl FnOnce(&mut Outcome)) -> Measured {
        let devices = [device(0), device(8)];
        let methods = [Method::Ports, Method::Ecam, Method::Auto];
        let measure = [Strategy::Ports, Strategy::Ecam].map(|by| (Operation::Read(10), by));
        let measurings = measure.iter().chain(&measure).zip(1..);
        let mut outcome = Outcome {
            trees: methods.map(|method| finds(method, &devices)).to_vec(),
            equal: true,
            virtio_drivers: devices.iter().map(run::Device::brief).collect(),
            measurings: measurings
                .map(|((operation, strategy), n)| Measuring {
                    operation: *operation,
                    strategy: *strategy,
                    measured: Some(Once {
                        operations: 10,
                        bus_accesses: 20,
                        ns: n * 100,
                        value: 7,
                        ..Once::default()
                    }),
                    exits: Some(5),
                })
                .collect(),
            ..Outcome::default()
        };
        change(&mut outcome);
        Measured {
            headline: String::new(),
            on: "qemu",
            rounds: 2,
            ways: ways(&outcome, &measure),
            outcome,
        }
    }

    fn failure(change: impl FnOnce(&mut Outcome)) -> Option<String> {
        measured(change).answer().failure
    }

    #[test]
    fn what_is_the_same_by_every_method_is_a_success() {
        let answer = measured(|_| {}).answer();
        assert_eq!(answer.failure, None);
        assert!(
            answer.text.contains("the same 2 functions"),
            "{}",
            answer.text
        );
        let of = |strategy, metric| {
            let mut figures = answer.figures.iter();
            let found = figures.find(|f| (f.strategy, f.metric.as_str()) == (strategy, metric));
            found.map(|figure| figure.value)
        };
        assert_eq!(of("ports", "ns_per_read"), Some(10.0));
        assert_eq!(of("ecam", "ns_per_read"), Some(20.0));
        assert_eq!(of("ecam", "exits_per_read"), Some(0.5));
        assert_eq!(of("ecam", "read_time_ratio_to_ports"), Some(2.0));
        assert_eq!(of("ecam", "read_time_ratio_to_ram"), None);
        assert_eq!(of("ecam", "functions"), Some(2.0));
        assert_eq!(answer.found.devices.len(), 2);
    }

    #[test]
    fn the_table_and_the_figures_tell_what_mapping_costs() {
        let changes = |count, us| MapChanges {
            count,
            took: Nanos::from_micros(us),
        };
        let boots = |us: [u64; 3]| {
            let strategies = [Strategy::Ecam, Strategy::EcamShadow];
            let boots = us.iter().flat_map(move |&us| strategies.map(|by| (by, us)));
            let mappings = boots.map(|(strategy, us)| match strategy {
                Strategy::EcamShadow => run::Mapping {
                    strategy,
                    at_start: changes(16, 100),
                    changes: changes(12, us),
                },
                _ => run::Mapping {
                    strategy,
                    at_start: MapChanges::default(),
                    changes: MapChanges::default(),
                },
            });
            let mappings: Vec<_> = mappings.collect();
            measured(|outcome| outcome.mappings = mappings).answer()
        };
        let answer = boots([5_000, 4_000, 3_000]);
        let row = "a boot   ecam-shadow    16  100 us         12  4.00 ms";
        assert!(answer.text.contains(row), "{}", answer.text);
        assert!(!answer.text.contains("a boot   ecam "), "{}", answer.text);
        let of = |strategy, metric| {
            let mut figures = answer.figures.iter();
            let found = figures.find(|f| (f.strategy, f.metric.as_str()) == (strategy, metric));
            found.map(|figure| (figure.value, figure.unit, figure.n))
        };
        assert_eq!(of("ecam-shadow", "maps_at_start"), Some((16.0, "1", 3)));
        assert_eq!(of("ecam-shadow", "maps_at_start_ns"), Some((1e5, "ns", 3)));
        assert_eq!(of("ecam-shadow", "map_changes"), Some((12.0, "1", 3)));
        assert_eq!(of("ecam-shadow", "map_change_ns"), Some((4e6, "ns", 3)));
        assert_eq!(of("ecam", "map_changes"), Some((0.0, "1", 3)));
        assert_eq!(of("ports", "map_changes"), None, "not told");
        // Counted, but not timed.
        let text = boots([0, 0, 0]).text;
        assert!(text.contains(" 12     -\n"), "{text}");
    }

    #[test]
    fn a_method_that_shows_something_else_is_named() {
        let why = failure(|outcome| outcome.trees[0].devices[1].found.revision = 1);
        assert_eq!(
            why.unwrap(),
            "auto and ports do not show the same at 0000:00:01.0"
        );
        let why = failure(|outcome| {
            outcome.trees[1].devices.pop();
            outcome.trees[1].sum.functions = 1;
        });
        assert_eq!(
            why.unwrap(),
            "auto and ecam do not show the same at 0000:00:01.0"
        );
        let why = failure(|outcome| outcome.equal = false);
        assert_eq!(why.unwrap(), "the guest says that its trees differ");
        let why = failure(|outcome| {
            outcome.virtio_drivers.pop();
        });
        assert_eq!(
            why.unwrap(),
            "the virtio-drivers crate finds other functions"
        );
        let why = failure(|outcome| {
            outcome.measurings[2].measured = Some(Once::default());
        });
        assert_eq!(why.unwrap(), "read by ports: it does not read the same");
        let why = failure(|outcome| outcome.trees[2].sum.functions = 3);
        assert_eq!(
            why.unwrap(),
            "auto: the guest has not told of all functions"
        );
    }

    #[test]
    fn what_ports_do_not_reach_is_no_difference() {
        let far = FoundCapability {
            register: 256,
            id: 1,
            word: 1,
        };
        let by_memory = |outcome: &mut Outcome| {
            for finds in &mut outcome.trees[1..] {
                finds.devices[0].capabilities.push(far);
            }
        };
        assert_eq!(failure(by_memory), None);
        let why = failure(|outcome| {
            let near = FoundCapability {
                register: 64,
                ..far
            };
            outcome.trees[1].devices[0].capabilities.push(near);
        });
        assert!(why.is_some());
    }

    #[test]
    fn a_device_that_is_not_as_it_should_be_is_told_of_and_no_failure() {
        let answer = measured(|outcome| {
            outcome.trees[0].faults.push("0000:00:01.0: odd".to_owned());
            outcome.trees[0].sum.faults = 3;
        })
        .answer();
        assert_eq!(answer.failure, None);
        let told = "Wrong with it:\n  ports: 0000:00:01.0: odd\n  ports: and 2 more\n";
        assert!(answer.text.contains(told), "{}", answer.text);
    }

    #[test]
    fn a_method_that_is_not_there_has_no_row() {
        let answer = measured(|outcome| {
            outcome.trees.remove(1);
            for one in &mut outcome.measurings {
                if one.strategy == Strategy::Ecam {
                    one.measured = None;
                }
            }
        })
        .answer();
        assert_eq!(answer.failure, None);
        assert!(
            answer
                .text
                .contains("There is no ECAM to compare: ports show 2 functions")
        );
        assert!(
            !answer
                .figures
                .iter()
                .any(|figure| figure.strategy == "ecam")
        );
    }
}

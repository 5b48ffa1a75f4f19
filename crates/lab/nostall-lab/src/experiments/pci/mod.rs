//! Experiment pci: the cost of each method for PCI configuration space.

mod fold;
pub mod kvm;
pub(super) mod metrics;
pub mod model;
mod peers;
pub mod run;
mod table;
pub(super) mod tour;

use std::ops::RangeInclusive;

use anyhow::Result;
use nostall_vm::Device;
use nostall_work::pci::{Operation, READS, WRITES};

use super::args::{Common, OnArg};
use super::experiment::{Answer, Experiment};
use super::on::On;
use super::peers::PeerComparison;
use super::progress::Busy;
use super::runner;
use super::tour::row::TourRows;
use crate::report::part::PagePart;
use fold::Summary;
use run::{AccessStrategy, PciPlan, PciSurvey};

/// Read PCI configuration space with each access method
///
/// Lists the PCI devices with each method (ports, ECAM, and the automatic choice). Measures reads,
/// writes, a scan, and a scan that sizes BARs and follows capabilities. Succeeds only if all
/// methods show the same.
///
/// `--on auto` takes KVM if hardware runs the guest (some KVMs interpret guest code), else QEMU if
/// it is installed, else the model. If the machine on KVM fails, the next one is tried.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    common: Common,
}

const EXAMPLES: &str = "\
Examples:
  nostall-lab run pci                   read through ports and through ECAM
  nostall-lab run pci --qemu-arg=-device --qemu-arg=virtio-rng-pci
                                        with one more device
  nostall-lab run pci --qemu-arg=-cpu --qemu-arg=max,-hypervisor
                                        as on bare metal
  nostall-lab run pci --on kvm          also from memory that the guest can read
  nostall-lab run pci --machine virt    ECAM alone, addresses assigned";

impl Experiment for Args {
    const NAME: &'static str = "pci";
    const TOUR: TourRows = tour::TOUR;
    const PAGE: PagePart = metrics::PAGE;
    const BEST: &'static [OnArg] = OnArg::BEST;
    const DEVICES: &'static [Device] = &[Device::Pci];
    const PEERS: Option<&'static PeerComparison> = Some(&peers::PEERS);
    const CPU_RANGE: RangeInclusive<u16> = 1..=64;
    type Input = ();
    type Found = ();

    fn common(&self) -> &Common {
        &self.common
    }

    fn read(&self) -> Result<()> {
        Ok(())
    }

    fn measure(&self, on: &On, note: Option<&str>, (): &()) -> Result<Answer<Self::Found>> {
        let measure = measurings(on);
        let plan = PciPlan {
            measure: &measure,
            repeat: on.rounds(ROUNDS),
        };
        let busy = Busy::new("reading configuration space");
        let (survey, headline) = self.survey(on, &plan)?;
        drop(busy);
        let heading = runner::heading(&headline, note);
        Ok(answer(&heading, on.name(), &survey, &plan))
    }
}

/// Folds a survey into the text and the figures.
fn answer(headline: &str, on: &'static str, survey: &PciSurvey, plan: &PciPlan<'_>) -> Answer<()> {
    let Summary {
        figures,
        faults,
        doubts,
    } = fold::fold(on, survey, plan.measure);
    let mut parts = vec![format!("{headline}\n{}", survey.described.join("\n"))];
    parts.extend(table::tables(&figures, plan));
    parts.extend(fold::functions(survey));
    if !doubts.is_empty() {
        parts.push(format!("Wrong with it:\n  {}", doubts.join("\n  ")));
    }
    Answer::of(parts, figures, (), faults, table::success)
}

/// Number of rounds, where time is real.
const ROUNDS: u16 = 5;

/// Returns the measurements of a round on this machine.
fn measurings(on: &On) -> Vec<(Operation, AccessStrategy)> {
    use AccessStrategy::{Auto, Ecam, EcamShadow, Ports, PortsCoalesced, Ram};
    let (strategies, less): (&[AccessStrategy], _) = match on {
        On::Qemu { .. } => (&[Ports, Ecam, Ram, Auto], 1),
        On::Kvm(on) => {
            let all = &[Ports, PortsCoalesced, Ecam, EcamShadow, Ram, Auto];
            (all, if on.speed.is_interpreted() { 10 } else { 1 })
        }
        // Plain memory only has a time, which does not pass in the model.
        On::Model => (&[Ports, Ecam, EcamShadow], 1),
    };
    let operations = [
        // The numbers are those of Linux's measurement, unless an interpreter executes them.
        Operation::Read(READS / less),
        Operation::Write(WRITES / less),
        Operation::Scan,
        Operation::Init,
    ];
    let each = |operation| strategies.iter().map(move |by| (operation, *by));
    let all = operations.into_iter().flat_map(each);
    // One function in plain memory cannot be walked.
    let is_walk = |operation| matches!(operation, Operation::Scan | Operation::Init);
    all.filter(|(operation, by)| !is_walk(*operation) || *by != Ram)
        .collect()
}

impl Args {
    /// Runs `plan` on the machine, and describes the machine.
    fn survey(&self, on: &On, plan: &PciPlan<'_>) -> Result<(PciSurvey, String)> {
        Ok(match on {
            On::Qemu { qemu, kernel } => {
                let (survey, ran) = run::run(qemu, &self.guest(kernel), plan)?;
                (survey, runner::headline(self, on, &ran))
            }
            On::Kvm(on) => {
                let guest = self.guest(&on.kernel);
                let (survey, ran, notes) = kvm::run(&on.kvm, &guest, plan)?;
                (survey, on.headline_of("pci on kvm", &ran, &notes))
            }
            On::Model => {
                let headline = "pci on model: access counts, no times".to_owned();
                (model::run(plan)?, headline)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use nostall_io::Nanos;
    use nostall_vm::MapChanges;
    use nostall_work::pci::{FoundCapability, FoundFunction, Method, PciMeasured, Tree};

    use super::run::{FoundTree, Mapping, Measuring, SurveyedFunction};
    use super::*;

    fn device(devfn: u8) -> SurveyedFunction {
        let found = FoundFunction {
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
        SurveyedFunction {
            found,
            capabilities: Vec::new(),
        }
    }

    fn tree(method: Method, devices: &[SurveyedFunction]) -> FoundTree {
        let sum = Tree {
            method,
            functions: devices.len() as u32,
            buses: 1,
            faults: 0,
            digest: 0,
        };
        FoundTree {
            method,
            functions: devices.to_vec(),
            faults: Vec::new(),
            sum,
        }
    }

    /// Folds a survey of two devices with three methods, and of two reads with two.
    fn measured(change: impl FnOnce(&mut PciSurvey)) -> Answer<()> {
        let devices = [device(0), device(8)];
        let methods = [Method::Ports, Method::Ecam, Method::Auto];
        let measure =
            [AccessStrategy::Ports, AccessStrategy::Ecam].map(|by| (Operation::Read(10), by));
        let measurings = measure.iter().chain(&measure).zip(1..);
        let mut survey = PciSurvey {
            trees: methods.map(|method| tree(method, &devices)).to_vec(),
            equal: true,
            virtio_drivers: devices.iter().map(SurveyedFunction::id).collect(),
            measurings: measurings
                .map(|((operation, strategy), n)| Measuring {
                    operation: *operation,
                    strategy: *strategy,
                    measured: Some(PciMeasured {
                        operations: 10,
                        bus_accesses: 20,
                        ns: n * 100,
                        value: 7,
                        ..PciMeasured::default()
                    }),
                    exits: Some(5),
                })
                .collect(),
            ..PciSurvey::default()
        };
        change(&mut survey);
        let plan = PciPlan {
            measure: &measure,
            repeat: 2,
        };
        answer("", "qemu", &survey, &plan)
    }

    fn failure(change: impl FnOnce(&mut PciSurvey)) -> Option<String> {
        measured(change).failure
    }

    #[test]
    fn equal_results_of_every_method_are_a_success() {
        let answer = measured(|_| {});
        assert_eq!(answer.failure, None);
        assert!(
            answer.text.contains("the same 2 functions"),
            "{}",
            answer.text
        );
        let of = |strategy, metric| {
            let mut figures = answer.figures.iter();
            let found = figures.find(|f| (&*f.strategy, &*f.metric) == (strategy, metric));
            found.map(|figure| figure.value)
        };
        assert_eq!(of("ports", "ns_per_read"), Some(10.0));
        assert_eq!(of("ecam", "ns_per_read"), Some(20.0));
        assert_eq!(of("ecam", "exits_per_read"), Some(0.5));
        assert_eq!(of("ecam", "read_time_ratio_to_ports"), Some(2.0));
        assert_eq!(of("ecam", "read_time_ratio_to_ram"), None);
        assert_eq!(of("ecam", "functions"), Some(2.0));
        let second = "\n  0000:00:01.0 1200: 1af4:10f5\n";
        assert!(answer.text.contains(second), "{}", answer.text);
    }

    #[test]
    fn the_table_and_the_figures_have_the_cost_of_mapping() {
        let changes = |count, us| MapChanges {
            count,
            took: Nanos::from_micros(us),
        };
        let boots = |us: [u64; 3]| {
            let strategies = [AccessStrategy::Ecam, AccessStrategy::EcamShadow];
            let boots = us.iter().flat_map(move |&us| strategies.map(|by| (by, us)));
            let mappings = boots.map(|(strategy, us)| match strategy {
                AccessStrategy::EcamShadow => Mapping {
                    strategy,
                    at_start: changes(16, 100),
                    changes: changes(12, us),
                },
                _ => Mapping {
                    strategy,
                    at_start: MapChanges::default(),
                    changes: MapChanges::default(),
                },
            });
            let mappings: Vec<_> = mappings.collect();
            measured(|survey| survey.mappings = mappings)
        };
        let answer = boots([5_000, 4_000, 3_000]);
        let row = "a boot   ecam-shadow    16  100 us         12  4.00 ms";
        assert!(answer.text.contains(row), "{}", answer.text);
        assert!(!answer.text.contains("a boot   ecam "), "{}", answer.text);
        let of = |strategy, metric| {
            let mut figures = answer.figures.iter();
            let found = figures.find(|f| (&*f.strategy, &*f.metric) == (strategy, metric));
            found.map(|figure| (figure.value, &*figure.unit, figure.n))
        };
        assert_eq!(of("ecam-shadow", "maps_at_start"), Some((16.0, "1", 3)));
        assert_eq!(of("ecam-shadow", "maps_at_start_ns"), Some((1e5, "ns", 3)));
        assert_eq!(of("ecam-shadow", "map_changes"), Some((12.0, "1", 3)));
        assert_eq!(of("ecam-shadow", "map_change_ns"), Some((4e6, "ns", 3)));
        assert_eq!(of("ecam", "map_changes"), Some((0.0, "1", 3)));
        assert_eq!(of("ports", "map_changes"), None, "not told");
        // The maps were counted, but not timed.
        let text = boots([0, 0, 0]).text;
        assert!(text.contains(" 12     -\n"), "{text}");
    }

    #[test]
    fn a_method_that_shows_something_else_is_named() {
        let why = failure(|survey| survey.trees[0].functions[1].found.revision = 1);
        assert_eq!(
            why.unwrap(),
            "auto and ports do not show the same at 0000:00:01.0"
        );
        let why = failure(|survey| {
            survey.trees[1].functions.pop();
            survey.trees[1].sum.functions = 1;
        });
        assert_eq!(
            why.unwrap(),
            "auto and ecam do not show the same at 0000:00:01.0"
        );
        let why = failure(|survey| survey.equal = false);
        assert_eq!(why.unwrap(), "the guest says that its trees differ");
        let why = failure(|survey| {
            survey.virtio_drivers.pop();
        });
        assert_eq!(
            why.unwrap(),
            "the virtio-drivers crate finds other functions"
        );
        let why = failure(|survey| {
            survey.measurings[2].measured = Some(PciMeasured::default());
        });
        assert_eq!(why.unwrap(), "read by ports: it does not read the same");
        let why = failure(|survey| survey.trees[2].sum.functions = 3);
        assert_eq!(
            why.unwrap(),
            "auto: the guest has not told of all functions"
        );
    }

    #[test]
    fn registers_that_ports_do_not_reach_are_no_difference() {
        let far = FoundCapability {
            register: 256,
            id: 1,
            word: 1,
        };
        let by_memory = |survey: &mut PciSurvey| {
            for finds in &mut survey.trees[1..] {
                finds.functions[0].capabilities.push(far);
            }
        };
        assert_eq!(failure(by_memory), None);
        let why = failure(|survey| {
            let near = FoundCapability {
                register: 64,
                ..far
            };
            survey.trees[1].functions[0].capabilities.push(near);
        });
        assert!(why.is_some());
    }

    #[test]
    fn a_faulty_device_is_reported_and_is_no_failure() {
        let answer = measured(|survey| {
            survey.trees[0].faults.push("0000:00:01.0: odd".to_owned());
            survey.trees[0].sum.faults = 3;
        });
        assert_eq!(answer.failure, None);
        let result = "Wrong with it:\n  ports: 0000:00:01.0: odd\n  ports: and 2 more\n";
        assert!(answer.text.contains(result), "{}", answer.text);
    }

    #[test]
    fn a_method_that_is_not_there_has_no_row() {
        let answer = measured(|survey| {
            survey.trees.remove(1);
            for one in &mut survey.measurings {
                if one.strategy == AccessStrategy::Ecam {
                    one.measured = None;
                }
            }
        });
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

//! PCI configuration space: the devices with every method, and the cost of each method.

use nostall_work::LONGEST_REPORT;
use nostall_work::pci::{
    FoundCapability, FoundFunction, Job, JobResult, Method, Operation, PciMeasured, Tree,
};

use nostall_vm::qemu::Qemu;
use nostall_vm::{Ending, Error, Exits, Guest, GuestRun, Limits, Machine, MapChanges};

use crate::experiments::runner::run_jobs;

/// Bytes of reports for each function that a guest can find with three methods, with the most
/// capabilities. Some hundred functions are a large machine, a few thousand are more than there
/// are.
const REPORT_BYTES: u64 = 4096 * 3 * 4 * LONGEST_REPORT as u64;

/// A way to configuration space: a method of the guest, and the machine's answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccessStrategy {
    /// Ports; the machine handles each access.
    Ports,
    /// Ports; the host's kernel collects writes of the index, as in QEMU on KVM.
    PortsCoalesced,
    /// Memory; the machine handles each access.
    Ecam,
    /// Memory that the machine maps into the guest: reads cause no exit.
    EcamShadow,
    /// The same code on plain memory, which is the limit.
    Ram,
    /// The method that the guest chose.
    Auto,
}

impl AccessStrategy {
    /// The stable word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ports => "ports",
            Self::PortsCoalesced => "ports-coalesced",
            Self::Ecam => "ecam",
            Self::EcamShadow => "ecam-shadow",
            Self::Ram => "ram",
            Self::Auto => "auto",
        }
    }

    /// The guest's method.
    pub const fn method(self) -> Method {
        match self {
            Self::Ports | Self::PortsCoalesced => Method::Ports,
            Self::Ecam | Self::EcamShadow => Method::Ecam,
            Self::Ram => Method::Ram,
            Self::Auto => Method::Auto,
        }
    }
}

/// The measurements, beside the list of every function with every method.
#[derive(Clone, Copy, Debug)]
pub struct PciPlan<'a> {
    /// Measurements of a round, in their order.
    pub measure: &'a [(Operation, AccessStrategy)],
    /// Number of rounds. The methods alternate, so that a change in the machine's speed
    /// affects all of them alike.
    pub repeat: u16,
}

/// The reports of a guest or of the model, put together.
#[derive(Clone, Debug, Default)]
pub struct PciSurvey {
    /// The machine, the choice of a method and the ECAM windows, in lines for people.
    pub described: Vec<String>,
    /// The functions that each method found.
    pub trees: Vec<FoundTree>,
    /// Whether the guest reports that these are the same.
    pub equal: bool,
    /// The functions that the `virtio-drivers` crate found with the chosen method.
    pub virtio_drivers: Vec<FunctionId>,
    /// The measurements, round after round.
    pub measurings: Vec<Measuring>,
    /// The cost of mapping configuration space into the guest, boot after boot; empty if the
    /// machine does not count it.
    pub mappings: Vec<Mapping>,
}

/// Cost of mapping configuration space into a guest, for one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The way that the guest was booted for.
    pub strategy: AccessStrategy,
    /// Maps that are made before it starts.
    pub at_start: MapChanges,
    /// Changes as it runs: it gives out bus numbers.
    pub changes: MapChanges,
}

/// The functions that one method found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundTree {
    /// The method.
    pub method: Method,
    /// Each function, in its order.
    pub functions: Vec<SurveyedFunction>,
    /// Faults of devices that the walk met.
    pub faults: Vec<String>,
    /// The guest's own sum.
    pub sum: Tree,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedFunction {
    /// Its header and its BARs.
    pub found: FoundFunction,
    /// Its capabilities, extended ones last.
    pub capabilities: Vec<FoundCapability>,
}

/// Bus in segment 0, device and function, vendor, device, and class of a function.
pub type FunctionId = (u8, u8, u16, u16, u32);

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measuring {
    /// The operation.
    pub operation: Operation,
    /// The way to configuration space.
    pub strategy: AccessStrategy,
    /// The guest's report; `None` if the guest has no such method.
    pub measured: Option<PciMeasured>,
    /// Its VM exits; `None` if the machine cannot count them.
    pub exits: Option<u64>,
}

impl PciPlan<'_> {
    /// All measurements, in order.
    pub(super) fn rounds(&self) -> impl Iterator<Item = (Operation, AccessStrategy)> {
        (0..self.repeat).flat_map(|_| self.measure.iter().copied())
    }

    /// Returns a guest's jobs: `first`, then the functions, then round after round.
    pub(super) fn jobs(&self, first: Option<Job>) -> Vec<Job> {
        let rounds = self.rounds();
        let rounds = rounds.map(|(operation, by)| Job::Measure(operation, by.method()));
        first.into_iter().chain(FUNCTIONS).chain(rounds).collect()
    }

    /// Runs these jobs on `machine` in `guest`.
    pub(super) fn run_jobs(
        &self,
        jobs: &[Job],
        machine: &dyn Machine,
        guest: &Guest<'_>,
    ) -> Result<(PciSurvey, GuestRun), Error> {
        let limits = Limits::of(jobs.len() as u64, 0);
        let limits = Limits {
            report_bytes: REPORT_BYTES,
            // A KVM that interprets takes some 100 us a read.
            silence: limits.silence * 3,
            total: limits.total * 10,
            ..limits
        };
        let ran = run_jobs(
            machine,
            guest,
            (jobs, 1),
            &limits,
            Ending::Done,
            &mut |_| {},
        )?;
        let survey = self.survey(jobs, ran.results_with_exits()?);
        Ok((survey.ok_or(Error::Undone)?, ran))
    }

    /// Puts together the reports of these jobs in a guest; `None` if some are missing, or out
    /// of order.
    fn survey(
        &self,
        jobs: &[Job],
        result: Vec<(usize, JobResult, Option<Exits>)>,
    ) -> Option<PciSurvey> {
        let mut rounds = self.rounds();
        let mut survey = PciSurvey::default();
        let (mut compared, mut turn) = (false, 0);
        for (item, result, exits) in result {
            if item < turn {
                return None;
            }
            turn = item;
            match (jobs.get(item)?, result) {
                (Job::Measure(..), JobResult::Measured(measured)) => {
                    let (operation, strategy) = rounds.next()?;
                    turn += 1; // each has one
                    survey.measurings.push(Measuring {
                        operation,
                        strategy,
                        measured,
                        exits: exits.map(|exits| exits.pci),
                    });
                }
                (_, result) => {
                    compared |= matches!(result, JobResult::Compared { .. });
                    survey.add(result)?;
                }
            }
        }
        (compared && rounds.next().is_none()).then_some(survey)
    }
}

/// Jobs that report every function.
const FUNCTIONS: [Job; 2] = [Job::Enumerate, Job::VirtioDrivers];

impl PciSurvey {
    /// Adds a report about the machine; `None` if it is of another kind.
    pub(super) fn add(&mut self, result: JobResult) -> Option<()> {
        match result {
            JobResult::Machine {
                environment,
                ecam_first,
                why,
                ..
            } => {
                let first = if ecam_first { "ECAM" } else { "ports" };
                self.described = vec![
                    format!("{environment}: the policy is {first} first"),
                    format!("chosen: {why}"),
                ];
            }
            JobResult::Window {
                segment,
                buses: (from, to),
                start,
                doubt,
            } => {
                self.described.push(format!(
                    "ECAM: segment {segment:04x}, buses {from:02x} to {to:02x}, at {start:#x}"
                ));
                let doubt = doubt.map(|doubt| format!("  not used: {doubt}"));
                self.described.extend(doubt);
            }
            JobResult::NoWindows(why) => self.described.push(format!("ECAM: none: {why}")),
            JobResult::Function { method, found } => {
                let capabilities = Vec::new();
                let functions = &mut self.tree(method).functions;
                functions.push(SurveyedFunction {
                    found,
                    capabilities,
                });
            }
            JobResult::Capabilities(some) => {
                let function = self.trees.last_mut()?.functions.last_mut()?;
                function.capabilities.extend(some);
            }
            JobResult::Fault { method, what } => {
                self.tree(method).faults.push(what.as_str().to_owned());
            }
            JobResult::Tree(sum) => self.tree(sum.method).sum = sum,
            JobResult::Compared { equal } => self.equal = equal,
            // Faults were reported for BARs without a place. A sum adds nothing.
            JobResult::Assigned { .. } | JobResult::VirtioDriversDone { .. } => {}
            JobResult::VirtioDrivers {
                bus,
                devfn,
                vendor,
                device,
                class,
            } => self
                .virtio_drivers
                .push((bus, devfn, vendor, device, class)),
            _ => return None,
        }
        Some(())
    }

    /// Returns the tree of this method, which begins empty.
    fn tree(&mut self, method: Method) -> &mut FoundTree {
        let known = self.trees.iter().position(|tree| tree.method == method);
        let at = known.unwrap_or_else(|| {
            self.trees.push(FoundTree {
                method,
                functions: Vec::new(),
                faults: Vec::new(),
                sum: Tree {
                    method,
                    functions: 0,
                    buses: 0,
                    faults: 0,
                    digest: 0,
                },
            });
            self.trees.len() - 1
        });
        &mut self.trees[at]
    }

    /// Returns the tree of this method, if the machine has it.
    pub fn by(&self, method: Method) -> Option<&FoundTree> {
        self.trees.iter().find(|tree| tree.method == method)
    }
}

impl SurveyedFunction {
    /// Returns the members that every enumeration shows.
    pub const fn id(&self) -> FunctionId {
        let found = &self.found;
        (
            found.bus,
            found.devfn,
            found.vendor,
            found.device,
            found.class,
        )
    }
}

/// Runs `plan` in QEMU in `guest`, and replaces the guest's work.
///
/// # Errors
///
/// Returns the errors of [`Machine::run`].
pub fn run(
    qemu: &Qemu,
    guest: &Guest<'_>,
    plan: &PciPlan<'_>,
) -> Result<(PciSurvey, GuestRun), Error> {
    let unassigned = qemu.board().leaves_pci_unassigned();
    let jobs = plan.jobs(unassigned.then_some(Job::Assign(None)));
    plan.run_jobs(&jobs, qemu, guest)
}

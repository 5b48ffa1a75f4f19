//! PCI configuration space: the devices by every method, and what each method costs.

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use nostall_work::LONGEST_REPORT;
use nostall_work::pci::{
    FoundCapability, FoundFunction, Job, Method, Operation, PciMeasured, Told, Tree,
};

use nostall_vm::qemu::Qemu;
use nostall_vm::{Ending, Error, Exits, Guest, Limits, Machine, MapChanges, Ran, Work};

/// Bytes of reports for each function that a guest can find, by three methods, and their
/// most capabilities: some hundred functions are a large machine, a few thousand are more
/// than there are.
const REPORT_BYTES: u64 = 4096 * 3 * 4 * LONGEST_REPORT as u64;

/// A way to configuration space: a method of the guest's, and what its machine makes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// By ports; the machine deals with each access.
    Ports,
    /// By ports; the host's kernel collects writes of the index, as in QEMU on KVM.
    PortsCoalesced,
    /// By memory; the machine deals with each access.
    Ecam,
    /// By memory that the machine shows the guest: reads are the guest's own.
    EcamShadow,
    /// No configuration space: the same on plain memory, the limit.
    Ram,
    /// By what the guest chose.
    Auto,
}

impl Strategy {
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

    /// What the guest does for it.
    pub const fn method(self) -> Method {
        match self {
            Self::Ports | Self::PortsCoalesced => Method::Ports,
            Self::Ecam | Self::EcamShadow => Method::Ecam,
            Self::Ram => Method::Ram,
            Self::Auto => Method::Auto,
        }
    }
}

/// What is to be done, besides telling of every function by every method.
#[derive(Clone, Copy, Debug)]
pub struct Experiment<'a> {
    /// What is to be measured, in this order.
    pub measure: &'a [(Operation, Strategy)],
    /// How often to go through all of it. Alternating like this, a change in the machine's
    /// speed meets all methods alike.
    pub repeat: u16,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What it ran on, and which method was chosen there.
    pub machine: PciMachine,
    /// The ECAM windows in the firmware's table.
    pub windows: Vec<Window>,
    /// Why there is no such table, if there is none.
    pub no_windows: Option<String>,
    /// What each method found.
    pub trees: Vec<Finds>,
    /// Whether the guest says that these are the same.
    pub equal: bool,
    /// What the `virtio-drivers` crate found by the chosen method.
    pub virtio_drivers: Vec<Brief>,
    /// What was measured, round after round.
    pub measurings: Vec<Measuring>,
    /// The cost of mapping configuration space into the guest, boot after boot; empty if the
    /// machine cannot tell.
    pub mappings: Vec<Mapping>,
}

/// Cost of mapping configuration space into a guest, for one boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The way that the guest was booted for.
    pub strategy: Strategy,
    /// Before it started.
    pub at_start: MapChanges,
    /// As it ran: it gives out bus numbers.
    pub changes: MapChanges,
}

/// What a guest says of its machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PciMachine {
    /// Bare metal, or a hypervisor's name.
    pub environment: String,
    /// Whether that is one where ECAM comes first.
    pub ecam_first: bool,
    /// The method that comes first; `None` if there is none.
    pub chosen: Option<Method>,
    /// Why.
    pub why: String,
}

/// An ECAM window in the firmware's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The segment.
    pub segment: u32,
    /// Its first and last bus.
    pub buses: (u8, u8),
    /// Its physical address.
    pub start: u64,
    /// Why it is not used, if it is not.
    pub doubt: Option<String>,
}

/// What a method found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finds {
    /// The method.
    pub method: Method,
    /// Each function, in its order.
    pub devices: Vec<Device>,
    /// What was wrong on the way.
    pub faults: Vec<String>,
    /// The guest's own sum.
    pub sum: Tree,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its header and its BARs.
    pub found: FoundFunction,
    /// Its capabilities, extended ones last.
    pub capabilities: Vec<FoundCapability>,
}

/// A function, in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brief {
    /// Its bus, in segment 0.
    pub bus: u8,
    /// Device and function.
    pub devfn: u8,
    /// Who made it.
    pub vendor: u16,
    /// What it is, by its vendor's numbers.
    pub device: u16,
    /// Base class, sub-class and interface.
    pub class: u32,
}

/// One measuring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measuring {
    /// What was done.
    pub operation: Operation,
    /// In which way.
    pub strategy: Strategy,
    /// What it came to; `None` if the guest has no such method.
    pub measured: Option<PciMeasured>,
    /// The VM exits that it took; `None` if the machine cannot count them.
    pub exits: Option<u64>,
}

impl Experiment<'_> {
    /// Everything that is measured, in order.
    pub(super) fn rounds(&self) -> impl Iterator<Item = (Operation, Strategy)> {
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
    ) -> Result<(Outcome, Ran), Error> {
        let work: Vec<_> = jobs.iter().copied().map(Work::from).collect();
        let guest = Guest {
            work: &work,
            repeat: 1,
            ..*guest
        };
        let limits = Limits::of(jobs.len() as u64, 0);
        let limits = Limits {
            report_bytes: REPORT_BYTES,
            // A KVM that interprets takes some 100 us a read.
            silence: limits.silence * 3,
            total: limits.total * 10,
            ..limits
        };
        let ran = machine.run(&guest, &limits, Ending::Done, &mut |_| {})?;
        let outcome = self.outcome(jobs, ran.told_with_exits()?);
        Ok((outcome.ok_or(Error::Undone)?, ran))
    }

    /// Returns the outcome of these jobs in a guest; `None` if some results are missing, or out
    /// of order.
    fn outcome(&self, jobs: &[Job], results: Vec<(usize, Told, Option<Exits>)>) -> Option<Outcome> {
        let mut rounds = self.rounds();
        let mut outcome = Outcome::default();
        let (mut compared, mut turn) = (false, 0);
        for (item, told, exits) in results {
            if item < turn {
                return None;
            }
            turn = item;
            match (jobs.get(item)?, told) {
                (Job::Measure(..), Told::Measured(measured)) => {
                    let (operation, strategy) = rounds.next()?;
                    turn += 1; // each has one
                    outcome.measurings.push(Measuring {
                        operation,
                        strategy,
                        measured,
                        exits: exits.map(|exits| exits.pci),
                    });
                }
                (_, told) => {
                    compared |= matches!(told, Told::Compared { .. });
                    outcome.add(told)?;
                }
            }
        }
        (compared && rounds.next().is_none()).then_some(outcome)
    }
}

/// What tells of every function.
const FUNCTIONS: [Job; 2] = [Job::Enumerate, Job::VirtioDrivers];

impl Outcome {
    /// Adds what a job tells of the machine; `None` if that is not what it tells.
    pub(super) fn add(&mut self, told: Told) -> Option<()> {
        match told {
            Told::Machine {
                environment,
                ecam_first,
                chosen,
                why,
            } => {
                self.machine = PciMachine {
                    environment: environment.as_str().to_owned(),
                    ecam_first,
                    chosen,
                    why: why.as_str().to_owned(),
                };
            }
            Told::Window {
                segment,
                buses,
                start,
                doubt,
            } => self.windows.push(Window {
                segment,
                buses,
                start,
                doubt: doubt.map(|doubt| doubt.as_str().to_owned()),
            }),
            Told::NoWindows(why) => self.no_windows = Some(why.as_str().to_owned()),
            Told::Function { method, found } => {
                let capabilities = Vec::new();
                let devices = &mut self.finds(method).devices;
                devices.push(Device {
                    found,
                    capabilities,
                });
            }
            Told::Capabilities(some) => {
                let device = self.trees.last_mut()?.devices.last_mut()?;
                device.capabilities.extend(some);
            }
            Told::Fault { method, what } => {
                self.finds(method).faults.push(what.as_str().to_owned());
            }
            Told::Tree(sum) => self.finds(sum.method).sum = sum,
            Told::Compared { equal } => self.equal = equal,
            // What has no place was told as a fault; a sum tells nothing new.
            Told::Assigned { .. } | Told::VirtioDriversDone { .. } => {}
            Told::VirtioDrivers {
                bus,
                devfn,
                vendor,
                device,
                class,
            } => self.virtio_drivers.push(Brief {
                bus,
                devfn,
                vendor,
                device,
                class,
            }),
            _ => return None,
        }
        Some(())
    }

    /// What this method has found so far.
    pub(super) fn finds(&mut self, method: Method) -> &mut Finds {
        let known = self.trees.iter().position(|finds| finds.method == method);
        let at = known.unwrap_or_else(|| {
            self.trees.push(Finds {
                method,
                devices: Vec::new(),
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

    /// What `method` found, if it is there.
    pub fn by(&self, method: Method) -> Option<&Finds> {
        self.trees.iter().find(|finds| finds.method == method)
    }
}

impl Device {
    /// In short.
    pub const fn brief(&self) -> Brief {
        Brief {
            bus: self.found.bus,
            devfn: self.found.devfn,
            vendor: self.found.vendor,
            device: self.found.device,
            class: self.found.class,
        }
    }
}

/// Runs the experiment in QEMU in `guest`, whose work is then that of the experiment.
///
/// # Errors
///
/// As [`Machine::run`].
pub fn run(
    qemu: &Qemu,
    guest: &Guest<'_>,
    experiment: &Experiment<'_>,
) -> Result<(Outcome, Ran), Error> {
    let unassigned = qemu.board().leaves_pci_unassigned();
    let jobs = experiment.jobs(unassigned.then_some(Job::Assign(None)));
    experiment.run_jobs(&jobs, qemu, guest)
}

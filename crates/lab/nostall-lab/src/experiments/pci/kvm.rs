//! Runs on our own machine, which offers configuration space in several ways.

use nostall_work::pci::{Job, Room};

use nostall_vm::kvm::{Kvm, Options, PciMode};
use nostall_vm::{Error, Guest, GuestRun};

use super::run::{AccessStrategy, Mapping, PciPlan, PciSurvey};

/// Free addresses of the machine: below its serial port and its ECAM window, and above any
/// RAM, within 36 bits.
const ROOM: Room = Room {
    memory: (0xc000_0000, 0xd000_0000),
    prefetchable: (0x4_0000_0000, 0x10_0000_0000),
};

impl AccessStrategy {
    /// Returns the machine's PCI mode for it.
    const fn offer(self) -> PciMode {
        match self {
            Self::PortsCoalesced => PciMode::PortsCoalesced,
            Self::EcamShadow => PciMode::EcamShadow,
            Self::Ports | Self::Ecam | Self::Ram | Self::Auto => PciMode::Trap,
        }
    }
}

/// Returns the cost of mapping in this boot, for each of its ways to configuration space.
fn mappings(here: &PciPlan<'_>, ran: &GuestRun) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    let Some(exits) = &ran.exits else {
        return mappings;
    };
    for &(_, strategy) in here.measure {
        let is_known = mappings.iter().any(|known| known.strategy == strategy);
        if strategy != AccessStrategy::Ram && !is_known {
            mappings.push(Mapping {
                strategy,
                at_start: exits.maps_at_start,
                changes: exits.total.maps,
            });
        }
    }
    mappings
}

/// Runs `plan` on `kvm` in `guest`, and replaces the guest's work. Each way in which the machine
/// can offer configuration space takes one boot a round. A way that a KVM cannot offer is left
/// out, and a line says so.
///
/// The functions are reported in the first boot. All others must find the same.
///
/// # Errors
///
/// Returns the errors of [`Machine::run`](nostall_vm::Machine::run).
pub fn run(
    kvm: &Kvm,
    guest: &Guest<'_>,
    plan: &PciPlan<'_>,
) -> Result<(PciSurvey, GuestRun, Vec<String>), Error> {
    let mut notes = Vec::new();
    let mut first: Option<(PciSurvey, GuestRun)> = None;
    for round in 0..plan.repeat {
        for pci in PciMode::ALL {
            let all = plan.measure.iter().copied();
            let here: Vec<_> = all.filter(|(_, by)| by.offer() == pci).collect();
            if here.is_empty() {
                continue;
            }
            let kvm = Kvm::find(Options {
                pci,
                ..kvm.options()
            })?;
            if kvm.options().pci != pci {
                if round == 0 {
                    notes.extend_from_slice(kvm.notes());
                }
                continue;
            }
            let here = PciPlan {
                measure: &here,
                repeat: 1,
            };
            // There is no firmware to do it.
            let jobs = here.jobs(Some(Job::Assign(Some(ROOM))));
            let (mut survey, ran) = here.run_jobs(&jobs, &kvm, guest)?;
            survey.mappings = mappings(&here, &ran);
            match &mut first {
                None => first = Some((survey, ran)),
                Some((first, _)) => {
                    first.equal &= survey.equal && survey.trees == first.trees;
                    first.measurings.extend(survey.measurings);
                    first.mappings.extend(survey.mappings);
                }
            }
        }
    }
    let (survey, ran) = first.ok_or(Error::Undone)?;
    Ok((survey, ran, notes))
}

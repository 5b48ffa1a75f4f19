//! On our own machine, whose configuration space is offered in several ways.

use nostall_work::pci::{Job, Room};

use nostall_vm::kvm::{Kvm, Options, PciMode};
use nostall_vm::{Error, Guest, Ran};

use super::run::{Experiment, Mapping, Outcome, Strategy};

/// What the machine has free: below its serial port and its ECAM window, and above any
/// RAM, where 36 bits still reach.
const ROOM: Room = Room {
    memory: (0xc000_0000, 0xd000_0000),
    prefetchable: (0x4_0000_0000, 0x10_0000_0000),
};

impl Strategy {
    /// What the machine offers for it.
    const fn offer(self) -> PciMode {
        match self {
            Self::PortsCoalesced => PciMode::PortsCoalesced,
            Self::EcamShadow => PciMode::EcamShadow,
            Self::Ports | Self::Ecam | Self::Ram | Self::Auto => PciMode::Trap,
        }
    }
}

/// The cost of mapping in this boot, for each of its ways to configuration space.
fn mappings(here: &Experiment<'_>, ran: &Ran) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    let Some(exits) = &ran.exits else {
        return mappings;
    };
    for &(_, strategy) in here.measure {
        let is_known = mappings.iter().any(|known| known.strategy == strategy);
        if strategy != Strategy::Ram && !is_known {
            mappings.push(Mapping {
                strategy,
                at_start: exits.maps_at_start,
                changes: exits.total.maps,
            });
        }
    }
    mappings
}

/// Runs the experiment on `kvm` in `guest`, whose work is then that of the experiment: one boot
/// a round for each way in which the machine can offer configuration space. What a KVM
/// cannot offer is left out, and a line says so.
///
/// The functions are told of in the first boot; all others must find the same.
///
/// # Errors
///
/// As [`Machine::run`](nostall_vm::Machine::run).
pub fn run(
    kvm: &Kvm,
    guest: &Guest<'_>,
    experiment: &Experiment<'_>,
) -> Result<(Outcome, Ran, Vec<String>), Error> {
    let mut notes = Vec::new();
    let mut first: Option<(Outcome, Ran)> = None;
    for round in 0..experiment.repeat {
        for pci in PciMode::ALL {
            let all = experiment.measure.iter().copied();
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
            let here = Experiment {
                measure: &here,
                repeat: 1,
            };
            // There is no firmware to do it.
            let jobs = here.jobs(Some(Job::Assign(Some(ROOM))));
            let (mut outcome, ran) = here.run_jobs(&jobs, &kvm, guest)?;
            outcome.mappings = mappings(&here, &ran);
            match &mut first {
                None => first = Some((outcome, ran)),
                Some((first, _)) => {
                    first.equal &= outcome.equal && outcome.trees == first.trees;
                    first.measurings.extend(outcome.measurings);
                    first.mappings.extend(outcome.mappings);
                }
            }
        }
    }
    let (outcome, ran) = first.ok_or(Error::Undone)?;
    Ok((outcome, ran, notes))
}

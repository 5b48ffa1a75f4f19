//! No guest: the jobs run on the host, against the model of a host bridge.

use std::cell::RefCell;

use nostall_devices::VirtualClock;
use nostall_devices::pci::{EcamWindow, PortWindow, Topology, TopologyFailure, VirtualBus};
use nostall_io::{Counting, Counts, Processor, Registers};
use nostall_pci::{BarSlot, ConfigPorts, Decoding, Ecam, Policy, Ranges, Selector, assign};
use nostall_work::pci::{Counted, JobResult, Method, RAM_AT, Space};
use nostall_work::text;
use spin::mutex::SpinMutex;

use nostall_vm::MapChanges;

use super::run::{AccessStrategy, Mapping, Measuring, PciPlan, PciSurvey};

/// Ranges that the model gives out, as a PC might.
fn ranges() -> Ranges {
    Ranges {
        buses: 0..=255,
        io: 0x1000..0x1_0000,
        memory: 0xc000_0000..0xe000_0000,
        prefetchable: 0x40_0000_0000..0x80_0000_0000,
    }
}

/// Runs `plan` on [`Topology`], with and without a shadow. Times are 0, because nothing is
/// waited for. Exits are those of a VMM with this model.
///
/// # Errors
///
/// [`TopologyFailure`], if the model's parts do not fit.
pub fn run(plan: &PciPlan<'_>) -> Result<PciSurvey, TopologyFailure> {
    let plain = VirtualBus::new(Topology::new(0..=255)?.bridge);
    let shadowed = VirtualBus::shadowed(Topology::new(0..=255)?.bridge);
    let mut survey = PciSurvey::default();
    on(&plain, |space, why| {
        let mut tell = |result| {
            let _ = survey.add(result); // all reports here are about the machine
        };
        tell(JobResult::Machine {
            environment: text(format_args!("a model, and no guest")),
            ecam_first: true,
            chosen: Some(Method::Ecam),
            why: text(format_args!("{why}")),
        });
        space.enumerate(&mut tell);
        space.virtio_drivers(&mut tell);
    });
    let count = |bus: &VirtualBus| MapChanges {
        count: bus.shadow_counts().mappings,
        ..MapChanges::default() // no time passes
    };
    let at_start = count(&shadowed);
    let mut in_shadow = PciSurvey::default();
    on(&shadowed, |space, _| {
        space.enumerate(&mut |result| {
            let _ = in_shadow.add(result);
        });
    });
    survey.mappings.push(Mapping {
        strategy: AccessStrategy::EcamShadow,
        at_start,
        changes: count(&shadowed) - at_start,
    });
    survey.equal &= in_shadow.equal && in_shadow.trees == survey.trees;
    for (operation, strategy) in plan.rounds() {
        let bus = match strategy {
            AccessStrategy::EcamShadow => &shadowed,
            _ => &plain,
        };
        on(bus, |space, _| {
            let before = bus.exits();
            let measured = space.measure(operation, strategy.method());
            survey.measurings.push(Measuring {
                operation,
                strategy,
                measured,
                exits: Some(bus.exits() - before),
            });
        });
    }
    Ok(survey)
}

type ByPorts<'a> = ConfigPorts<SpinMutex<()>, &'a Counting<PortWindow>, Host>;
type ByMemory<'a, R> = Ecam<&'a Counting<R>>;
type OnModel<'a> =
    Space<'a, &'a ByPorts<'a>, ByMemory<'a, EcamWindow>, ByMemory<'a, Page>, VirtualClock>;

/// Runs `work` on a bus whose bus numbers, windows and BARs are all assigned, and passes it the
/// choice of a method.
fn on(bus: &VirtualBus, work: impl FnOnce(&OnModel<'_>, nostall_pci::Choice)) {
    let windows = Windows {
        ports: Counting::new(bus.ports()),
        ecam: Counting::new(bus.ecam()),
        ram: Counting::new(Page(RefCell::new([0; 4096]))),
    };
    let ports = ConfigPorts::new(&windows.ports, Host);
    let ecam = Ecam::new(&windows.ecam, 0, 0..=255);
    let ram = Ecam::new(&windows.ram, RAM_AT.segment(), RAM_AT.bus()..=RAM_AT.bus());
    let _ = assign(
        &ecam,
        0,
        &ranges(),
        Decoding::On,
        &mut [BarSlot::EMPTY; 64],
        |_| {},
    );
    let (auto, choice) = Selector::choose(Some(&ports), Some(ecam), Policy::EcamFirst);
    if let Some(space) = Space::new(auto, ram, &[0], VirtualClock::new(), &windows) {
        work(&space, choice);
    }
}

struct Windows {
    ports: Counting<PortWindow>,
    ecam: Counting<EcamWindow>,
    ram: Counting<Page>,
}

impl Counted for Windows {
    fn counts(&self) -> Counts {
        let all = [self.ports.counts(), self.ecam.counts(), self.ram.counts()];
        all.into_iter().fold(Counts::default(), |sum, one| Counts {
            reads: sum.reads + one.reads,
            writes: sum.writes + one.writes,
            ..sum
        })
    }
}

/// This thread, whose interrupts are not the model's.
struct Host;

impl Processor for Host {
    fn id(&self) -> usize {
        0
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
}

/// A function's registers in plain memory.
struct Page(RefCell<[u8; 4096]>);

impl Registers for Page {
    fn read8(&self, offset: usize) -> u8 {
        self.0.borrow().get(offset).copied().unwrap_or(!0)
    }

    fn write8(&self, offset: usize, value: u8) {
        if let Some(byte) = self.0.borrow_mut().get_mut(offset) {
            *byte = value;
        }
    }
}

//! No guest: drivers on the host against models in virtual time. The busy bus runs on threads of
//! the host, in real time.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use nostall_devices::VirtualClock;
use nostall_devices::spi::{Blocks, CardFault, Flash, FlashFault, SdCard, SelectLine, Wires};
use nostall_spi::controllers::{Configure, Hal};
use nostall_spi::{Bare, Bus, Capabilities, Config, Fault, Select, Wire};
use nostall_work::spi::{Job, can, card, flash};

use super::run::{SpiPlan, SpiReports, flash_content};
use super::threads::Host;

/// Faults of the models' devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Broken {
    /// Fault of the flash.
    pub flash: Option<FlashFault>,
    /// Fault of the card, after this many blocks were read.
    pub card: Option<(CardFault, u32)>,
    /// Whether there is no card.
    pub card_absent: bool,
}

/// Runs `plan` on models of a flash and a card, the card's memory being `image`.
pub fn run(image: impl Blocks + 'static, plan: &SpiPlan, broken: Broken) -> SpiReports {
    let mut reports = SpiReports::default();
    try_flash(broken.flash, &mut reports);
    read_card(image, broken, &mut reports);
    for (strategy, frames) in plan.busy_buses() {
        let job = Job::Can { strategy, frames };
        match can(&Host, strategy, frames) {
            Ok(measured) => reports.measured.push(measured),
            Err(failed) => reports.faults.push((job, failed.to_string())),
        }
    }
    reports
}

fn try_flash(fault: Option<FlashFault>, reports: &mut SpiReports) {
    let clock = VirtualClock::new();
    let mut model = Flash::new(clock.clone());
    let content = flash_content();
    model.memory_mut().copy_from_slice(&content);
    if let Some(fault) = fault {
        model.set_fault(fault);
    }
    let model = Rc::new(RefCell::new(model));
    let wires = Wires::new(clock.clone());
    let line = wires.connect(model.clone());
    let bus = bus(wires, line, clock);
    flash(&bus, Select::line(0), &mut |told| {
        // All reports here are about the flash.
        let _ = reports.add(Job::Flash, told);
    });
    reports.look_into_flash(&content, model.borrow().memory());
}

fn read_card(image: impl Blocks + 'static, broken: Broken, reports: &mut SpiReports) {
    let clock = VirtualClock::new();
    let wires = Wires::new(clock.clone());
    let line = if broken.card_absent {
        wires.unconnected()
    } else {
        let mut model = SdCard::new(clock.clone(), image);
        if let Some((fault, after)) = broken.card {
            model.set_fault(fault, after);
        }
        wires.connect(model)
    };
    let bus = bus(wires, line, clock);
    // A panic of the crate that reads the file system ends a guest. It must not end this
    // process.
    let mut told = Vec::new();
    let read = AssertUnwindSafe(|| card(&bus, Select::line(0), &mut |one| told.push(one)));
    let panicked = catch_unwind(read).is_err();
    for one in told {
        let _ = reports.add(Job::Card, one);
    }
    if panicked {
        let what = "card: its file system's driver panicked".to_owned();
        reports.faults.push((Job::Card, what));
    }
}

type OnWires = Bus<Hal<Wires, [SelectLine; 1], Rated>, Bare<VirtualClock>>;

fn bus(wires: Wires, line: SelectLine, clock: VirtualClock) -> OnWires {
    Bus::new(Hal::new(wires, [line], Rated), Bare(clock), Config::DEFAULT)
}

/// Sets the wires to any rate.
struct Rated;

impl Configure<Wires> for Rated {
    fn capabilities(&self, lines: u8) -> Capabilities {
        Capabilities::least(lines)
    }

    fn configure(&mut self, wires: &mut Wires, wire: &Wire) -> Result<u32, Fault> {
        wires.set_hertz(wire.clock);
        Ok(wire.clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nostall_io::{Clock, Nanos};

    #[test]
    fn a_flash_that_stays_busy_is_given_up_although_the_clock_stands_still() {
        struct Stopped;

        impl Clock for Stopped {
            fn now(&self) -> Nanos {
                Nanos::ZERO
            }
        }

        let clock = VirtualClock::new();
        let mut model = Flash::new(clock.clone());
        model.set_fault(FlashFault::StuckBusy);
        let wires = Wires::new(clock);
        let line = wires.connect(model);
        let hal = Hal::new(wires, [line], Rated);
        let bus = Bus::new(hal, Bare(Stopped), Config::DEFAULT);
        let mut reports = SpiReports::default();
        flash(&bus, Select::line(0), &mut |told| {
            let _ = reports.add(Job::Flash, told);
        });
        let (_, fault) = &reports.faults[0];
        assert!(fault.contains("still busy"), "{fault}");
    }
}

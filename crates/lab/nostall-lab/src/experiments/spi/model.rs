//! No guest: a driver on the host against a model in virtual time. The busy bus runs on threads of
//! the host, in real time.

use std::cell::RefCell;
use std::rc::Rc;

use nostall_devices::VirtualClock;
use nostall_devices::spi::{Flash, FlashFault, SelectLine, Wires};
use nostall_spi::controllers::{Configure, Hal};
use nostall_spi::{Bare, Bus, Capabilities, Fault, Wire};
use nostall_work::spi::{Job, can, flash};

use super::run::{SpiPlan, SpiReports, flash_content};
use super::threads::Host;

/// Runs `plan` on the model of a flash, which may have a fault.
pub fn run(plan: &SpiPlan, fault: Option<FlashFault>) -> SpiReports {
    let mut reports = SpiReports::default();
    try_flash(fault, &mut reports);
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
    flash(&bus, 0, &mut |result| {
        // All reports here are about the flash.
        let _ = reports.add(Job::Flash, result);
    });
    reports.look_into_flash(&content, model.borrow().memory());
}

type OnWires = Bus<Hal<Wires, [SelectLine; 1], Rated>, Bare<VirtualClock>>;

fn bus(wires: Wires, line: SelectLine, clock: VirtualClock) -> OnWires {
    Bus::new(Hal::new(wires, [line], Rated), Bare(clock))
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
        let bus = Bus::new(hal, Bare(Stopped));
        let mut reports = SpiReports::default();
        flash(&bus, 0, &mut |result| {
            let _ = reports.add(Job::Flash, result);
        });
        let (_, fault) = &reports.faults[0];
        assert!(fault.contains("still busy"), "{fault}");
    }
}

//! All CPUs: their start, and their calls of each other.

use core::sync::atomic::{AtomicUsize, Ordering};

use dtoolkit::standard::{NodeStandard, Status};
use nostall_io::Processor;

use super::cpus::{self, Cpu};
use super::{MachineClock, gic, psci};
use crate::device_tree::cpus as tree;

/// Number of started CPUs.
static STARTED: AtomicUsize = AtomicUsize::new(1);

/// Interrupts all other CPUs. Without NMIs, a CPU with masked interrupts is interrupted later.
pub fn call_others() {
    wake((0..STARTED.load(Ordering::Relaxed)).filter(|&cpu| cpu != Cpu.id()));
}

/// Ends the sleep of these CPUs.
pub fn wake(cpus: impl IntoIterator<Item = usize>) {
    cpus.into_iter().for_each(gic::call);
}

/// Enables this CPU's interrupts from the timer and from other CPUs.
pub fn enable_interrupts() {
    gic::enable();
    cpus::unmask_interrupts();
}

/// Starts the other CPUs, up to `cpus` in total. Returns the timers' rate in hertz.
///
/// Panics if there are too few, or if one cannot be started.
pub fn start_cpus(cpus: u16, clock: &MachineClock) -> u64 {
    gic::init();
    start_others(cpus.into());
    clock.hz()
}

fn start_others(cpus: usize) {
    unsafe extern "C" {
        safe static start_other: u8;
    }
    let enabled = tree::nodes().filter(|cpu| cpu.status() == Ok(Status::Okay));
    let others = enabled
        .filter_map(|cpu| tree::id(&cpu))
        .filter(|&id| id != cpus::id_of(0));
    for (number, id) in (1..cpus).zip(others) {
        cpus::set_id(number, id);
        let started = psci::cpu_on(id, (&raw const start_other).addr(), number);
        assert!(
            started.is_ok(),
            "CPU {id:#x} cannot be started: {started:?}"
        );
        STARTED.store(number + 1, Ordering::Relaxed);
    }
    let started = STARTED.load(Ordering::Relaxed);
    assert!(
        started == cpus,
        "only {started} of {cpus} CPUs are there: the device tree has no more"
    );
}

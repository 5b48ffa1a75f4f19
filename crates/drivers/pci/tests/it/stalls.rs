//! Stalls that configuration space reports.

use std::cell::Cell;

use lock_api::{GuardNoSend, RawMutex};
use nostall_devices::pci::{Topology, VirtualBus};
use nostall_devices::{Stalls, VirtualClock};
use nostall_io::{Nanos, Processor, StallCondition};
use nostall_pci::{Address, ConfigAccess, ConfigPorts};

thread_local! {
    static CLOCK: VirtualClock = VirtualClock::new();
    /// Time until the other CPU releases the lock.
    static HELD_FOR: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
}

/// A lock that another CPU holds for some time.
struct Contended;

// SAFETY: only one thread uses it, and no guard exists when it is taken again.
unsafe impl RawMutex for Contended {
    const INIT: Self = Self;
    type GuardMarker = GuardNoSend;

    fn lock(&self) {
        CLOCK.with(|clock| clock.advance(HELD_FOR.take()));
    }
    fn try_lock(&self) -> bool {
        HELD_FOR.get() == Nanos::ZERO
    }
    unsafe fn unlock(&self) {}
}

struct Cpu;

impl Processor for Cpu {
    fn id(&self) -> usize {
        0
    }
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        critical()
    }
    fn relax(&self) {}
}

#[test]
fn waiting_for_the_lock_of_the_ports_is_a_stall_and_a_free_lock_is_none() {
    let bus = VirtualBus::new(Topology::new(0..=3).unwrap().bridge);
    let ports = ConfigPorts::<Contended, _, _>::new(bus.ports(), Cpu);
    let clock = CLOCK.with(VirtualClock::clone);
    let span = Nanos::from_micros(9);
    let host = Address::new(0, 0, 0).unwrap();
    let (_, stalls) = Stalls::during(&clock, || {
        assert!(ports.at(host).read32(0).is_ok());
        HELD_FOR.set(span);
        assert!(ports.at(host).read32(0).is_ok());
        assert!(ports.at(host).read32(0).is_ok());
    });
    assert_eq!(stalls.stalls, [(StallCondition::Lock, span)]);
}

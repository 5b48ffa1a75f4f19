//! A kernel's own lock and CPU number, for PCI's configuration ports. A model of the devices
//! stands for the machine.
//!
//!     cargo run -p nostall-pci --example lock

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

use lock_api::{GuardNoSend, RawMutex};
use nostall_devices::pci::{Topology, VirtualBus};
use nostall_io::Processor;
use nostall_pci::{ConfigPorts, Scan};

// ANCHOR: processor
/// The CPU that runs the code.
struct Cpu;

impl Processor for Cpu {
    fn id(&self) -> usize {
        0 // from a register of this CPU: 0, 1, 2 and so on
    }

    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T {
        // A kernel saves the mask, masks, and restores the saved mask: calls nest.
        critical()
    }
}
// ANCHOR_END: processor

// ANCHOR: lock
/// The kernel's spin lock.
struct Spin(AtomicBool);

// SAFETY: only the CPU that changes the flag from false to true holds the lock.
unsafe impl RawMutex for Spin {
    const INIT: Self = Self(AtomicBool::new(false));
    type GuardMarker = GuardNoSend; // the CPU that locks also unlocks

    fn lock(&self) {
        while !self.try_lock() {
            std::hint::spin_loop();
        }
    }

    fn try_lock(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    unsafe fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }
}
// ANCHOR_END: lock

fn main() -> Result<(), Box<dyn Error>> {
    let machine = VirtualBus::new(Topology::new(0..=0)?.bridge);
    // ANCHOR: use
    let ports = ConfigPorts::<Spin, _, _>::new(machine.ports(), Cpu);
    let functions = Scan::new(&ports, 0, 0..=0);
    // ANCHOR_END: use
    let functions = functions.map(|function| println!("{function:?}"));
    assert!(functions.count() > 0);
    Ok(())
}

//! Configuration space in KVM's memory slots. These tests need a writable `/dev/kvm`.

use super::*;

/// Returns the slots in use after the buses of a whole segment were mapped.
fn slots_in_use(limit: usize) -> usize {
    let mut machine = Machine::new(&Kvm::new().unwrap(), HostBridge::new(0..=255)).unwrap();
    machine.slots.truncate(limit);
    machine.shadow = Some(Shadow::new(&machine.bridge, 0..=255));
    machine.follow().unwrap();
    machine.slots.iter().flatten().count()
}

#[test]
fn a_bridge_of_256_buses_takes_a_slot_for_each_beside_that_of_the_ram() {
    assert_eq!(slots_in_use(509), 257);
}

#[test]
fn buses_without_a_slot_trap() {
    assert_eq!(slots_in_use(10), 10);
}

#[test]
fn an_unmapped_run_frees_its_slot() {
    let mut machine = Machine::new(&Kvm::new().unwrap(), HostBridge::new(0..=1)).unwrap();
    for bus in [0, 1, 0, 1] {
        machine.map(ECAM + (bus << 20), 1 << 20).unwrap();
        assert_eq!(
            machine.slots[..3],
            [Some(0), Some(ECAM + (bus << 20)), None]
        );
        machine.map(ECAM + (bus << 20), 0).unwrap();
    }
}

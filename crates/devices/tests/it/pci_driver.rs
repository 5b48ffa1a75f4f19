//! nostall-pci on the buses of these models, which it does not depend on.

use nostall_devices::pci::{Address, Function, Topology, VirtualBus};
use nostall_io::Processor;
use nostall_pci::{
    AssignFault, BarSlot, Bars, Capabilities, ConfigAccess, ConfigPorts, Decoding, Ecam,
    ExtendedCapabilities, Ranges, Scan, assign, bars_as_set,
};

/// A CPU without interrupts.
struct Cpu;

impl Processor for Cpu {
    fn id(&self) -> usize {
        0
    }
    fn without_interrupts<T>(&self, f: impl FnOnce() -> T) -> T {
        f()
    }
}

fn ranges() -> Ranges {
    Ranges {
        buses: 0..=15,
        io: 0xc000..0x1_0000,
        memory: 0xc000_0000..0xe000_0000,
        prefetchable: 0x40_0000_0000..0x80_0000_0000,
    }
}

fn set_up(access: &impl ConfigAccess) {
    let mut faults: Vec<AssignFault> = Vec::new();
    let done = assign(
        access,
        0,
        &ranges(),
        Decoding::On,
        &mut [BarSlot::EMPTY; 64],
        |fault| faults.push(fault),
    );
    assert!(faults.is_empty(), "{faults:?}");
    let done = done.unwrap();
    assert_eq!((done.last_bus, done.left), (6, 0));
    assert_eq!(done.placed, 12);
}

/// Returns everything that a driver can discover, as text.
fn tree(access: &impl ConfigAccess, extended: bool) -> Vec<String> {
    Scan::new(access, 0, 0..=15)
        .map(|found| {
            let function = found.unwrap();
            let bars: Bars = bars_as_set(access, &function).unwrap();
            let capabilities: Vec<u8> = Capabilities::new(access, &function)
                .map(|capability| capability.unwrap().id)
                .collect();
            let more: Vec<u16> = ExtendedCapabilities::new(access, &function)
                .filter(|_| extended)
                .map(|capability| capability.unwrap().id)
                .collect();
            format!("{function} {bars:?} {capabilities:x?} {more:x?}")
        })
        .collect()
}

#[test]
fn every_method_finds_the_same_devices() {
    let bridge = || Topology::new(0..=15).unwrap().bridge;
    let by_ports =
        ConfigPorts::<spin::Mutex<()>, _, _>::new(VirtualBus::new(bridge()).ports(), Cpu);
    set_up(&by_ports);
    let plain = VirtualBus::new(bridge());
    let by_ecam = Ecam::new(plain.ecam(), 0, 0..=15);
    set_up(&by_ecam);
    let shadowed = VirtualBus::shadowed(bridge());
    let by_memory = Ecam::new(shadowed.ecam(), 0, 0..=15);
    set_up(&by_memory);
    assert!(shadowed.exits() < plain.exits() / 2);

    let expected = tree(&by_ecam, true);
    assert_eq!(expected.len(), bridge().functions().count());
    let before = shadowed.exits();
    assert_eq!(tree(&by_memory, true), expected);
    assert_eq!(shadowed.exits(), before, "a scan by memory takes no exit");
    assert_eq!(tree(&by_ports, false), tree(&by_ecam, false));
}

#[test]
fn a_function_that_vanishes_in_mid_scan_is_missing_and_the_others_are_found() {
    let found_if_gone_after = |accesses| {
        let topology = Topology::new(0..=15).unwrap();
        let bus = VirtualBus::shadowed(topology.bridge);
        let ecam = Ecam::new(bus.ecam(), 0, 0..=15);
        set_up(&ecam);
        bus.vanish_after(accesses, topology.upstream);
        let found = Scan::new(&ecam, 0, 0..=15).flatten().count();
        let address = Address::new(1, 0, 0).unwrap();
        (
            found,
            bus.with_bridge(|bridge| bridge.at(address)).is_none(),
        )
    };
    let all = 14;
    let behind = 5;
    assert_eq!(found_if_gone_after(0), (all - behind, true));
    assert_eq!(found_if_gone_after(u64::MAX), (all, false));
    for accesses in (1..200).step_by(13) {
        let (found, _) = found_if_gone_after(accesses);
        assert!((all - behind..=all).contains(&found), "{accesses}: {found}");
    }
}

#[test]
fn assigned_addresses_are_in_the_registers() {
    let topology = Topology::new(0..=15).unwrap();
    let bus = VirtualBus::new(topology.bridge);
    set_up(&Ecam::new(bus.ecam(), 0, 0..=15));
    bus.with_bridge(|bridge| {
        let stored = |function: &Function| u64::from_le_bytes(function.stored(0x10));
        let bar = stored(bridge.function(topology.behind_switch[0]).unwrap());
        assert_eq!(bar & 0xf, 0b1100, "64 bits, prefetchable");
        let address = bar & !0xf;
        assert!(ranges().prefetchable.contains(&address), "{address:x}");
        assert_eq!(address % (1 << 33), 0);
        let port = bridge.function(topology.root_ports[0]).unwrap();
        let [_, secondary, subordinate] = port.stored(0x18);
        assert_eq!((secondary, subordinate), (1, 4));
        assert_eq!(port.stored(0xffe), [0, 0]);
        assert_eq!(port.stored(0xfff), [0, 0xff], "beyond the space");
    });
}

//! Memory holds the values that a trap returns, for any actions of the guest and the devices.

use std::fmt;
use std::ops::RangeInclusive;

use nostall_devices::pci::{
    Address, Bar, Change, Class, ExtendedCapability, Function, FunctionId, HostBridge, PortType,
    Prefetch, Shadow, ShadowMemory, Topology, Volatile,
};
use proptest::prelude::*;

/// An event of a host bridge.
#[derive(Clone, Debug)]
enum Event {
    Port(u16, Vec<u8>),
    Select(u16, u8),
    Ecam(u64, Vec<u8>),
    /// Sets a bridge's primary, secondary and subordinate bus.
    Renumber(usize, [u8; 3]),
    /// Assigns valid numbers, as firmware does.
    Number,
    Store(usize, u16, Vec<u8>),
    Remove(usize),
    Insert(usize),
    Reset,
}

/// Bus numbers that a small machine assigns, and some that it does not.
fn bus() -> impl Strategy<Value = u8> {
    prop_oneof![8 => 0u8..9, 1 => any::<u8>()]
}

fn address() -> impl Strategy<Value = u16> {
    let devfn = prop_oneof![4 => 0u8..0x28, 1 => any::<u8>()];
    (bus(), devfn).prop_map(|(bus, devfn)| u16::from_le_bytes([devfn, bus]))
}

fn register() -> impl Strategy<Value = u16> {
    prop_oneof![6 => 0u16..0x40, 3 => 0u16..0x100, 1 => 0u16..0x1000]
}

fn data() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![Just(0xff), Just(0), any::<u8>()];
    prop::sample::select(vec![1, 2, 4, 4, 8, 3])
        .prop_flat_map(move |length| prop::collection::vec(byte.clone(), length))
}

fn event() -> impl Strategy<Value = Event> {
    let place = 0usize..32;
    prop_oneof![
        4 => (0u16..8, data()).prop_map(|(offset, data)| Event::Port(offset, data)),
        3 => (address(), any::<u8>()).prop_map(|(at, register)| Event::Select(at, register)),
        8 => (address(), register(), data()).prop_map(|(at, register, data)| {
            Event::Ecam(u64::from(at) << 12 | u64::from(register), data)
        }),
        4 => (place.clone(), [bus(), bus(), bus()]).prop_map(|(at, n)| Event::Renumber(at, n)),
        2 => Just(Event::Number),
        3 => (place.clone(), register(), data()).prop_map(|(at, register, data)| {
            Event::Store(at, register, data)
        }),
        1 => place.clone().prop_map(Event::Remove),
        2 => place.prop_map(Event::Insert),
        1 => Just(Event::Reset),
    ]
}

/// A counter of its reads: each read returns a different value.
#[derive(Debug, Default)]
struct Counter(u8);

impl Volatile for Counter {
    fn read(&mut self, _: u16, data: &mut [u8]) {
        self.0 = self.0.wrapping_add(1);
        data.fill(self.0);
    }
    fn write(&mut self, _: u16, data: &[u8]) {
        self.0 = data[0];
    }
}

fn endpoint() -> nostall_devices::pci::FunctionBuilder {
    Function::endpoint(0x1af4, 0x10ff, Class::new(0x12, 0, 0))
        .express(PortType::Endpoint)
        .bar(0, Bar::Memory64(0x1000, Prefetch::Yes))
        .extended_capability(ExtendedCapability::ari())
}

fn volatile() -> Function {
    endpoint()
        .volatile(0x200..0x204, Counter::default())
        .build()
        .unwrap()
}

struct Machine {
    bridge: HostBridge,
    shadow: Shadow,
    memory: ShadowMemory,
    bridges: Vec<FunctionId>,
    gone: Vec<(FunctionId, Function)>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bridge.fmt(f)
    }
}

impl Machine {
    /// Returns the virtual machine's devices and three additions. They are an ARI device of twelve
    /// functions, and two functions with a volatile register. One of these is behind a conventional
    /// bus, which does not forward accesses to that register.
    fn new(shadowed: RangeInclusive<u8>) -> Self {
        let topology = Topology::new(0..=0x1f).unwrap();
        let mut bridge = topology.bridge;
        for n in 1..12 {
            let at = (n / 8, n % 8);
            let function = endpoint().build().unwrap();
            bridge
                .add_behind(topology.root_ports[1], at.0, at.1, function)
                .unwrap();
        }
        bridge.add(0x1f, 3, volatile()).unwrap();
        bridge
            .add_behind(topology.pci_bridge, 5, 0, volatile())
            .unwrap();
        let bridges = bridge
            .functions()
            .filter(|(_, function)| function.is_some_and(Function::is_bridge))
            .map(|(id, _)| id)
            .collect();
        let shadow = Shadow::new(&bridge, shadowed);
        let mut machine = Self {
            bridge,
            shadow,
            memory: ShadowMemory::new(),
            bridges,
            gone: Vec::new(),
        };
        machine.follow();
        machine
    }

    fn follow(&mut self) {
        let changes = self.shadow.follow(&self.bridge);
        self.memory.apply(&changes, &self.shadow).unwrap();
        // Nothing has changed, but the guest's exits may have paid for a mapping.
        let changes = self.shadow.follow(&self.bridge);
        let maps = |change: &Change| matches!(change, Change::Map(..));
        assert!(changes.iter().all(maps), "{changes:?}");
        self.memory.apply(&changes, &self.shadow).unwrap();
    }

    /// Runs only traps, until the guest has paid for every mapping.
    fn calm_down(&mut self) {
        const PRICE: usize = 100 + 256;
        let buses = self.bridge.buses().count();
        (0..buses * PRICE / 2).for_each(|_| self.follow());
    }

    fn nth(&self, n: usize) -> FunctionId {
        let count = self.bridge.functions().count();
        self.bridge.functions().nth(n % count).unwrap().0
    }

    fn happen(&mut self, event: &Event) {
        match event {
            Event::Port(offset, data) => drop(self.bridge.port_write(*offset, data)),
            Event::Select(address, register) => {
                let index = 1 << 31 | u32::from(*address) << 8 | u32::from(*register);
                self.bridge.port_write(0, &index.to_le_bytes());
            }
            Event::Ecam(offset, data) => drop(self.bridge.ecam_write(*offset, data)),
            Event::Renumber(n, numbers) => {
                let id = self.bridges[n % self.bridges.len()];
                self.bridge.store(id, 0x18, numbers);
            }
            Event::Number => self.number(),
            Event::Store(n, register, data) => {
                self.bridge.store(self.nth(*n), *register, data);
            }
            Event::Remove(n) => {
                let id = self.nth(*n);
                self.gone
                    .extend(self.bridge.remove(id).map(|function| (id, function)));
            }
            Event::Insert(n) => {
                if !self.gone.is_empty() {
                    let (id, function) = self.gone.remove(n % self.gone.len());
                    self.bridge.insert(id, function).unwrap();
                }
            }
            Event::Reset => self.bridge.reset(),
        }
    }

    /// Numbers root ports 1 to 4 and 5, switch 2, its ports 3 and 4, and PCI bridge 6.
    fn number(&mut self) {
        let numbers = [
            [0, 1, 4],
            [0, 5, 5],
            [0, 6, 6],
            [1, 2, 4],
            [2, 3, 3],
            [2, 4, 4],
        ];
        for (&id, numbers) in self.bridges.iter().zip(numbers) {
            self.bridge.store(id, 0x18, &numbers);
            self.bridge.store(id, 0x3e, &[0, 0]);
        }
    }

    /// Compares every register of every bus. Returns the number of pages that trap.
    fn compare(&mut self) -> usize {
        let mut trapping = 0;
        let functions = self.bridge.functions().count();
        assert!(
            self.memory.pages() <= functions,
            "a page without a function has memory"
        );
        for page in 0..self.bridge.ecam_size() >> 12 {
            let mut seen = [0; 0x1000];
            if !self.memory.read(page << 12, &mut seen) {
                trapping += 1;
                continue;
            }
            let first = *self.bridge.buses().start();
            let address = Address::from_bits(page as u16 + u16::from(first) * 0x100);
            if self.bridge.at(address).is_none() {
                self.compare_absent(page, &seen);
                continue;
            }
            let mut answered = [0; 0x1000];
            self.bridge.ecam_read(page << 12, &mut answered);
            assert!(seen == answered, "page {page:#x}");
            self.compare_by_ports(page, &seen);
        }
        trapping
    }

    /// Compares a page without a function, where a few registers stand for all.
    fn compare_absent(&mut self, page: u64, seen: &[u8; 0x1000]) {
        assert!(*seen == [0xff; 0x1000], "page {page:#x}");
        for register in [0, 0x18, 0xffc] {
            let mut answered = [0; 4];
            self.bridge.ecam_read(page << 12 | register, &mut answered);
            assert_eq!(answered, [0xff; 4], "page {page:#x}");
        }
    }

    fn compare_by_ports(&mut self, page: u64, seen: &[u8]) {
        let mut index = [0; 4];
        self.bridge.port_read(0, &mut index);
        for register in (0..0x100).step_by(4) {
            let select = 1 << 31 | (page as u32) << 8 | register;
            self.bridge.port_write(0, &select.to_le_bytes());
            let mut answered = [0; 4];
            self.bridge.port_read(4, &mut answered);
            let register = register as usize;
            assert_eq!(seen[register..register + 4], answered);
        }
        self.bridge.port_write(0, &index);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_register_of_every_bus_reads_the_same_through_shadow_and_trap(
        before in any::<bool>(),
        events in prop::collection::vec(event(), 1..40),
    ) {
        let mut machine = Machine::new(0..=0xff);
        if before {
            machine.number();
        }
        for event in &events {
            machine.happen(event);
            machine.follow();
        }
        // Once all mappings are paid for, only the two pages with a volatile register trap.
        machine.calm_down();
        prop_assert!(machine.compare() <= 2);
    }

    #[test]
    fn a_guest_that_toggles_bus_numbers_never_reads_old_values_from_memory(
        toggled in prop::collection::vec(event(), 2..5),
        between in prop::collection::vec(event(), 1..8),
        times in 100usize..400,
    ) {
        let mut machine = Machine::new(0..=0xff);
        machine.number();
        machine.follow();
        let before = machine.memory.counts().mappings;
        let mapped = machine.shadow.runs().count() as u64;
        for n in 0..times {
            let bus = 1 + (n % 7) as u8;
            machine.happen(&Event::Renumber(n % 2, [0, bus, bus + 4]));
            machine.happen(&toggled[n % toggled.len()]);
            machine.follow();
            if n % (times / 3) == 0 {
                machine.compare();
            }
        }
        // Each mapping is made and removed; four for each of 32 buses are free, and 100 exits
        // pay for one. Earlier mappings can only be removed.
        let made = machine.memory.counts().mappings - before;
        let most = 2 * (4 * 32 + 2 * times as u64 / 100 + 1) + mapped;
        prop_assert!(made <= most, "{made} changes, not {most}");
        for event in &between {
            machine.happen(event);
            machine.follow();
        }
        machine.calm_down();
        prop_assert!(machine.compare() <= 2, "mappings have not come back");
    }

    #[test]
    fn a_vmm_that_seldom_follows_sees_the_same(
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut machine = Machine::new(1..=6);
        machine.number();
        for events in events.chunks(7) {
            events.iter().for_each(|event| machine.happen(event));
            machine.follow();
        }
        machine.calm_down();
        let buses = 0x20 - 6;
        let trapping = machine.compare() - buses * 0x100;
        prop_assert!(trapping <= 2);
    }
}

#[test]
fn the_generated_machine_has_the_cases_that_the_property_is_about() {
    let mut machine = Machine::new(0..=0xff);
    machine.number();
    machine.follow();
    // Twelve functions are behind the second root port, once it forwards to all of them.
    let at = |bus, device, function| Address::new(bus, device, function).unwrap();
    assert!(machine.bridge.at(at(5, 0, 7)).is_some());
    assert_eq!(machine.bridge.at(at(5, 1, 3)), None);
    let port = at(0, 3, 0);
    let ari_forwarding = 1 << 5;
    machine
        .bridge
        .write(port, 0x40 + 0x28, &[ari_forwarding, 0])
        .unwrap();
    assert!(machine.bridge.at(at(5, 1, 3)).is_some());
    machine.follow();
    // The conventional bridge does not pass on the volatile register behind it.
    assert!(machine.bridge.at(at(6, 5, 0)).is_some());
    assert_eq!(machine.compare(), 1);
}

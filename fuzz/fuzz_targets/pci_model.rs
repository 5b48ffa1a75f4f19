//! Performs arbitrary operations of a guest and its VMM on PCI buses: no panic and no hang. The
//! shadow's memory has the values that an exit returns.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use nostall_devices::pci::{
    Address, Class, ExtendedCapability, Function, FunctionId, HostBridge, MAX_RUNS, PortType,
    Shadow, ShadowMemory, State, Topology, Volatile,
};
use serde::Serialize;

const BUSES: u8 = 8;

#[derive(Arbitrary, Debug)]
enum Event {
    PortRead(u16, u8),
    PortWrite(u16, u8, u64),
    EcamRead(u64, u8),
    EcamWrite(u64, u8, u64),
    /// A write to a function, which an arbitrary address would rarely reach.
    Write {
        bus: u8,
        devfn: u8,
        register: u16,
        value: u32,
    },
    Renumber(u8, [u8; 3]),
    Store(u8, u16, u32),
    Remove(u8),
    Insert(u8),
    Follow,
    SaveAndRestore,
    Reset,
}

#[derive(Arbitrary, Debug)]
struct Input {
    /// A bit for each device that has a volatile register.
    volatile: u32,
    /// The register at which each function is compared beyond its first 256 bytes.
    look: u16,
    state: Option<AnyState>,
    events: Vec<Event>,
}

/// An arbitrary [`State`], as a VMM might load it from a file.
#[derive(Arbitrary, Debug, Serialize)]
struct AnyState {
    index: u32,
    functions: Vec<Option<Vec<(u16, u8)>>>,
}

#[derive(Debug)]
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

fuzz_target!(|input: Input| {
    let (mut bridge, bridges) = machine(input.volatile);
    if let Some(any) = &input.state {
        let json = serde_json::to_string(any).unwrap();
        bridge.restore(&serde_json::from_str::<State>(&json).unwrap());
    }
    let mut gone = Vec::new();
    let mut shadow = Shadow::new(&bridge, 0..=BUSES - 2);
    let mut memory = ShadowMemory::new();
    for event in &input.events {
        if matches!(event, Event::Follow) {
            follow(&bridge, &mut shadow, &mut memory);
        } else {
            happen(&mut bridge, &bridges, &mut gone, event);
        }
    }
    follow(&bridge, &mut shadow, &mut memory);
    assert!(shadow.runs().count() <= usize::from(BUSES) * MAX_RUNS);
    compare(&mut bridge, &memory, usize::from(input.look) % 0xf00);
});

fn follow(bridge: &HostBridge, shadow: &mut Shadow, memory: &mut ShadowMemory) {
    let changes = shadow.follow(bridge);
    memory.apply(&changes, shadow).unwrap();
}

fn happen(
    bridge: &mut HostBridge,
    bridges: &[FunctionId],
    gone: &mut Vec<(FunctionId, Function)>,
    event: &Event,
) {
    let place = |bridge: &HostBridge, n: u8| {
        let count = bridge.functions().count();
        bridge.functions().nth(usize::from(n) % count).unwrap().0
    };
    let mut data = [0; 16];
    match *event {
        Event::PortRead(offset, length) => {
            bridge.port_read(offset, &mut data[..usize::from(length % 9)]);
        }
        Event::PortWrite(offset, length, value) => {
            let length = usize::from(length % 9);
            bridge.port_write(offset, &value.to_le_bytes()[..length]);
        }
        Event::EcamRead(offset, length) => {
            bridge.ecam_read(offset, &mut data[..usize::from(length % 17)]);
        }
        Event::EcamWrite(offset, length, value) => {
            let length = usize::from(length % 9);
            bridge.ecam_write(offset, &value.to_le_bytes()[..length]);
        }
        Event::Write {
            bus,
            devfn,
            register,
            value,
        } => {
            let address = Address::from_bits(u16::from_le_bytes([devfn, bus % BUSES]));
            bridge.write(address, register & 0xffc, &value.to_le_bytes());
        }
        Event::Renumber(n, numbers) => {
            let id = bridges[usize::from(n) % bridges.len()];
            bridge.store(id, 0x18, &numbers.map(|bus| bus % BUSES));
        }
        Event::Store(n, register, value) => {
            let id = place(bridge, n);
            bridge.store(id, register, &value.to_le_bytes());
        }
        Event::Remove(n) => {
            let id = place(bridge, n);
            gone.extend(bridge.remove(id).map(|function| (id, function)));
        }
        Event::Insert(n) => {
            if !gone.is_empty() {
                let (id, function) = gone.swap_remove(usize::from(n) % gone.len());
                bridge.insert(id, function).unwrap();
            }
        }
        Event::Follow => {}
        Event::SaveAndRestore => {
            let state = bridge.save();
            bridge.restore(&state);
            assert_eq!(bridge.save(), state);
        }
        Event::Reset => bridge.reset(),
    }
}

/// Compares every function through memory, ECAM and ports, and one register of every page
/// without a function.
fn compare(bridge: &mut HostBridge, memory: &ShadowMemory, look: usize) {
    for address in (0..u16::from(BUSES) << 8).map(Address::from_bits) {
        let offset = address.ecam_offset(0).unwrap();
        let Some(_) = bridge.at(address) else {
            let mut seen = [0; 4];
            bridge.ecam_read(offset, &mut seen);
            assert_eq!(seen, [0xff; 4], "{address}");
            if memory.read(offset, &mut seen) {
                assert_eq!(seen, [0xff; 4], "{address}");
            }
            continue;
        };
        let mut seen = [0; 0x1000];
        if !memory.read(offset, &mut seen) {
            continue;
        }
        for at in [0, 0x100 + look] {
            let mut answered = [0; 0x100];
            let answered = &mut answered[..0x100.min(0x1000 - at)];
            bridge.ecam_read(offset + at as u64, answered);
            assert!(seen[at..at + answered.len()] == *answered, "{address}");
        }
        for register in (0..0x100).step_by(4) {
            let select = 1 << 31 | u32::from(address.bits()) << 8 | register;
            bridge.port_write(0, &select.to_le_bytes());
            let mut answered = [0; 4];
            bridge.port_read(4, &mut answered);
            let register = register as usize;
            assert_eq!(seen[register..register + 4], answered, "{address}");
        }
    }
}

/// Returns the virtual machine's devices, an ARI device, and some functions with volatile
/// registers.
fn machine(volatile: u32) -> (HostBridge, Vec<FunctionId>) {
    let topology = Topology::new(0..=BUSES - 1).unwrap();
    let mut bridge = topology.bridge;
    for n in 0..26 {
        let mut function = Function::endpoint(0x1af4, 0x10ff, Class::new(0x12, 0, 0))
            .express(PortType::Endpoint)
            .extended_capability(ExtendedCapability::ari());
        if volatile & 1 << n != 0 {
            function = function.volatile(0x200..0x204, Counter(0));
        }
        let function = function.build().unwrap();
        // On the link, on the conventional bus, on the root bus.
        let _ = match n {
            0..12 => bridge.add_behind(topology.root_ports[1], 4 + n / 8, n % 8, function),
            12..16 => bridge.add_behind(topology.pci_bridge, n, 0, function),
            _ => bridge.add(n, 1, function),
        };
    }
    let is_bridge = |function: &Function| function.is_bridge();
    let bridges = bridge
        .functions()
        .filter(|(_, function)| function.is_some_and(is_bridge))
        .map(|(id, _)| id)
        .collect();
    (bridge, bridges)
}

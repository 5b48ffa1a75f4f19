//! The changes of mappings that a VMM gets, and the exits that they save.

use std::cell::Cell;

use nostall_devices::pci::{
    Address, Change, Class, Contents, Function, HostBridge, MAX_RUNS, Mirror, Page, PortType, Run,
    Shadow, ShadowMemory, Topology, VirtualBus, Volatile, Window,
};
use nostall_io::{Counting, Registers};

const MIB: u64 = 1 << 20;

/// A volatile register without values of its own.
#[derive(Debug)]
struct Silent;

impl Volatile for Silent {
    fn read(&mut self, _: u16, _: &mut [u8]) {}
    fn write(&mut self, _: u16, _: &[u8]) {}
}

fn function(volatile: bool) -> Function {
    let builder = Function::endpoint(0x1af4, 0x10f5, Class::new(0x12, 0, 0));
    match volatile {
        true => builder.volatile(0x40..0x44, Silent).build().unwrap(),
        false => builder.build().unwrap(),
    }
}

fn run(offset: u64, length: u64) -> Run {
    Run { offset, length }
}

#[test]
fn each_bus_has_one_mapping_and_a_bus_without_functions_is_all_ones() {
    let bridge = Topology::new(0..=3).unwrap().bridge;
    let changes = Shadow::new(&bridge, 0..=255).follow(&bridge);
    let empty = |bus| Change::Map(run(bus * MIB, MIB), Contents::AllOnes);
    assert_eq!(
        changes,
        [
            Change::Map(run(0, MIB), Contents::Functions),
            empty(1),
            empty(2),
            empty(3)
        ]
    );
}

#[test]
fn only_the_requested_buses_are_shadowed() {
    let mut bridge = HostBridge::new(16..=31);
    bridge.add(0, 0, function(false)).unwrap();
    let mut shadow = Shadow::new(&bridge, 18..=19);
    shadow.follow(&bridge);
    let runs: Vec<Run> = shadow.runs().collect();
    assert_eq!(runs, [run(2 * MIB, MIB), run(3 * MIB, MIB)]);
    assert_eq!(Shadow::new(&bridge, 0..=15).follow(&bridge), []);
    assert_eq!(Shadow::new(&bridge, 32..=255).follow(&bridge), []);
    assert_eq!(Shadow::new(&bridge, 0..=16).follow(&bridge).len(), 1);
}

#[test]
fn a_write_updates_the_words_that_changed() {
    let mut bridge = HostBridge::new(0..=0);
    bridge.add(2, 0, function(false)).unwrap();
    let mut shadow = Shadow::new(&bridge, 0..=0);
    shadow.follow(&bridge);
    let page = 0x1_0000;
    bridge.ecam_write(page | 0x3c, &[5]).unwrap();
    let update = Change::Update {
        offset: page | 0x3c,
        bytes: vec![5, 0, 0, 0],
    };
    assert_eq!(shadow.follow(&bridge), [update]);
    bridge.ecam_write(page | 0x3c, &[5]).unwrap();
    assert_eq!(shadow.follow(&bridge), [], "unchanged value");
    bridge.ecam_write(page, &[1, 2, 3, 4]).unwrap();
    assert_eq!(shadow.follow(&bridge), [], "it is read-only");
}

#[test]
fn a_page_that_traps_splits_its_bus_into_the_runs_around_it() {
    let mut bridge = HostBridge::new(0..=0);
    bridge.add(0, 0, function(false)).unwrap();
    let id = bridge.add(2, 0, function(true)).unwrap();
    let mut shadow = Shadow::new(&bridge, 0..=0);
    let split = [run(0, 0x1_0000), run(0x1_1000, MIB - 0x1_1000)];
    assert_eq!(
        shadow.follow(&bridge),
        split.map(|run| Change::Map(run, Contents::Functions))
    );
    bridge.store(id, 0x44, &[1, 2, 3, 4]).unwrap();
    assert_eq!(shadow.follow(&bridge), [], "its page is not mapped");
    // Pulled out, the function reads as all ones and need not trap.
    bridge.remove(id).unwrap();
    assert_eq!(
        shadow.follow(&bridge),
        [
            Change::Unmap(split[0]),
            Change::Unmap(split[1]),
            Change::Map(run(0, MIB), Contents::Functions)
        ]
    );
}

#[test]
fn a_bus_with_too_many_runs_traps_as_a_whole() {
    let mut bridge = HostBridge::new(0..=0);
    let mut shadow = Shadow::new(&bridge, 0..=0);
    for device in 0..MAX_RUNS as u8 - 1 {
        bridge.add(2 * device, 0, function(true)).unwrap();
    }
    shadow.follow(&bridge);
    assert_eq!(shadow.runs().count(), MAX_RUNS - 1);
    let id = bridge.add(31, 0, function(true)).unwrap();
    shadow.follow(&bridge);
    assert_eq!(shadow.runs().count(), MAX_RUNS);
    bridge.add(31, 2, function(true)).unwrap();
    shadow.follow(&bridge);
    assert_eq!(shadow.runs().count(), 0);
    bridge.store(id, 0x3c, &[1]).unwrap();
    assert_eq!(shadow.follow(&bridge), []);
}

#[test]
fn new_bus_numbers_move_the_functions_on_the_mapped_buses() {
    let topology = Topology::new(0..=7).unwrap();
    let mut bridge = topology.bridge;
    let mut shadow = Shadow::new(&bridge, 0..=7);
    let mut memory = ShadowMemory::new();
    let mut follow = |bridge: &HostBridge| {
        let changes = shadow.follow(bridge);
        memory.apply(&changes, &shadow).unwrap();
        let seen = |bus: u64| {
            let mut ids = [0; 4];
            assert!(memory.read(bus * MIB, &mut ids));
            u32::from_le_bytes(ids)
        };
        (seen(1), seen(5), changes.len())
    };
    assert_eq!(follow(&bridge), (!0, !0, 8));
    bridge.store(topology.root_ports[1], 0x18, &[0, 5, 5]);
    // The port's own register changes. The bus was empty, and no longer is.
    assert_eq!(follow(&bridge), (!0, 0x1041_1af4, 3));
    bridge.store(topology.root_ports[1], 0x18, &[0, 1, 1]);
    assert_eq!(follow(&bridge), (0x1041_1af4, !0, 5));
    bridge.store(topology.root_ports[0], 0x18, &[0, 5, 5]);
    assert_eq!(follow(&bridge), (0x1041_1af4, 0x10f2_1af4, 3));
    bridge.store(topology.root_ports[1], 0x18, &[0, 5, 5]);
    bridge.store(topology.root_ports[0], 0x18, &[0, 1, 1]);
    // Both buses keep their mappings. One word of each port changes, and the pages.
    let (on_1, on_5, changes) = follow(&bridge);
    assert_eq!((on_1, on_5), (0x10f2_1af4, 0x1041_1af4));
    assert!(changes > 4);
    assert_eq!(memory.counts().mappings, 8 + 2 + 4 + 2);
}

#[test]
fn changes_that_no_vmm_could_apply_are_refused_by_the_memory() {
    let memory = ShadowMemory::new();
    let mut data = [0; 4];
    assert!(!memory.read(0, &mut data));
    let bridge = HostBridge::new(0..=0);
    let mut shadow = Shadow::new(&bridge, 0..=0);
    let mut memory = ShadowMemory::new();
    let map = shadow.follow(&bridge);
    memory.apply(&map, &shadow).unwrap();
    assert!(memory.apply(&map, &shadow).is_err(), "mapped twice");
    let update = Change::Update {
        offset: 0,
        bytes: vec![0; 4],
    };
    assert!(
        memory.apply(&[update], &shadow).is_err(),
        "permanently all ones"
    );
    assert!(memory.read(MIB - 4, &mut data));
    assert!(!memory.read(MIB - 3, &mut data), "over the end");
    let unmap = Change::Unmap(run(0, MIB / 2));
    assert!(
        memory.apply(&[unmap], &shadow).is_err(),
        "only half of a run"
    );
}

/// Guest memory of a mirror. Unmapped bytes trap.
struct Guest {
    bytes: Vec<u8>,
    slots: [Option<Run>; MAX_RUNS],
    changes: u32,
    /// Whether the next call fails.
    fails: Cell<bool>,
}

impl Window for Guest {
    type E = &'static str;

    fn map(&mut self, slot: usize, run: Run, mapped: bool) -> Result<(), Self::E> {
        if self.fails.take() {
            return Err("a fault");
        }
        let was = self.slots[slot].replace(run).filter(|_| !mapped);
        self.slots[slot] = mapped.then_some(run);
        self.changes += 1;
        (was == (!mapped).then_some(run))
            .then_some(())
            .ok_or("another run")
    }

    fn store(&mut self, offset: usize, word: u32) {
        self.bytes[offset..offset + 4].copy_from_slice(&word.to_ne_bytes());
    }
}

impl Guest {
    fn page(&self, device: usize) -> Option<&[u8]> {
        let start = device << 15;
        let mapped = |run: &&Run| (run.offset..run.offset + run.length).contains(&(start as u64));
        let run = self.slots.iter().flatten().find(mapped);
        run.map(|_| &self.bytes[start..start + 4096])
    }
}

fn mirror() -> Mirror<Guest> {
    Mirror::new(Guest {
        bytes: vec![0x5a; Mirror::<Guest>::SIZE],
        slots: [None; MAX_RUNS],
        changes: 0,
        fails: Cell::new(false),
    })
}

#[test]
fn a_mirror_shows_a_vmms_own_registers() {
    let mut mirror = mirror();
    let mut registers: [u8; 4096] = std::array::from_fn(|at| at as u8);
    registers[0xe] = 0x80; // it has several functions, says the VMM
    let mut show = |device, page: Page<'_>| {
        let address = Address::new(0, device, 0).unwrap();
        mirror.show(address, page).unwrap();
        let guest = mirror.window();
        (
            guest.page(3).map(<[u8]>::to_vec),
            guest.page(4).map(<[u8]>::to_vec),
            guest.changes,
        )
    };
    let (all, ones) = (Some(registers.to_vec()), Some(vec![0xff; 4096]));
    assert_eq!(
        show(3, Page::Registers(&registers)),
        (all.clone(), ones.clone(), 1)
    );
    let short = [0x12, 0x34];
    let mut padded = vec![0; 4096];
    padded[..2].copy_from_slice(&short);
    let padded = Some(padded);
    assert_eq!(
        show(4, Page::Registers(&short)),
        (all.clone(), padded.clone(), 1)
    );
    registers[0xffc] ^= 1;
    let changed = Some(registers.to_vec());
    assert_eq!(
        show(3, Page::Registers(&registers)),
        (changed.clone(), padded.clone(), 1)
    );
    // The page traps: one run is replaced with two.
    assert_eq!(show(3, Page::Traps), (None, padded.clone(), 4));
    assert_eq!(show(3, Page::Traps), (None, padded.clone(), 4));
    assert_eq!(show(3, Page::Absent), (ones.clone(), padded.clone(), 7));
    assert_eq!(show(3, Page::Absent), (ones.clone(), padded.clone(), 7));
    assert_eq!(show(3, Page::Registers(&registers)), (changed, padded, 7));
    assert_eq!(show(4, Page::Absent).1, ones);
}

#[test]
fn a_mirror_whose_mapping_failed_is_right_after_the_next_call() {
    let mut mirror = mirror();
    let pages = [Page::Registers(&[1, 2, 3, 4]), Page::Traps, Page::Absent];
    let mut failed = 0;
    for page in pages.into_iter().cycle().take(60) {
        let address = Address::new(0, 3, 0).unwrap();
        mirror.window().fails.set(true);
        failed += u32::from(mirror.show(address, page).is_err());
        mirror.window().fails.set(false);
        mirror.show(address, page).unwrap();
        let seen = mirror.window().page(3).map(|bytes| bytes[..4].to_vec());
        let wanted = match page {
            Page::Registers(registers) => Some(registers.to_vec()),
            Page::Absent => Some(vec![0xff; 4]),
            Page::Traps => None,
        };
        // Without credit, the whole bus exits.
        assert!(seen.is_none() || seen == wanted, "{page:?}: {seen:?}");
    }
    assert!(failed > 3, "{failed}");
}

/// Reads vendor and device of every function on eight buses.
fn scan(read: impl Fn(u16) -> u32) -> usize {
    (0..0x800).filter(|&address| read(address) != !0).count()
}

fn numbered() -> HostBridge {
    let topology = Topology::new(0..=7).unwrap();
    let mut bridge = topology.bridge;
    bridge
        .store(topology.root_ports[0], 0x18, &[0, 1, 4])
        .unwrap();
    bridge.store(topology.upstream, 0x18, &[1, 2, 4]).unwrap();
    bridge.store(topology.pci_bridge, 0x18, &[0, 6, 6]).unwrap();
    bridge
}

#[test]
fn a_scan_through_memory_takes_no_exit() {
    let bus = VirtualBus::new(numbered());
    let ports = Counting::new(bus.ports());
    let by_ports = scan(|address| {
        ports.write32(0, 1 << 31 | u32::from(address) << 8);
        ports.read32(4)
    });
    assert_eq!((by_ports, bus.exits()), (11, 2 * 0x800));
    assert_eq!(ports.counts().bus_accesses(), 2 * 0x800);

    let bus = VirtualBus::new(numbered());
    let ecam = bus.ecam();
    let by_ecam = scan(|address| ecam.read32(usize::from(address) << 12));
    assert_eq!((by_ecam, bus.exits()), (11, 0x800));

    let bus = VirtualBus::shadowed(numbered());
    let ecam = bus.ecam();
    assert_eq!(ecam.size(), 8 << 20);
    let by_memory = scan(|address| ecam.read32(usize::from(address) << 12));
    assert_eq!((by_memory, bus.exits()), (11, 0));
    assert_eq!(bus.shadow_counts().mappings, 8);
}

#[test]
fn a_write_is_an_exit_and_its_effect_is_in_memory() {
    let bus = VirtualBus::shadowed(numbered());
    let bar = 1 << 15 | 0x10;
    bus.ecam().write32(bar, !0);
    assert_eq!(bus.ecam().read32(bar), 0xffff_f000);
    assert_eq!(bus.ecam().read16(bar + 2), 0xffff);
    assert_eq!(bus.ecam().read8(bar + 1), 0xf0);
    assert_eq!(bus.exits(), 1);
    assert_eq!(bus.shadow_counts().updates, 1);
    let ports = bus.ports();
    ports.write32(0, 1 << 31 | 0x083c);
    ports.write8(4, 11);
    assert_eq!(ports.read16(4) & 0xff, 11);
    assert_eq!(bus.exits(), 4);
    assert_eq!(bus.ecam().read8(1 << 15 | 0x3c), 11);
    assert_eq!(bus.exits(), 4);
}

#[test]
fn a_function_vanishes_in_the_middle_of_a_scan() {
    for shadowed in [false, true] {
        let bridge = numbered();
        let id = bridge.at(Address::new(0, 1, 1).unwrap()).unwrap();
        let bus = match shadowed {
            true => VirtualBus::shadowed(bridge),
            false => VirtualBus::new(bridge),
        };
        bus.vanish_after(2, id);
        let ecam = bus.ecam();
        let seen = [(); 4].map(|()| ecam.read32(9 << 12));
        assert_eq!(seen, [0x10f5_1af4, 0x10f5_1af4, !0, !0]);
        assert_eq!(ecam.read32(8 << 12), 0x10f5_1af4, "its neighbour stays");
    }
}

/// Returns a bridge with `ports` root ports. Each has one function on a bus of its own.
fn many_ports(ports: u8) -> HostBridge {
    let mut bridge = HostBridge::new(0..=ports);
    for n in 0..ports {
        let port = Function::bridge(0x1af4, 0x10f1).express(PortType::RootPort);
        let port = bridge.add(n / 8, n % 8, port.build().unwrap()).unwrap();
        bridge.add_behind(port, 0, 0, function(false)).unwrap();
        bridge.store(port, 0x18, &[0, n + 1, n + 1]).unwrap();
    }
    bridge
}

#[test]
fn a_function_costs_one_page_of_host_memory_and_an_absent_one_none() {
    let mut bridge = many_ports(240);
    let mut shadow = Shadow::new(&bridge, 0..=255);
    let mut memory = ShadowMemory::new();
    let changes = shadow.follow(&bridge);
    memory.apply(&changes, &shadow).unwrap();
    // There is still one mapping per bus.
    assert_eq!(memory.counts().mappings, 241);
    assert_eq!(memory.pages(), 240 + 240);
    for page in (0..241 * 256).map(|page| page << 12) {
        let (mut seen, mut answered) = ([0; 4], [1; 4]);
        assert!(memory.read(page, &mut seen));
        bridge.ecam_read(page, &mut answered);
        assert_eq!(seen, answered, "page {page:#x}");
    }
    // A function that is pulled out frees its page. Put in again, it takes one.
    let page = (3 << 3 | 1) << 12;
    let id = bridge.at(Address::new(0, 3, 1).unwrap()).unwrap();
    let port = bridge.remove(id).unwrap();
    let changes = shadow.follow(&bridge);
    assert_eq!(changes[0], Change::Clear(run(page, 0x1000)));
    memory.apply(&changes, &shadow).unwrap();
    assert_eq!(memory.pages(), 239 + 239);
    let mut seen = [0; 4];
    assert!(memory.read(page, &mut seen));
    assert_eq!(seen, [0xff; 4]);
    bridge.insert(id, port).unwrap();
    let changes = shadow.follow(&bridge);
    memory.apply(&changes, &shadow).unwrap();
    assert_eq!(memory.pages(), 240 + 240);
}

/// Toggles root port 0's numbers, so that three buses behind it appear and disappear.
fn toggle(bus: &VirtualBus, times: u32) {
    let numbers = 2 << 15 | 0x18;
    for n in 0..times {
        let there = if n % 2 == 0 { 0x0008_0800 } else { 0x0004_0100 };
        bus.ecam().write32(numbers, there);
        // Neither place may ever show an old value.
        let at = |number: usize| bus.ecam().read32(number << 20);
        let (old, new) = if n % 2 == 0 { (1, 8) } else { (8, 1) };
        assert_eq!((at(old), at(new)), (!0, 0x10f2_1af4), "write {n}");
    }
}

#[test]
fn a_guest_that_toggles_bus_numbers_pays_a_hundred_exits_for_each_mapping() {
    const TIMES: u32 = 5_000;
    const BUSES: u64 = 16;
    let topology = Topology::new(0..=15).unwrap();
    let bus = VirtualBus::shadowed(topology.bridge);
    bus.with_bridge(|bridge| {
        bridge.store(topology.root_ports[0], 0x18, &[0, 1, 4]);
        bridge.store(topology.upstream, 0x18, &[1, 2, 4]);
    });
    let before = bus.shadow_counts().mappings;
    toggle(&bus, TIMES);
    let made = bus.shadow_counts().mappings - before;
    // Each mapping is made and removed. Four for each bus are free.
    let most = 2 * (4 * BUSES + bus.exits() / 100);
    assert!(
        made <= most,
        "{made} mappings changed by {TIMES} writes, not {most}"
    );

    // Once the guest stops, at most 100 exits per bus restore its mappings.
    let read_all = || {
        (0..BUSES as usize).for_each(|n| {
            bus.ecam().read32(n << 20);
        })
    };
    let calm = bus.exits();
    (0..200).for_each(|_| read_all());
    let trapped = bus.exits() - calm;
    assert!(trapped <= 100 * 8, "{trapped} reads were exits");
    let calm = bus.exits();
    read_all();
    assert_eq!(bus.exits(), calm, "everything is mapped again");
}

#[test]
fn a_guest_that_swaps_full_buses_pays_for_each_page_that_is_built() {
    const TIMES: u32 = 1_000;
    const BUSES: u64 = 4;
    let mut bridge = HostBridge::new(0..=BUSES as u8 - 1);
    // Three bridges have 256 functions each. The first one's bus hides one of the others', so
    // both buses have all their functions at all times.
    for n in 0..3 {
        let id = bridge
            .add(n, 0, Function::bridge(0x1af4, 0x10f3).build().unwrap())
            .unwrap();
        for (device, function) in (0..256u16).map(|n| ((n >> 3) as u8, n as u8 & 7)) {
            let class = Class::new(0x12, 0, 0);
            let endpoint = Function::endpoint(0x1af4, 0x1100 | u16::from(n), class);
            bridge
                .add_behind(id, device, function, endpoint.build().unwrap())
                .unwrap();
        }
        bridge.store(id, 0x18, &[0, n + 1, n + 1]).unwrap();
    }
    let bus = VirtualBus::shadowed(bridge);
    let before = bus.shadow_counts();
    for n in 0..TIMES {
        let hidden = 2 + n % 2;
        bus.ecam().write32(0x18, hidden << 16 | hidden << 8);
        for shown in [2, 3] {
            let device = if shown == hidden {
                0x1100
            } else {
                0x10ff + shown
            };
            let ids = bus.ecam().read32((shown as usize) << 20);
            assert_eq!(ids, device << 16 | 0x1af4, "bus {shown} after write {n}");
        }
    }
    let after = bus.shadow_counts();
    let built = after.pages + after.updates - before.pages - before.updates;
    // A page for each exit, plus the cost of a burst.
    let most = bus.exits() + 400 * BUSES;
    assert!(
        built <= most,
        "{built} pages were built by {TIMES} writes, not {most}"
    );
}

/// The bus has the highest number of mappings. They cost more than the shadow's credit limit.
#[test]
fn a_bus_with_many_mappings_costs_its_full_price_even_in_a_small_shadow() {
    const TIMES: u32 = 4_000;
    const RUNS: u64 = 16;
    let mut bridge = HostBridge::new(0..=1);
    let pci = Function::bridge(0x1af4, 0x10f3).build().unwrap();
    let pci = bridge.add(0, 0, pci).unwrap();
    for device in 0..RUNS as u8 - 1 {
        bridge
            .add_behind(pci, 2 * device + 1, 0, function(true))
            .unwrap();
    }
    let mut shadow = Shadow::new(&bridge, 1..=1);
    let mut changes = shadow.follow(&bridge).len();
    assert_eq!(changes, 1, "nothing is there yet");
    for n in 0..TIMES {
        let numbers = if n % 2 == 0 { 0x0001_0100u32 } else { 0 };
        bridge.ecam_write(0x18, &numbers.to_le_bytes());
        changes += shadow.follow(&bridge).len();
    }
    // Each mapping is made and removed: the free ones, the paid ones, and the debt of the last.
    let most = 2 * (4 + u64::from(TIMES) / 100 + RUNS);
    assert!(
        changes as u64 <= most,
        "{changes} mappings changed by {TIMES} writes, not {most}"
    );
}

//! Host bridges and hypervisors, from device trees of machines and from invalid trees.

use dtoolkit::fdt::Fdt;
use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
use nostall_pci::device_tree::{BadHost, Host, Prefetch, Space};
use nostall_pci::mcfg::Segment;
use nostall_pci::{Environment, Ranges, Signature};
use proptest::prelude::*;

/// The properties of a node, as cells.
type Cells<'a> = &'a [(&'static str, &'a [u32])];

fn node(name: &str, compatible: &str, properties: Cells<'_>) -> DeviceTreeNode {
    let mut node = DeviceTreeNode::new(name).unwrap();
    node.add_property(DeviceTreeProperty::new("compatible", compatible).unwrap());
    for (name, cells) in properties {
        node.add_property(DeviceTreeProperty::new(*name, *cells).unwrap());
    }
    node
}

/// Returns a tree whose root has two cells for addresses and two for sizes.
fn tree(nodes: impl IntoIterator<Item = DeviceTreeNode>) -> Vec<u8> {
    let mut tree = DeviceTree::new();
    for name in ["#address-cells", "#size-cells"] {
        let two = DeviceTreeProperty::new(name, 2u32).unwrap();
        tree.root.add_property(two);
    }
    for node in nodes {
        tree.root.add_child(node);
    }
    tree.to_dtb()
}

fn hosts(tree: &[u8]) -> Vec<Result<Host, BadHost>> {
    Host::all(&Fdt::new(tree).unwrap()).collect()
}

/// Properties of the host bridge of QEMU's riscv64 `virt` machine, a child of its node `soc`.
const VIRT: Cells<'static> = &[
    ("#address-cells", &[3]),
    ("#size-cells", &[2]),
    ("reg", &[0, 0x3000_0000, 0, 0x1000_0000]),
    ("bus-range", &[0, 0xff]),
    ("linux,pci-domain", &[0]),
    (
        "ranges",
        &[
            0x0100_0000,
            0,
            0,
            0,
            0x0300_0000,
            0,
            0x1_0000, //
            0x0200_0000,
            0,
            0x4000_0000,
            0,
            0x4000_0000,
            0,
            0x4000_0000, //
            0x0300_0000,
            4,
            0,
            4,
            0,
            4,
            0,
        ],
    ),
];

fn pci(properties: Cells<'_>) -> DeviceTreeNode {
    node("pci@30000000", "pci-host-ecam-generic", properties)
}

/// Returns `VIRT` with some properties replaced.
fn changed<'a>(changes: &[(&'static str, &'a [u32])]) -> Vec<(&'static str, &'a [u32])> {
    let mut properties: Vec<(&'static str, &'a [u32])> = VIRT.to_vec();
    properties.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
    properties.extend(changes);
    properties
}

fn soc(ranges: &[u32], child: DeviceTreeNode) -> DeviceTreeNode {
    let cells: Cells<'_> = &[
        ("#address-cells", &[2]),
        ("#size-cells", &[2]),
        ("ranges", ranges),
    ];
    let mut soc = node("soc", "simple-bus", cells);
    soc.add_child(child);
    soc
}

#[test]
fn qemus_riscv_machine_has_one_bridge_and_gives_the_ranges_to_assign() {
    let found = hosts(&tree([
        node("uart@1", "ns16550a", &[]),
        soc(&[], pci(VIRT)),
    ]));
    let [Ok(host)] = &found[..] else {
        panic!("{found:?}");
    };
    let segment = Segment {
        number: 0,
        buses: 0..=255,
        start: 0x3000_0000,
    };
    assert_eq!(host.segment, segment);
    let ranges = Ranges {
        buses: 0..=255,
        io: 0..0x1_0000,
        memory: 0x4000_0000..0x8000_0000,
        prefetchable: 0x4_0000_0000..0x8_0000_0000,
    };
    assert_eq!(host.ranges(), ranges);
    assert_eq!(host.windows().count(), 3);
    assert_eq!(host.cpu_address(Space::Io, 0x1000), Some(0x0300_1000));
    assert_eq!(host.cpu_address(Space::Io, 0x1_0000), None);
    let memory = 0x4_0000_1000;
    assert_eq!(host.cpu_address(Space::Memory32, memory), Some(memory));
}

#[test]
fn a_host_bridges_segment_may_need_all_32_bits() {
    for number in [0xffff, 0x1_0000, u32::MAX] {
        let found = hosts(&tree([pci(&changed(&[("linux,pci-domain", &[number])]))]));
        let host = found[0].as_ref().unwrap();
        assert_eq!(host.segment.number, number);
    }
}

#[test]
fn prefetchable_ranges_are_for_prefetchable_bars_only() {
    const MIB: u32 = 1 << 20;
    let host = |windows: &[[u32; 3]]| {
        let ranges: Vec<u32> = windows
            .iter()
            .flat_map(|[kind, high, size]| {
                [*kind, *high, 0x4000_0000, *high, 0x4000_0000, 0, *size]
            })
            .collect();
        let properties = changed(&[("ranges", &ranges[..])]);
        hosts(&tree([pci(&properties)])).remove(0).unwrap()
    };
    let at = |high: u64, size: u32| {
        let start = high << 32 | 0x4000_0000;
        start..start + u64::from(size)
    };
    const PLAIN: u32 = 0x0200_0000;
    const AHEAD: u32 = 0x4200_0000;
    const WIDE: u32 = 0x0300_0000;
    const WIDE_AHEAD: u32 = 0x4300_0000;
    // The larger range is for prefetchable memory only.
    let both = host(&[[AHEAD, 0, 64 * MIB], [PLAIN, 0, MIB]]);
    assert_eq!(both.ranges().memory, at(0, MIB));
    assert_eq!(both.ranges().prefetchable, at(0, 64 * MIB));
    let told: Vec<_> = both.windows().map(|window| window.prefetch).collect();
    assert_eq!(told, [Prefetch::Allowed, Prefetch::Never]);
    // The 64-bit range comes first.
    for wide in [WIDE, WIDE_AHEAD] {
        let all = host(&[[AHEAD, 0, 64 * MIB], [PLAIN, 0, MIB], [wide, 4, 2 * MIB]]);
        assert_eq!(all.ranges().memory, at(0, MIB));
        assert_eq!(all.ranges().prefetchable, at(4, 2 * MIB));
    }
    let only = host(&[[AHEAD, 0, MIB]]);
    assert_eq!(only.ranges().memory, 0..0);
}

#[test]
fn addresses_are_translated_through_the_buses_above() {
    // Address 0x3000_0000 on the bus is 0x90_0000_0000 for the CPUs.
    let found = hosts(&tree([soc(&[0, 0, 0x90, 0xd000_0000, 1, 0], pci(VIRT))]));
    // The 64-bit window is beyond the bus's ranges.
    assert_eq!(found, [Err(BadHost(0))]);
    let ranges: &[u32] = &[0x0200_0000, 0, 0x4000_0000, 0, 0x4000_0000, 0, 0x1000];
    let small = changed(&[("ranges", ranges)]);
    let found = hosts(&tree([soc(&[0, 0, 0x90, 0xd000_0000, 1, 0], pci(&small))]));
    let host = found[0].as_ref().unwrap();
    assert_eq!(host.segment.start, 0x91_0000_0000);
    let seen = host.cpu_address(Space::Memory32, 0x4000_0010);
    assert_eq!(seen, Some(0x91_1000_0010));
}

#[test]
fn buses_are_limited_to_the_size_of_the_window() {
    let reg: &[u32] = &[0x40, 0, 0, 0x0100_0000];
    for (range, expected) in [
        (&[0, 255][..], 0..=15),
        (&[0x40, 0x47], 0x40..=0x47),
        (&[0xf8, 0xff], 0xf8..=0xff),
    ] {
        let properties = changed(&[("reg", reg), ("bus-range", range)]);
        let found = hosts(&tree([pci(&properties)]));
        let segment = &found[0].as_ref().unwrap().segment;
        assert_eq!(segment.buses, expected);
        // In the binding, the first bus is at the window's start.
        assert_eq!(segment.start, 0x40_0000_0000);
    }
}

#[test]
fn invalid_bridges_are_reported() {
    let short: &[u32] = &[0, 0x3000_0000, 0, 0x8_0000]; // less than one bus
    let cases: [Cells<'_>; 7] = [
        &[("reg", &[0, 0x3000_0000])],
        &[("reg", short)],
        &[("reg", &[0xffff_ffff, 0xfff0_0000, 0, 0x1000_0000])],
        &[("bus-range", &[2, 1])],
        &[("bus-range", &[0, 256])],
        &[("bus-range", &[0])],
        &[("ranges", &[0x0200_0000, 0, 0])],
    ];
    for changes in cases {
        let found = hosts(&tree([pci(&changed(changes)), soc(&[], pci(VIRT))]));
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], Err(BadHost(0)), "{changes:?}");
        assert!(found[1].is_ok());
    }
}

#[test]
fn bridges_without_a_number_are_counted() {
    let without: Vec<_> = VIRT
        .iter()
        .copied()
        .filter(|(name, _)| *name != "linux,pci-domain")
        .collect();
    let found = hosts(&tree([pci(&without), soc(&[], pci(&without))]));
    let numbers: Vec<_> = found
        .into_iter()
        .map(|one| one.unwrap().segment.number)
        .collect();
    assert_eq!(numbers, [0, 1]);
}

#[test]
fn disabled_nodes_and_other_devices_are_skipped() {
    let mut disabled = pci(VIRT);
    let status = DeviceTreeProperty::new("status", "disabled").unwrap();
    disabled.add_property(status);
    let other = node("pcie@1", "brcm,bcm2711-pcie", VIRT);
    assert_eq!(hosts(&tree([disabled, other])), []);
}

#[test]
fn a_hypervisor_is_detected_from_its_node() {
    let environment = |nodes: Vec<DeviceTreeNode>| {
        let tree = tree(nodes);
        Environment::of_device_tree(&Fdt::new(&tree).unwrap())
    };
    assert_eq!(environment(vec![]), Environment::BareMetal);
    for (compatible, signature) in [
        ("xen,xen", Signature::XEN),
        ("linux,kvm", Signature::KVM),
        ("other,vendor", Signature::NONE),
    ] {
        let found = environment(vec![node("hypervisor", compatible, &[])]);
        assert_eq!(found, Environment::Hypervisor(signature));
    }
    // A node of this name counts only as a child of the root.
    let deeper = soc(&[], node("hypervisor", "xen,xen", &[]));
    assert_eq!(environment(vec![deeper]), Environment::BareMetal);
}

proptest! {
    #[test]
    fn reading_ends_for_any_property_values(
        names in prop::collection::vec(0usize..6, 0..4),
        cells in prop::collection::vec(prop_oneof![0u32..4, any::<u32>()], 0..24),
        bus in prop::collection::vec(prop_oneof![0u32..4, any::<u32>()], 0..9),
    ) {
        let names = names.iter().map(|n| VIRT[*n].0);
        let changes: Vec<(&'static str, &[u32])> = names.map(|name| (name, &cells[..])).collect();
        let tree = tree([soc(&bus, pci(&changed(&changes)))]);
        for host in Host::all(&Fdt::new(&tree).unwrap()).flatten() {
            prop_assert!(!host.segment.buses.is_empty());
            let _ = host.ranges();
        }
    }

    #[test]
    fn a_damaged_tree_is_refused_or_read(at: prop::sample::Index, byte: u8, cut: prop::sample::Index) {
        let mut tree = tree([node("hypervisor", "xen,xen", &[]), soc(&[], pci(VIRT))]);
        let at = at.index(tree.len());
        tree[at] = byte;
        if let Ok(fdt) = Fdt::new(&tree) {
            let _ = Host::all(&fdt).count();
            let _ = Environment::of_device_tree(&fdt);
        }
        let cut = cut.index(tree.len());
        if let Ok(fdt) = Fdt::new(&tree[..cut]) {
            let _ = Host::all(&fdt).count();
        }
    }
}

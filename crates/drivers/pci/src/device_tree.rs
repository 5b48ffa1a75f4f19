//! ECAM windows and hypervisors in a flattened device tree.

use core::ops::{Range, RangeInclusive};

use thiserror::Error;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::standard::{NodeStandard, Status};
use dtoolkit::{Node, Property};

use crate::mcfg::Segment;
use crate::{ECAM_BUS_SIZE, Environment, Ranges, Signature};

/// Depth of the search for host bridges. In practice they are below the root and one or two buses.
const DEPTH: usize = 8;

/// Largest number of ranges of a host bridge; more are ignored.
const MOST_RANGES: usize = 8;

/// Bit of an address's first cell (`p` of phys.hi: PCI Bus Binding 2.1, 2.2.1.1).
const PREFETCHABLE: u64 = 1 << 30;

/// A host bridge: its ECAM window, and the addresses below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Segment with its buses and window.
    pub segment: Segment,
    windows: [Option<HostWindow>; MOST_RANGES],
}

/// Addresses that a host bridge forwards (IEEE 1275, PCI Bus Binding 2.1, 2.2.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostWindow {
    /// Address space.
    pub space: Space,
    /// Permission to prefetch.
    pub prefetch: Prefetch,
    /// Addresses on the bus, as decoded by functions.
    pub bus: Range<u64>,
    /// First address for the CPUs.
    pub cpu: u64,
}

/// Address space of a PCI bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// I/O space.
    Io,
    /// Memory with 32-bit addresses.
    Memory32,
    /// Memory with 64-bit addresses.
    Memory64,
}

/// Permission of the host bridge to prefetch and to merge writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetch {
    /// No prefetching: any BAR may be there.
    Never,
    /// Prefetching: only prefetchable BARs may be there.
    Allowed,
}

impl Host {
    /// Returns all enabled host bridges in `tree` that are ready for ECAM accesses (compatible with
    /// `pci-host-ecam-generic`), or their faults.
    pub fn all<'a>(tree: &Fdt<'a>) -> impl Iterator<Item = Result<Self, BadHost>> + use<'a> {
        let nodes = Nodes::new(tree.root());
        let ready = nodes.filter(|path| {
            let node = path.node();
            node.is_compatible("pci-host-ecam-generic") && node.status() == Ok(Status::Okay)
        });
        ready
            .enumerate()
            .map(|(n, path)| path.host(n).ok_or(BadHost(n)))
    }

    /// Returns the windows in the tree's order.
    pub fn windows(&self) -> impl Iterator<Item = &HostWindow> {
        self.windows.iter().flatten()
    }

    /// Returns the ranges for [`assign`](crate::assign) below this bridge: the largest window of
    /// each space.
    ///
    /// A prefetchable window is not used for other memory. For prefetchable BARs, a 32-bit one is
    /// the second choice after any 64-bit window.
    pub fn ranges(&self) -> Ranges {
        let largest = |suits: fn(&HostWindow) -> bool| {
            self.windows()
                .filter(|window| suits(window))
                .map(|window| window.bus.clone())
                .max_by_key(|range| range.end - range.start)
        };
        let wide = largest(|window| window.space == Space::Memory64);
        let ahead = |window: &HostWindow| {
            window.space == Space::Memory32 && window.prefetch == Prefetch::Allowed
        };
        let plain = |window: &HostWindow| {
            window.space == Space::Memory32 && window.prefetch == Prefetch::Never
        };
        Ranges {
            buses: self.segment.buses.clone(),
            io: largest(|window| window.space == Space::Io).unwrap_or_default(),
            memory: largest(plain).unwrap_or_default(),
            prefetchable: wide.or_else(|| largest(ahead)).unwrap_or_default(),
        }
    }

    /// Translates `address`, a bus address in `space`, to a CPU address; `None` if no window
    /// contains it.
    pub fn cpu_address(&self, space: Space, address: u64) -> Option<u64> {
        let io = space == Space::Io;
        self.windows()
            .find(|window| (window.space == Space::Io) == io && window.bus.contains(&address))
            .and_then(|window| window.cpu.checked_add(address - window.bus.start))
    }
}

impl Environment {
    /// Reads the environment from the device tree's node `/hypervisor`. Some hypervisors, such as
    /// QEMU, have no such node.
    pub fn of_device_tree(tree: &Fdt<'_>) -> Self {
        let Some(node) = tree
            .root()
            .children()
            .find(|node| node.name() == "hypervisor")
        else {
            return Self::BareMetal;
        };
        let known = [
            ("xen,xen", Signature::XEN),
            ("linux,kvm", Signature::KVM),
            ("microsoft,hyperv", Signature::HYPER_V),
        ];
        let name = known.iter().find(|(name, _)| node.is_compatible(name));
        Self::Hypervisor(name.map_or(Signature::NONE, |(_, signature)| *signature))
    }
}

/// A node and its parents.
#[derive(Clone, Copy)]
struct Path<'a> {
    nodes: [Option<FdtNode<'a>>; DEPTH],
    len: usize,
    root: FdtNode<'a>,
}

impl<'a> Path<'a> {
    fn node(&self) -> FdtNode<'a> {
        self.above(0).unwrap_or(self.root)
    }

    /// Returns the node itself (0) or its `n`th parent.
    fn above(&self, n: usize) -> Option<FdtNode<'a>> {
        *self.nodes.get(self.len.checked_sub(1 + n)?)?
    }

    /// Decodes a host bridge. `n` is its index, used as segment number if the tree has none.
    fn host(&self, n: usize) -> Option<Host> {
        let node = self.node();
        let cells = cells(self.above(1).unwrap_or(self.root))?;
        let [start, size] = words(property(&node, "reg")?, cells)?;
        let first = property(&node, "bus-range");
        let buses = match first.map(|bytes| words::<2>(bytes, [1, 1])) {
            None => 0..=255,
            Some(range) => {
                let [first, last] = range?;
                u8::try_from(first).ok()?..=u8::try_from(last).ok()?
            }
        };
        let number = match node.property("linux,pci-domain") {
            None => u32::try_from(n).ok()?,
            Some(domain) => domain.value_as::<u32>().ok()?,
        };
        let segment = Segment {
            number,
            buses: clip(buses, size)?,
            start: self.translate(1, start)?,
        };
        segment
            .start
            .checked_add((segment.buses.len() * ECAM_BUS_SIZE) as u64)?;
        let windows = self.windows(property(&node, "ranges").unwrap_or_default(), cells)?;
        Some(Host { segment, windows })
    }

    fn windows(
        &self,
        ranges: &[u8],
        [parent, _]: [usize; 2],
    ) -> Option<[Option<HostWindow>; MOST_RANGES]> {
        // A PCI bus has addresses of three cells and sizes of two (PCI Bus Binding 2.1, 2.2.1.1).
        let entry = [1, 2, parent, 2];
        let bytes = entry.iter().sum::<usize>() * 4;
        let mut windows = [const { None }; MOST_RANGES];
        for (window, entry_bytes) in windows.iter_mut().zip(ranges.chunks_exact(bytes)) {
            let [kind, bus, cpu, size] = words(entry_bytes, entry)?;
            let space = match kind >> 24 & 0x3 {
                1 => Space::Io,
                2 => Space::Memory32,
                3 => Space::Memory64,
                _ => continue, // configuration space, which `reg` describes
            };
            let prefetch = match kind & PREFETCHABLE {
                0 => Prefetch::Never,
                _ => Prefetch::Allowed,
            };
            cpu.checked_add(size)?;
            *window = Some(HostWindow {
                space,
                prefetch,
                bus: bus..bus.checked_add(size)?,
                cpu: self.translate(1, cpu)?,
            });
        }
        ranges.len().is_multiple_of(bytes).then_some(windows)
    }

    /// Translates an address on the `n`th parent bus to a CPU address.
    fn translate(&self, n: usize, mut address: u64) -> Option<u64> {
        for above in n..self.len {
            let bus = self.above(above)?;
            let ranges = property(&bus, "ranges")?;
            if ranges.is_empty() {
                continue; // the same addresses on both sides
            }
            let [child, size] = cells(bus)?;
            let [parent, _] = cells(self.above(above + 1).unwrap_or(self.root))?;
            let entry = [child, parent, size];
            let bytes = entry.iter().sum::<usize>() * 4;
            address = ranges.chunks_exact(bytes).find_map(|range| {
                let [from, to, size] = words(range, entry)?;
                let offset = address.checked_sub(from).filter(|offset| *offset < size)?;
                to.checked_add(offset)
            })?;
        }
        Some(address)
    }
}

/// Returns the buses of `wanted` that fit into an ECAM window of `size` bytes.
fn clip(wanted: RangeInclusive<u8>, size: u64) -> Option<RangeInclusive<u8>> {
    let room = (size / ECAM_BUS_SIZE as u64).checked_sub(1)?;
    let room = u8::try_from(room).unwrap_or(u8::MAX);
    let (first, last) = (*wanted.start(), *wanted.end());
    let last = last.min(first.saturating_add(room));
    (first <= last).then_some(first..=last)
}

fn property<'a>(node: &FdtNode<'a>, name: &str) -> Option<&'a [u8]> {
    node.property(name)?.value_as::<&'a [u8]>().ok()
}

/// Returns the numbers of cells of an address and of a size on the bus `node`; `None` if they do
/// not fit into 64 bits.
fn cells(node: FdtNode<'_>) -> Option<[usize; 2]> {
    let space = node.address_space();
    let both = [space.address_cells, space.size_cells];
    both.iter()
        .all(|cells| (1..=2).contains(cells))
        .then_some(both.map(|cells| cells as usize))
}

/// Returns big-endian numbers of the given numbers of cells, from the start of `bytes`.
fn words<const N: usize>(bytes: &[u8], cells: [usize; N]) -> Option<[u64; N]> {
    let mut rest = bytes;
    let mut words = [0; N];
    for (word, cells) in words.iter_mut().zip(cells) {
        let (number, after) = rest.split_at_checked(cells * 4)?;
        *word = number
            .iter()
            .fold(0, |word, byte| word << 8 | u64::from(*byte));
        rest = after;
    }
    Some(words)
}

/// Iterator over all nodes below a root, parents first.
struct Nodes<'a> {
    path: Path<'a>,
    children: [Option<<FdtNode<'a> as Node>::Children<'a>>; DEPTH],
}

impl<'a> Nodes<'a> {
    fn new(root: FdtNode<'a>) -> Self {
        let mut children = [const { None }; DEPTH];
        children[0] = Some(root.children());
        let path = Path {
            nodes: [None; DEPTH],
            len: 0,
            root,
        };
        Self { path, children }
    }
}

impl<'a> Iterator for Nodes<'a> {
    type Item = Path<'a>;

    fn next(&mut self) -> Option<Path<'a>> {
        // `len` is the depth of the previous node. Its children come first.
        let mut depth = self.path.len;
        loop {
            let next = match self.children.get_mut(depth) {
                Some(Some(children)) => children.next(),
                _ => None, // too deep
            };
            if let Some(node) = next {
                self.path.nodes[depth] = Some(node);
                self.path.len = depth + 1;
                if let Some(below) = self.children.get_mut(depth + 1) {
                    *below = Some(node.children());
                }
                return Some(self.path);
            }
            depth = depth.checked_sub(1)?;
        }
    }
}

/// Error: the properties of the device tree's `n`th host bridge (from 0) are missing, too short or
/// impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the device tree's PCI host bridge {0} cannot be used: look at its reg, bus-range, \
     linux,pci-domain and ranges"
)]
pub struct BadHost(pub usize);

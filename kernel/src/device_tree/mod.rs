//! The device tree, by which the firmware describes the machine, and the devices that are found in it.

pub mod bus_check;
pub mod pci;
mod prci;
pub mod serial;
pub mod spi;

use core::ops::Range;
use core::slice;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::standard::{NodeStandard, Status};
use dtoolkit::{Node, Property};
use spin::Once;

static TREE: Once<Fdt<'static>> = Once::new();

/// Longer than any that we have seen, by far.
const LONGEST: usize = 1 << 20;

/// The first word of a flattened device tree (Devicetree Specification 0.4, 5.2).
const MAGIC: u32 = 0xd00d_feed;

/// Takes the tree at `start`. To be done first of all.
///
/// Panics if there is none that can be read.
///
/// # Safety
///
/// What is at `start` must be readable, for ever, and nobody may write to it: eight
/// bytes, and if they say that they begin a device tree, all of that.
pub unsafe fn init(start: *const u8) {
    assert!(
        !start.is_null() && start.addr().is_multiple_of(8),
        "no device tree at {start:?}"
    );
    // SAFETY: the caller's word.
    let [magic, len] = unsafe { *start.cast::<[u32; 2]>() }.map(u32::from_be);
    let len = len as usize;
    assert!(
        magic == MAGIC && len <= LONGEST,
        "no device tree at {start:?}, or one of more than {LONGEST} bytes"
    );
    // SAFETY: the caller's word.
    match Fdt::new(unsafe { slice::from_raw_parts(start, len) }) {
        Ok(tree) => TREE.call_once(|| tree),
        Err(bad) => panic!("the device tree is damaged: {bad}"),
    };
}

/// The tree.
pub fn get() -> &'static Fdt<'static> {
    TREE.get().expect("the first CPU has been at `enter`")
}

/// Returns the tree's root.
pub fn root() -> FdtNode<'static> {
    get().root()
}

/// Where the tree lies.
pub fn place() -> Range<u64> {
    let bytes = get().data().as_ptr_range();
    bytes.start.addr() as u64..bytes.end.addr() as u64
}

/// What the machine that runs us says.
pub fn command_line() -> &'static str {
    let chosen = root().child("chosen");
    let line = chosen.and_then(|chosen| chosen.property("bootargs"));
    line.map_or("", |line| match line.value_as() {
        Ok(line) => line,
        Err(_) => panic!("the command line is not UTF-8"),
    })
}

/// Where it put our input.
pub fn initrd() -> Option<Range<u64>> {
    let chosen = root().child("chosen")?;
    let address = |name| number(&chosen, name);
    let range = address("linux,initrd-start")?..address("linux,initrd-end")?;
    (!range.is_empty()).then_some(range)
}

/// Ranges of RAM.
fn ram() -> impl Iterator<Item = Range<u64>> {
    let memory = root().children().filter(|node| {
        text(node, "device_type") == Some("memory") && node.status() == Ok(Status::Okay)
    });
    memory.flat_map(ranges)
}

/// The RAM that all of `range` is in.
pub fn ram_around(range: &Range<u64>) -> Option<Range<u64>> {
    ram().find(|ram| ram.start <= range.start && range.end <= ram.end)
}

/// Whether any of `range` is RAM.
pub fn touches_ram(range: &Range<u64>) -> bool {
    ram().any(|ram| ram.start < range.end && range.start < ram.end)
}

/// RAM that is not ours, most of all the firmware's (Devicetree Specification 0.4, 3.5
/// and 5.3).
pub fn reserved() -> impl Iterator<Item = Range<u64>> {
    let nodes = root()
        .child("reserved-memory")
        .into_iter()
        .flat_map(|node| node.children())
        .flat_map(ranges);
    let block = get()
        .memory_reservations()
        .map(|range| range.address()..range.address().saturating_add(range.size()));
    nodes.chain(block)
}

/// A device: its node, and where its registers are.
#[derive(Clone)]
pub struct Device {
    pub node: FdtNode<'static>,
    pub registers: Range<u64>,
    bus: Option<FdtNode<'static>>,
}

impl Device {
    /// Those of this kind that are in use: in the root, or on a bus there whose addresses
    /// are the processors' own.
    pub fn all(compatible: &'static str) -> impl Iterator<Item = Self> {
        let below = |bus: FdtNode<'static>| bus.children().map(move |node| (node, Some(bus)));
        let direct = root().children().map(|node| (node, None));
        let buses = root().children().filter(|bus| {
            let ranges = bus.property("ranges");
            ranges.is_some_and(|ranges| ranges.value().is_empty())
        });
        direct
            .chain(buses.flat_map(below))
            .filter(move |(node, _)| {
                node.is_compatible(compatible) && node.status() == Ok(Status::Okay)
            })
            .filter_map(|(node, bus)| {
                let registers = ranges(node).next()?;
                Some(Self {
                    node,
                    registers,
                    bus,
                })
            })
    }

    /// Whether this is where the firmware wants a console to be.
    pub fn is_stdout(&self) -> bool {
        let chosen = root().child("chosen");
        let Some(path) = chosen.and_then(|chosen| text(&chosen, "stdout-path")) else {
            return false;
        };
        // After a colon there are the line's settings (3.6).
        let path = path.split(':').next().unwrap_or_default();
        let path = match root().child("aliases") {
            Some(aliases) if !path.starts_with('/') => text(&aliases, path).unwrap_or(path),
            _ => path,
        };
        match (&self.bus, path.strip_prefix('/')) {
            (None, Some(path)) => path == self.node.name(),
            (Some(bus), Some(path)) => path.split_once('/') == Some((bus.name(), self.node.name())),
            (_, None) => false,
        }
    }

    /// A property that is a number.
    pub fn number(&self, name: &str) -> Option<u64> {
        number(&self.node, name)
    }

    /// A property that is a list of cells.
    pub fn cells(&self, name: &str) -> impl Iterator<Item = u32> + use<> {
        cells(&self.node, name)
    }

    /// The number of its interrupt, if `parent` is who takes it.
    pub fn interrupt(&self, parent: &Self) -> Option<u32> {
        let said = |node: &FdtNode<'static>| number(node, "interrupt-parent");
        let of_bus = || said(self.bus.as_ref()?);
        let takes_it = said(&self.node).or_else(of_bus).or_else(|| said(&root()));
        (takes_it? == parent.number("phandle")?).then_some(())?;
        self.cells("interrupts").next()
    }

    /// Whether something of this kind is on the bus that this device drives.
    pub fn drives(&self, compatible: &str) -> bool {
        self.node
            .children()
            .any(|child| child.is_compatible(compatible) && child.status() == Ok(Status::Okay))
    }
}

/// The rate of a clock that never changes, in hertz.
pub fn fixed_clock(phandle: u32) -> Option<u64> {
    let clock = root()
        .children()
        .find(|node| number(node, "phandle") == Some(phandle.into()))?;
    clock.is_compatible("fixed-clock").then_some(())?;
    number(&clock, "clock-frequency")
}

/// What `reg` says, of a node whose bus has the processors' own addresses.
fn ranges(node: FdtNode<'static>) -> impl Iterator<Item = Range<u64>> {
    let reg = node.reg().ok().flatten().into_iter().flatten();
    reg.filter_map(|reg| {
        let (start, size) = (reg.address::<u64>().ok()?, reg.size::<u64>().ok()?);
        Some(start..start.checked_add(size)?)
    })
}

/// Returns a property that is a number of one cell or two.
pub fn number(node: &FdtNode<'static>, name: &str) -> Option<u64> {
    let property = node.property(name)?;
    let narrow = property.value_as::<u32>().map(u64::from);
    narrow.or_else(|_| property.value_as::<u64>()).ok()
}

/// Numbers of one cell each.
fn cells(node: &FdtNode<'static>, name: &str) -> impl Iterator<Item = u32> + use<> {
    let value = node
        .property(name)
        .and_then(|property| property.value_as::<&'static [u8]>().ok());
    let (cells, _) = value.unwrap_or_default().as_chunks();
    cells.iter().map(|cell| u32::from_be_bytes(*cell))
}

/// Returns a property that is a text.
pub fn text(node: &FdtNode<'static>, name: &str) -> Option<&'static str> {
    node.property(name)?.value_as::<&'static str>().ok()
}

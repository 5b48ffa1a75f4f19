//! The device tree and the devices that it describes.

pub mod bus_check;
pub mod clock;
pub mod cpus;
pub mod memory;
pub mod pci;
mod pci_serial;
#[cfg(target_arch = "aarch64")]
pub mod pl011;
#[cfg(target_arch = "riscv64")]
mod prci;
pub mod semihosting;
pub mod serial;
#[cfg(target_arch = "riscv64")]
pub mod spi;

use core::ops::Range;
use core::slice;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::standard::{NodeStandard, Status};
use dtoolkit::{Node, Property};
use spin::Once;

static TREE: Once<Fdt<'static>> = Once::new();

/// Maximum accepted length of a device tree in bytes, far above any known one.
const LONGEST: usize = 1 << 20;

/// First word of a flattened device tree (Devicetree Specification 0.4, section 5.2).
const MAGIC: u32 = 0xd00d_feed;

/// Sets the tree at `start`. Must be called before all other functions.
///
/// Panics if there is no valid tree.
///
/// # Safety
///
/// The eight bytes at `start` must be readable forever and never be written. If they are the start
/// of a device tree, this applies to the whole tree.
pub unsafe fn init(start: *const u8) {
    assert!(
        !start.is_null() && start.addr().is_multiple_of(8),
        "no device tree at {start:?}"
    );
    // SAFETY: the caller guarantees it.
    let [magic, len] = unsafe { *start.cast::<[u32; 2]>() }.map(u32::from_be);
    let len = len as usize;
    assert!(
        magic == MAGIC && len <= LONGEST,
        "no device tree at {start:?}, or one of more than {LONGEST} bytes"
    );
    // SAFETY: the caller guarantees it.
    match Fdt::new(unsafe { slice::from_raw_parts(start, len) }) {
        Ok(tree) => TREE.call_once(|| tree),
        Err(bad) => panic!("the device tree is damaged: {bad}"),
    };
}

/// Returns the tree. Panics before [`init`].
pub fn get() -> &'static Fdt<'static> {
    TREE.get().expect("the first CPU has been at `enter`")
}

/// Returns the tree's root.
pub fn root() -> FdtNode<'static> {
    get().root()
}

/// Returns the tree's address range.
pub fn place() -> Range<u64> {
    let bytes = get().data().as_ptr_range();
    bytes.start.addr() as u64..bytes.end.addr() as u64
}

/// Returns the command line.
pub fn command_line() -> &'static str {
    let chosen = root().child("chosen");
    let line = chosen.and_then(|chosen| chosen.property("bootargs"));
    line.map_or("", |line| match line.value_as() {
        Ok(line) => line,
        Err(_) => panic!("the command line is not UTF-8"),
    })
}

/// Returns the address range of the input.
pub fn initrd() -> Option<Range<u64>> {
    let chosen = root().child("chosen")?;
    let address = |name| number(&chosen, name);
    let linux = || Some(address("linux,initrd-start")?..address("linux,initrd-end")?);
    // Without a kernel of Linux's format, QEMU's `guest-loader` describes the input as a module
    // (docs/system/guest-loader.rst): its address and size are numbers of two cells.
    let module = || {
        let is_input = |node: &FdtNode<'static>| node.is_compatible("multiboot,ramdisk");
        let mut reg = cells(&chosen.children().find(is_input)?, "reg").map(u64::from);
        let mut number = || Some(reg.next()? << 32 | reg.next()?);
        let (start, len) = (number()?, number()?);
        Some(start..start.checked_add(len)?)
    };
    linux().or_else(module).filter(|range| !range.is_empty())
}

/// Returns the ranges of RAM.
fn ram() -> impl Iterator<Item = Range<u64>> {
    let memory = root().children().filter(|node| {
        text(node, "device_type") == Some("memory") && node.status() == Ok(Status::Okay)
    });
    memory.flat_map(ranges)
}

/// Returns whether any of `range` is RAM.
pub fn touches_ram(range: &Range<u64>) -> bool {
    ram().any(|ram| ram.start < range.end && range.start < ram.end)
}

/// Returns the reserved RAM, mainly the firmware's (Devicetree Specification 0.4, sections 3.5 and
/// 5.3).
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

/// A device: its node, and its register range.
#[derive(Clone)]
pub struct Device {
    pub node: FdtNode<'static>,
    pub registers: Range<u64>,
    bus: Option<FdtNode<'static>>,
}

impl Device {
    /// Returns the enabled devices of this kind: at the root, or on a bus below it that uses the
    /// processors' addresses.
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

    /// Returns the device of these kinds that the firmware selects for its console, else the first.
    pub fn console(compatible: &[&'static str]) -> Option<Self> {
        let all = || compatible.iter().copied().flat_map(Self::all);
        all().find(Self::is_stdout).or_else(|| all().next())
    }

    /// Returns whether the firmware selects this device for its console.
    pub fn is_stdout(&self) -> bool {
        let chosen = root().child("chosen");
        let Some(path) = chosen.and_then(|chosen| text(&chosen, "stdout-path")) else {
            return false;
        };
        // The line settings follow a colon (section 3.6).
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

    /// Returns all register ranges.
    #[cfg(target_arch = "aarch64")]
    pub fn ranges(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        ranges(self.node)
    }

    /// Returns a numeric property.
    pub fn number(&self, name: &str) -> Option<u64> {
        number(&self.node, name)
    }

    /// Returns a property that is a list of cells.
    pub fn cells(&self, name: &str) -> impl Iterator<Item = u32> + use<> {
        cells(&self.node, name)
    }

    /// Returns the number of the device's interrupt, if `parent` is its interrupt controller.
    pub fn interrupt(&self, parent: &Self) -> Option<u32> {
        let said = |node: &FdtNode<'static>| number(node, "interrupt-parent");
        let of_bus = || said(self.bus.as_ref()?);
        let takes_it = said(&self.node).or_else(of_bus).or_else(|| said(&root()));
        (takes_it? == parent.number("phandle")?).then_some(())?;
        self.cells("interrupts").next()
    }

    /// Returns whether an enabled device of this kind is connected to this controller.
    pub fn drives(&self, compatible: &str) -> bool {
        self.node
            .children()
            .any(|child| child.is_compatible(compatible) && child.status() == Ok(Status::Okay))
    }
}

/// Returns the rate of a fixed clock in hertz, found with its `phandle`.
pub fn fixed_clock(phandle: u32) -> Option<u64> {
    let clock = root()
        .children()
        .find(|node| number(node, "phandle") == Some(phandle.into()))?;
    clock.is_compatible("fixed-clock").then_some(())?;
    number(&clock, "clock-frequency")
}

/// Returns the ranges in the `reg` of a node whose bus uses the processors' addresses.
fn ranges(node: FdtNode<'static>) -> impl Iterator<Item = Range<u64>> {
    let reg = node.reg().ok().flatten().into_iter().flatten();
    reg.filter_map(|reg| {
        let (start, size) = (reg.address::<u64>().ok()?, reg.size::<u64>().ok()?);
        Some(start..start.checked_add(size)?)
    })
}

/// Returns the enabled node of this kind at the root.
#[cfg(target_arch = "aarch64")]
pub fn node(compatible: &str) -> Option<FdtNode<'static>> {
    root()
        .children()
        .find(|node| node.is_compatible(compatible) && node.status() == Ok(Status::Okay))
}

/// Returns a numeric property of one or two cells.
pub fn number(node: &FdtNode<'static>, name: &str) -> Option<u64> {
    let property = node.property(name)?;
    let narrow = property.value_as::<u32>().map(u64::from);
    narrow.or_else(|_| property.value_as::<u64>()).ok()
}

/// Returns a property that is a list of cells.
pub fn cells(node: &FdtNode<'static>, name: &str) -> impl Iterator<Item = u32> + use<> {
    let value = node
        .property(name)
        .and_then(|property| property.value_as::<&'static [u8]>().ok());
    let (cells, _) = value.unwrap_or_default().as_chunks();
    cells.iter().map(|cell| u32::from_be_bytes(*cell))
}

/// Returns a text property.
pub fn text(node: &FdtNode<'static>, name: &str) -> Option<&'static str> {
    node.property(name)?.value_as::<&'static str>().ok()
}

//! The CPUs, as the device tree lists them (Devicetree Specification 0.4, section 3.8).

use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;

use super::{root, text};

/// Returns the nodes of the CPUs.
pub fn nodes() -> impl Iterator<Item = FdtNode<'static>> {
    let cpus = root().child("cpus").into_iter();
    cpus.flat_map(|node| node.children())
        .filter(|node| text(node, "device_type") == Some("cpu"))
}

/// Returns the number that the hardware has for a CPU.
pub fn id(cpu: &FdtNode<'static>) -> Option<usize> {
    let id = cpu.reg().ok()??.next()?.address::<u64>().ok()?;
    usize::try_from(id).ok()
}

//! The harts, as the device tree describes them (RISC-V's bindings).

use dtoolkit::Node;
use dtoolkit::fdt::FdtNode;
use dtoolkit::standard::{NodeStandard, Status};

use crate::device_tree::{number, root, text};

/// Returns the ids of the harts that can run a kernel: they are enabled and can translate
/// addresses.
pub fn ids() -> impl Iterator<Item = usize> {
    nodes()
        .filter(|hart| {
            hart.status() == Ok(Status::Okay)
                && text(hart, "mmu-type").is_some_and(|mmu| mmu.starts_with("riscv,sv"))
        })
        .filter_map(|hart| id(&hart))
}

/// Returns the rate of the `time` register, in hertz.
pub fn timebase() -> Option<u32> {
    let hz = number(&root().child("cpus")?, "timebase-frequency")?;
    u32::try_from(hz).ok().filter(|&hz| hz > 0)
}

/// Returns the `phandle` of a hart's interrupt controller.
pub fn interrupts_of(hart: usize) -> Option<u64> {
    let node = nodes().find(|node| id(node) == Some(hart))?;
    number(&node.child("interrupt-controller")?, "phandle")
}

fn nodes() -> impl Iterator<Item = FdtNode<'static>> {
    let cpus = root().child("cpus").into_iter();
    cpus.flat_map(|node| node.children())
        .filter(|node| text(node, "device_type") == Some("cpu"))
}

fn id(hart: &FdtNode<'static>) -> Option<usize> {
    let id = hart.reg().ok()??.next()?.address::<u64>().ok()?;
    usize::try_from(id).ok()
}

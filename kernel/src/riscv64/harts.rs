//! The harts, as the device tree describes them (RISC-V's bindings).

use dtoolkit::Node;
use dtoolkit::standard::{NodeStandard, Status};

use crate::device_tree::cpus::{id, nodes};
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
///
/// Panics if the device tree does not have it.
pub fn timebase() -> u32 {
    let cpus = root().child("cpus");
    let hz = cpus.and_then(|cpus| number(&cpus, "timebase-frequency"));
    let hz = hz.and_then(|hz| u32::try_from(hz).ok());
    let Some(hz) = hz.filter(|&hz| hz > 0) else {
        panic!("no clock: the device tree has no timebase-frequency below 4 GHz");
    };
    hz
}

/// Returns the `phandle` of a hart's interrupt controller.
pub fn interrupts_of(hart: usize) -> Option<u64> {
    let node = nodes().find(|node| id(node) == Some(hart))?;
    number(&node.child("interrupt-controller")?, "phandle")
}

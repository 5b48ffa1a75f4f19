//! The values that the boot loader passes.

use core::arch::global_asm;
use core::ops::Range;
use core::ptr::NonNull;

use super::cpus::{self, MAX_CPUS};
use super::paging::{self, STACK_STRIDE, TRAP_STACK_STRIDE};
use crate::boot::{Boot, NoRam};
use crate::device_tree::{self as tree, memory};

global_asm!(
    ".set MAX_CPUS, {max}",
    ".set STACK_STRIDE, {stride}",
    ".set TRAP_STACK_STRIDE, {trap_stride}",
    ".set MAIR, {mair}",
    ".set TCR, {tcr}",
    ".set SCTLR, {sctlr}",
    include_str!("boot.s"),
    max = const MAX_CPUS,
    stride = const STACK_STRIDE,
    trap_stride = const TRAP_STACK_STRIDE,
    mair = const paging::MAIR,
    tcr = const paging::TCR,
    sctlr = const paging::SCTLR,
);

/// Distance from the start of RAM to the image. QEMU places the device tree at the start of RAM if
/// the kernel is an ELF file (docs/system/arm/virt.rst, "Hardware configuration information").
const BELOW_IMAGE: u64 = 2 << 20;

/// Brings up the CPU with this number. On the first one, reads the device tree. Its address is 0 if
/// the boot loader does not pass one.
pub fn enter(number: usize, device_tree: usize, _: usize) -> Option<Boot> {
    if number != 0 {
        paging::activate();
        return None;
    }
    let tree_start = match device_tree {
        0 => (paging::image().start - BELOW_IMAGE) as usize,
        start => start,
    };
    // SAFETY: the boot protocol put the tree there, and since then only our own image was written.
    unsafe { tree::init(tree_start as *const u8) };
    cpus::init_first();
    paging::init();
    paging::activate();
    Some(Boot {
        command_line: tree::command_line(),
        input: memory::input(&paging::image(), paging::is_mapped),
    })
}

/// Returns the memory of `region`, or the reason why it cannot be used; see
/// [`persistent`](memory::persistent).
pub fn persistent_ram(region: Range<u64>) -> Result<(NonNull<u8>, usize), NoRam> {
    memory::persistent(region, &paging::image())
}

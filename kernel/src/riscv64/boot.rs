//! The values that the firmware passes at boot (SBI boot protocol).

use core::arch::global_asm;
use core::ops::Range;
use core::ptr::NonNull;

use nostall_work::FIRMWARE_DONE;

use super::cpus::MAX_CPUS;
use super::paging::{STACK_STRIDE, TRAP_STACK_STRIDE};
use super::{cpus, firmware, paging};
use crate::boot::{Boot, NoRam};
use crate::device_tree::{self as tree, memory};

global_asm!(
    ".set MAX_CPUS, {max}",
    ".set STACK_STRIDE, {stride}",
    ".set TRAP_STACK_STRIDE, {trap_stride}",
    include_str!("boot.s"),
    max = const MAX_CPUS,
    stride = const STACK_STRIDE,
    trap_stride = const TRAP_STACK_STRIDE,
);

/// Brings up the hart as the CPU with this number. On the first one, reads the device tree.
pub fn enter(hart: usize, number: usize, device_tree: usize) -> Option<Boot> {
    if number != 0 {
        paging::activate();
        return None;
    }
    // SAFETY: the boot protocol put the tree there, and since then only our own image was written.
    unsafe { tree::init(device_tree as *const u8) };
    cpus::init_first(hart);
    firmware::prints(FIRMWARE_DONE);
    paging::init();
    paging::activate();
    Some(Boot {
        command_line: tree::command_line(),
        input: memory::input(&paging::image(), paging::is_mapped),
    })
}

/// Returns the memory of `region`, in RAM that the machine may preserve when the kernel ends. The
/// addresses in `region` count from the start of RAM.
///
/// Otherwise, returns the reason: no RAM is there, or it is in use.
pub fn persistent_ram(region: Range<u64>) -> Result<(NonNull<u8>, usize), NoRam> {
    memory::persistent(region, &paging::image())
}

//! The values that the firmware passes at boot (SBI boot protocol).

use core::arch::global_asm;
use core::ops::Range;
use core::ptr::NonNull;
use core::slice;

use nostall_work::FIRMWARE_DONE;

use super::cpus::MAX_CPUS;
use super::paging::{STACK_STRIDE, TRAP_STACK_STRIDE};
use super::{cpus, paging, semihosting};
use crate::boot::{Boot, NoRam, overlap};
use crate::device_tree as tree;

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
    semihosting::firmware_prints(FIRMWARE_DONE);
    paging::init();
    paging::activate();
    Some(Boot {
        command_line: tree::command_line(),
        input: input(),
    })
}

/// Returns the initial RAM disk, empty if there is none.
fn input() -> &'static [u8] {
    let Some(range) = tree::initrd() else {
        return &[];
    };
    assert!(
        tree::ram_around(&range).is_some()
            && !overlap(&range, &paging::image())
            && [range.start, range.end - 1]
                .into_iter()
                .all(|end| paging::is_mapped(end as usize)),
        "the input, at {range:#x?}, is not in mapped RAM of its own"
    );
    // SAFETY: the firmware put it there, in RAM that is mapped at both ends. It is also mapped in
    // between, because the unmapped part is adjacent to our image or in it. It is never written: it
    // is not in our image, and `persistent_ram` excludes it.
    unsafe { slice::from_raw_parts(range.start as *const u8, (range.end - range.start) as usize) }
}

/// Returns the memory of `region`, in RAM that the machine may preserve when the kernel ends. The
/// addresses in `region` count from the start of RAM.
///
/// Otherwise, returns the reason: no RAM is there, or it is in use.
pub fn persistent_ram(region: Range<u64>) -> Result<(NonNull<u8>, usize), NoRam> {
    let ram = paging::ram();
    let region = ram.start + region.start..ram.start + region.end;
    let others = [Some(paging::image()), Some(tree::place()), tree::initrd()];
    let mut others = others.into_iter().flatten().chain(tree::reserved());
    let in_use = others.find(|other| overlap(&region, other));
    if region.end > ram.end || in_use.is_some() {
        return Err(NoRam { region, in_use });
    }
    let start = NonNull::new(region.start as *mut u8).expect("not null");
    Ok((start, (region.end - region.start) as usize))
}

//! What the firmware hands over, by the SBI's boot protocol.

use core::arch::global_asm;
use core::ops::Range;
use core::ptr::NonNull;
use core::slice;

use nostall_work::FIRMWARE_DONE;
use nostall_work::pstore::REGION;

use super::{cpus, paging, semihosting};
use crate::Boot;
use crate::device_tree as tree;
use crate::experiments::pstore::NoRam;

/// CPUs that there are stacks for.
pub const MAX_CPUS: usize = 64;
/// Bytes from one CPU's stack to the next, what is not mapped below it included. Reading a
/// card takes 28 KiB.
pub const STACK_STRIDE: usize = GUARD + (48 << 10);
/// The same of the stacks on which a CPU deals with exceptions and interrupts.
pub const TRAP_STACK_STRIDE: usize = GUARD + (16 << 10);
/// Bytes below each stack that are not mapped: more than a function has on the stack for
/// itself, 13 KiB at most so far. For RISC-V the compiler has no stack probes, without
/// which a larger one reaches over it.
pub const GUARD: usize = 16 << 10;

global_asm!(
    ".set MAX_CPUS, {max}",
    ".set STACK_STRIDE, {stride}",
    ".set TRAP_STACK_STRIDE, {trap_stride}",
    include_str!("boot.s"),
    max = const MAX_CPUS,
    stride = const STACK_STRIDE,
    trap_stride = const TRAP_STACK_STRIDE,
);

/// Every CPU comes here from boot.s, with the hart's id and its own number; the first one
/// with the device tree.
#[unsafe(no_mangle)]
extern "C" fn rust_entry(hart: usize, number: usize, device_tree: *const u8) -> ! {
    if number != 0 {
        paging::activate();
        cpus::idle();
    }
    // SAFETY: the boot protocol put it there, and nothing has been written since but our
    // own image.
    unsafe { tree::init(device_tree) };
    cpus::init_first(hart);
    semihosting::firmware_prints(FIRMWARE_DONE);
    paging::init();
    paging::activate();
    crate::main(&Boot {
        command_line: tree::command_line(),
        input: input(),
    })
}

/// The initial RAM disk, if there is one.
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
        "the input, at {range:#x?}, does not lie in RAM of its own that is mapped"
    );
    // SAFETY: the firmware put it there, in RAM that is mapped at both ends, and so between
    // them, for what is not mapped lies right before our image, or is part of it. Nobody
    // writes to it: not in our image, and see `persistent_ram`.
    unsafe { slice::from_raw_parts(range.start as *const u8, (range.end - range.start) as usize) }
}

/// The RAM that outlives the kernel if the machine keeps it: start and length.
///
/// Or why there is none: no RAM is there, or something else lies in it.
pub fn persistent_ram() -> Result<(NonNull<u8>, usize), NoRam> {
    let ram = paging::ram();
    let region = ram.start + REGION.start..ram.start + REGION.end;
    let others = [Some(paging::image()), Some(tree::place()), tree::initrd()];
    let mut others = others.into_iter().flatten().chain(tree::reserved());
    let in_use = others.find(|other| overlap(&region, other));
    if region.end > ram.end || in_use.is_some() {
        return Err(NoRam { region, in_use });
    }
    let start = NonNull::new(region.start as *mut u8).expect("not null");
    Ok((start, (region.end - region.start) as usize))
}

const fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

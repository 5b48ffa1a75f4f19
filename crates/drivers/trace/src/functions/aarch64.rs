//! Stubs of AArch64, and the instructions that call them.
//!
//! A function starts with two no-operations. They become `mov x9, x30` and `bl`: the call
//! overwrites `x30`, the function's return address, and `x9` is unused at a function's entry.

use core::arch::naked_asm;

use super::calls::{Kernel, entered, left};

/// Unit in which instructions are written.
pub(super) type Unit = u32;

/// Size of a site in bytes.
pub(super) const BYTES: usize = 8;

/// `nop`, twice.
pub(super) const OFF: [Unit; BYTES / 4] = [0xd503_201f; 2];

/// Returns the call of `stub` for the site at `site`; `None` if it is too far away.
pub(super) fn on(site: usize, stub: usize) -> Option<[Unit; BYTES / 4]> {
    const MOV_X9_X30: u32 = 0xaa1e_03e9;
    const BL: u32 = 0x9400_0000;
    const REACH: isize = 128 << 20;
    let offset = stub.wrapping_sub(site.wrapping_add(4)) as isize;
    (-REACH..REACH).contains(&offset).then_some(())?;
    Some([MOV_X9_X30, BL | (offset >> 2) as u32 & 0x03ff_ffff])
}

/// A CPU can be interrupted between two instructions of a site.
pub(super) const IS_DIVISIBLE: bool = true;

/// Entry stub, called first in each function. It preserves the registers of arguments, `x0` to
/// `x8`, and the callee's. `x9` to `x17` are unused at a function's entry (Procedure Call Standard
/// for AArch64, section 6.1.1). Floating-point registers are not saved, so the kernel must be built for a target
/// without them, such as `aarch64-unknown-none-softfloat`.
///
/// # Safety
///
/// Must not be called: only a patched site leads here.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn entry_stub<K: Kernel>() {
    naked_asm!(
        "sub sp, sp, #96",
        "stp x9, x30, [sp]", // the return address, which `entered` replaces, and the site's end
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "str x8, [sp, #80]",
        "sub x0, x30, #8",
        "mov x1, sp",
        "adrp x2, {trampoline}",
        "add x2, x2, :lo12:{trampoline}",
        "bl {entered}",
        "ldp x9, x10, [sp]",
        "ldp x0, x1, [sp, #16]",
        "ldp x2, x3, [sp, #32]",
        "ldp x4, x5, [sp, #48]",
        "ldp x6, x7, [sp, #64]",
        "ldr x8, [sp, #80]",
        "add sp, sp, #96",
        "mov x30, x9",
        "br x10",
        entered = sym entered::<K>,
        trampoline = sym return_trampoline::<K>,
    )
}

/// Trampoline to which a recorded function returns. It preserves the integer registers of results.
///
/// # Safety
///
/// Must not be called: only a recorded function leads here.
#[unsafe(naked)]
unsafe extern "C" fn return_trampoline<K: Kernel>() {
    naked_asm!(
        "sub sp, sp, #80",
        "stp x0, x1, [sp]",
        "stp x2, x3, [sp, #16]",
        "stp x4, x5, [sp, #32]",
        "stp x6, x7, [sp, #48]",
        "str x8, [sp, #64]",
        "bl {left}",
        "mov x30, x0",
        "ldp x0, x1, [sp]",
        "ldp x2, x3, [sp, #16]",
        "ldp x4, x5, [sp, #32]",
        "ldp x6, x7, [sp, #48]",
        "ldr x8, [sp, #64]",
        "add sp, sp, #80",
        "ret",
        left = sym left::<K>,
    )
}

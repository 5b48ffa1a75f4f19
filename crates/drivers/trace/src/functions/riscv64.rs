//! Stubs of RISC-V, and the instructions that call them.
//!
//! A function starts with four compressed no-operations. They become `auipc` and `jalr` with the
//! link register `t0`, because `ra` holds the function's return address.

use core::arch::naked_asm;

use super::calls::{Kernel, entered, left};

/// Unit in which instructions are written, because a function may start between two words.
pub(super) type Unit = u16;

/// Size of a site in bytes.
pub(super) const BYTES: usize = 8;

/// `c.nop`, four times.
pub(super) const OFF: [Unit; BYTES / 2] = [0x0001; 4];

/// Returns the call of `stub` for the site at `site`; `None` if it is too far away.
pub(super) fn on(site: usize, stub: usize) -> Option<[Unit; BYTES / 2]> {
    const AUIPC_T0: u32 = 0x297;
    const JALR_T0_T0: u32 = 0x282e7;
    let offset = i32::try_from(stub.wrapping_sub(site) as isize).ok()?;
    // `jalr` adds the low 12 bits with their sign.
    let high = offset.checked_add(0x800)? as u32 & !0xfff;
    let low = (offset as u32).wrapping_sub(high) << 20;
    let (auipc, jalr) = (AUIPC_T0 | high, JALR_T0_T0 | low);
    Some([
        auipc as u16,
        (auipc >> 16) as u16,
        jalr as u16,
        (jalr >> 16) as u16,
    ])
}

/// A CPU can be interrupted between two instructions of a site.
pub(super) const IS_DIVISIBLE: bool = true;

/// Entry stub, called first in each function. It preserves every integer register except `t0`,
/// which is unused at a function's entry. Floating-point registers are not saved.
///
/// # Safety
///
/// Must not be called: only a patched site leads here.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn entry_stub<K: Kernel>() {
    naked_asm!(
        "addi sp, sp, -128",
        "sd ra, 0(sp)",
        "sd t0, 8(sp)",
        "sd a0, 16(sp)",
        "sd a1, 24(sp)",
        "sd a2, 32(sp)",
        "sd a3, 40(sp)",
        "sd a4, 48(sp)",
        "sd a5, 56(sp)",
        "sd a6, 64(sp)",
        "sd a7, 72(sp)",
        "sd t1, 80(sp)",
        "sd t2, 88(sp)",
        "sd t3, 96(sp)",
        "sd t4, 104(sp)",
        "sd t5, 112(sp)",
        "sd t6, 120(sp)",
        "addi a0, t0, -8",
        "mv a1, sp",
        "lla a2, {trampoline}",
        "call {entered}",
        "ld ra, 0(sp)",
        "ld t0, 8(sp)",
        "ld a0, 16(sp)",
        "ld a1, 24(sp)",
        "ld a2, 32(sp)",
        "ld a3, 40(sp)",
        "ld a4, 48(sp)",
        "ld a5, 56(sp)",
        "ld a6, 64(sp)",
        "ld a7, 72(sp)",
        "ld t1, 80(sp)",
        "ld t2, 88(sp)",
        "ld t3, 96(sp)",
        "ld t4, 104(sp)",
        "ld t5, 112(sp)",
        "ld t6, 120(sp)",
        "addi sp, sp, 128",
        "jr t0",
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
        "addi sp, sp, -64",
        "sd a0, 0(sp)",
        "sd a1, 8(sp)",
        "sd a2, 16(sp)",
        "sd a3, 24(sp)",
        "sd a4, 32(sp)",
        "sd a5, 40(sp)",
        "sd a6, 48(sp)",
        "sd a7, 56(sp)",
        "call {left}",
        "mv ra, a0",
        "ld a0, 0(sp)",
        "ld a1, 8(sp)",
        "ld a2, 16(sp)",
        "ld a3, 24(sp)",
        "ld a4, 32(sp)",
        "ld a5, 40(sp)",
        "ld a6, 48(sp)",
        "ld a7, 56(sp)",
        "addi sp, sp, 64",
        "ret",
        left = sym left::<K>,
    )
}

//! Stubs of x86-64, and the instructions that call them.
//!
//! A function starts with a no-operation of 5 bytes, which becomes a relative call.

use core::arch::naked_asm;

use super::calls::{Kernel, entered, left};

/// Unit in which instructions are written.
pub(super) type Unit = u8;

/// Size of a site in bytes.
pub(super) const BYTES: usize = 5;

/// `nopl 8(%rax,%rax,1)` (Intel SDM volume 2, table "Recommended Multi-Byte Sequence of NOP
/// Instruction").
pub(super) const OFF: [Unit; BYTES] = [0x0f, 0x1f, 0x44, 0x00, 0x08];

/// Returns the call of `stub` for the site at `site`; `None` if it is too far away.
pub(super) fn on(site: usize, stub: usize) -> Option<[Unit; BYTES]> {
    let offset = stub.wrapping_sub(site + BYTES) as isize;
    let [a, b, c, d] = i32::try_from(offset).ok()?.to_le_bytes();
    Some([0xe8, a, b, c, d])
}

/// A site is one instruction: no CPU can be inside it.
pub(super) const IS_DIVISIBLE: bool = false;

/// Entry stub, called first in each function. It preserves every integer register. Vector registers
/// are not saved.
///
/// # Safety
///
/// Must not be called: only a patched site leads here.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn entry_stub<K: Kernel>() {
    // The caller aligned the stack to 16 bytes before its call. Two return addresses, nine
    // registers and 8 bytes keep the alignment.
    naked_asm!(
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "sub rsp, 8",
        "mov rdi, [rsp + 80]",
        "sub rdi, 5",
        "lea rsi, [rsp + 88]",
        "lea rdx, [rip + {trampoline}]",
        "call {entered}",
        "add rsp, 8",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "ret",
        entered = sym entered::<K>,
        trampoline = sym return_trampoline::<K>,
    )
}

/// Trampoline to which a recorded function returns. It preserves every integer register. Vector
/// registers are not saved.
///
/// # Safety
///
/// Must not be called: only a recorded function leads here.
#[unsafe(naked)]
unsafe extern "C" fn return_trampoline<K: Kernel>() {
    naked_asm!(
        // Room for the return address.
        "sub rsp, 8",
        "push rax",
        "push rcx",
        "push rdx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "call {left}",
        "mov [rsp + 72], rax",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rdx",
        "pop rcx",
        "pop rax",
        "ret",
        left = sym left::<K>,
    )
}

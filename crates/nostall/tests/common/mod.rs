//! What the tests that need QEMU share.

use std::io::Write;

use nostall_vm::qemu::{Architecture, Qemu, QemuBoard};

/// The system's QEMU. Without one the test is skipped, which is said where it
/// can be seen; with `NOSTALL_REQUIRE_QEMU` set it fails.
#[allow(dead_code, reason = "not every test runs a PC")]
pub fn qemu(test: &str) -> Option<Qemu> {
    qemu_for(test, QemuBoard::Q35)
}

/// The same for any machine, for which the command has to have been built with a kernel.
pub fn qemu_for(test: &str, machine: QemuBoard) -> Option<Qemu> {
    let kernel: &[u8] = match machine.architecture() {
        Architecture::X86_64 => include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL")),
        Architecture::Riscv64 => include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL_RISCV64")),
    };
    let error = match Qemu::find(machine) {
        Ok(_) if kernel.is_empty() => format!("no kernel for {machine} was built: make setup"),
        Ok(qemu) => return Some(qemu),
        Err(error) => error.to_string(),
    };
    assert!(
        std::env::var_os("NOSTALL_REQUIRE_QEMU").is_none(),
        "{test}: {error}"
    );
    // Not by a macro of std: the test harness would swallow it.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {error}");
    None
}

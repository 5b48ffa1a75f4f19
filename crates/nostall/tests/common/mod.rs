//! What the tests that need QEMU share.

use std::io::Write;

use nostall_vm::qemu::{Machine, Qemu};

/// The system's QEMU. Without one the test is skipped, which is said where it
/// can be seen; with `NOSTALL_REQUIRE_QEMU` set it fails.
#[allow(dead_code, reason = "not every test runs a PC")]
pub fn qemu(test: &str) -> Option<Qemu> {
    qemu_for(test, Machine::Q35)
}

/// The same for any machine.
pub fn qemu_for(test: &str, machine: Machine) -> Option<Qemu> {
    match Qemu::find(machine) {
        Ok(qemu) => Some(qemu),
        Err(error) if std::env::var_os("NOSTALL_REQUIRE_QEMU").is_some() => {
            panic!("{test}: {error}")
        }
        Err(error) => {
            // Not by a macro of std: the test harness would swallow it.
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {error}");
            None
        }
    }
}

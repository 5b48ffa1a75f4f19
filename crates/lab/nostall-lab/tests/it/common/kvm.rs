//! Helpers that the tests with KVM share.

use std::io::Write;

use nostall_vm::kvm::{Kvm, Options};

/// Returns the host's KVM, if it supports `options`. Without it the test prints that it is
/// skipped, and fails if `NOSTALL_REQUIRE_KVM` is set.
pub fn kvm_with(test: &str, options: Options) -> Option<Kvm> {
    match Kvm::find(options) {
        Ok(kvm) if kvm.options() == options => return Some(kvm),
        Ok(kvm) => skip(test, &kvm.notes().join("; ")),
        Err(error) => skip(test, &error.to_string()),
    }
    None
}

/// Prints that a test is skipped, and the missing requirement.
pub fn skip(test: &str, missing: &str) {
    let required = std::env::var_os("NOSTALL_REQUIRE_KVM").is_some();
    assert!(!required, "{test}: {missing}");
    // The test harness captures the output of std's macros, so they are not used here.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {missing}");
}

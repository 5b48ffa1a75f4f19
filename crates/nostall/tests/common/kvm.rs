//! What the tests that need KVM share.

use std::io::Write;

use nostall_vm::kvm::{Kvm, Options};

/// The host's KVM, if it can do all of `options`. Without one the test is skipped,
/// which is said where it can be seen; with `NOSTALL_REQUIRE_KVM` set it fails.
pub fn kvm_with(test: &str, options: Options) -> Option<Kvm> {
    match Kvm::find(options) {
        Ok(kvm) if kvm.options() == options => return Some(kvm),
        Ok(kvm) => skip(test, &kvm.notes().join("; ")),
        Err(error) => skip(test, &error.to_string()),
    }
    None
}

/// Says that a test is skipped, and what is missing for it.
pub fn skip(test: &str, missing: &str) {
    let required = std::env::var_os("NOSTALL_REQUIRE_KVM").is_some();
    assert!(!required, "{test}: {missing}");
    // Not by a macro of std: the test harness would swallow it.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {missing}");
}

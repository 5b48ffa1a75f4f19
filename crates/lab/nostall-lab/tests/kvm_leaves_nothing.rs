//! A test in a process of its own, so that all threads, files and mappings are one run's.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "it/common/pauses.rs"]
mod pauses;

use std::fs;
use std::io::Write;
use std::time::Duration;

use nostall_vm::kvm::{Kvm, Options, PciMode, UartMode};
use nostall_vm::{Ending, Error, Guest, Limits, Machine as _};
use nostall_work::Failure;
use pauses::pause_until;

static KERNEL: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL"));

/// Counts threads that run a CPU, open files, and KVM's mappings.
fn held() -> (usize, usize, usize) {
    let entries = |dir: &str| fs::read_dir(dir).unwrap().flatten();
    let comm = |path: std::path::PathBuf| fs::read_to_string(path.join("comm"));
    let cpus = entries("/proc/self/task").filter(|task| {
        // A thread that has just ended has no name.
        comm(task.path()).is_ok_and(|name| name.trim() == "vcpu")
    });
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let mappings = maps.lines().filter(|line| line.contains("kvm-vcpu"));
    (
        cpus.count(),
        entries("/proc/self/fd").count(),
        mappings.count(),
    )
}

#[test]
fn a_guest_that_had_to_be_ended_leaves_nothing_behind() {
    let options = Options {
        uart: UartMode::MmioReadonly,
        pci: PciMode::EcamShadow,
    };
    let kvm = match Kvm::find(options) {
        Ok(kvm) => kvm,
        Err(error) => {
            let required = std::env::var_os("NOSTALL_REQUIRE_KVM").is_some();
            assert!(!required, "{error}");
            let _ = writeln!(std::io::stderr(), "SKIPPED leaves_nothing_behind: {error}");
            return;
        }
    };
    let before = held();
    let limits = Limits {
        silence: Duration::from_secs(1),
        ..Limits::of(1, 100)
    };
    let guest = Guest {
        kernel: KERNEL,
        cpus: 1,
        work: &[Failure::Hang.into()],
        repeat: 1,
        input: b"input",
        ram: None,
        flash: None,
        qemu_args: &[],
    };
    let mut while_it_ran = before;
    let error = kvm
        .run(&guest, &limits, Ending::Done, &mut |_| {
            while_it_ran = held()
        })
        .unwrap_err();
    assert!(matches!(error, Error::Hung(_)), "{error}");
    assert!(while_it_ran.0 == 1 && while_it_ran.1 > before.1 && while_it_ran.2 > 0);
    // A joined thread stays in the list for a moment.
    pause_until(|| held() == before);
    assert_eq!(held(), before);
}

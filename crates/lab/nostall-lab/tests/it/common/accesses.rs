//! Accesses to the serial port, as QEMU and the guest count them.

use std::ffi::OsString;
use std::fs;

use nostall_lab::experiments::uart::run::{UartPlan, run};
use nostall_uart::Strategy;
use nostall_vm::qemu::{Guest, Qemu};
use nostall_work::uart::{Driver, Job, Writes};

/// Returns the accesses in QEMU's own trace of its serial port, for `repeat` transmissions, and
/// those that the driver counts.
fn traced(
    qemu: &Qemu,
    guest: &Guest<'_>,
    strategy: Strategy,
    repeat: u16,
    text: &[u8],
) -> (u64, u64) {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("trace");
    let args = ["-trace", "serial_read", "-trace", "serial_write", "-D"].map(OsString::from);
    let args: Vec<_> = args.into_iter().chain([log.clone().into()]).collect();
    let guest = Guest {
        qemu_args: &args,
        ..*guest
    };
    let job = Job {
        driver: Driver::Ours(strategy),
        writes: Writes::Lines,
    };
    let plan = UartPlan {
        jobs: &[job],
        repeat,
        text,
    };
    let (sendings, _) = run(qemu, &guest, &plan, &mut |_| {}).unwrap();
    let seen = fs::read_to_string(&log).unwrap().lines().count();
    (seen as u64, sendings[0].sent.bus_accesses)
}

/// Checks the count of each strategy.
pub fn are_the_ones_that_qemu_sees(qemu: &Qemu, guest: &Guest<'_>) {
    let text = b"[    0.000000] sixty-three bytes and a newline, many times over\n".repeat(10);
    for strategy in Strategy::ALL {
        // One transmission more, all else alike, a firmware's output included.
        let (once, counted) = traced(qemu, guest, strategy, 1, &text);
        let (twice, _) = traced(qemu, guest, strategy, 2, &text);
        assert_eq!(twice - once, counted, "{strategy}");
    }
}

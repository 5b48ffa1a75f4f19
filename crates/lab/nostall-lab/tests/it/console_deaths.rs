//! Kernels that crash during a flood in QEMU, in every way, and the records that they leave.

use crate::common::flood;
use crate::common::frozen;

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread::{self, sleep};
use std::time::Duration;

use crate::common::pauses::pause_until;
use crate::common::qemu;
use flood::{decoded, log};
use frozen::Machine;
use nostall_devices::uart::Profile;
use nostall_io::Nanos;
use nostall_lab::experiments::console::outcome::{COUNTED_DELAY, COUNTED_LINE_USE, FloodPlan};
use nostall_lab::experiments::console::qemu as in_qemu;
use nostall_vm::qemu::{Error, Guest};
use nostall_work::console::{LAST_WORDS, PrintStrategy};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

static KERNEL: &[u8] = include_bytes!(env!("NOSTALL_EMBEDDED_KERNEL"));

/// Returns the kernel with these arguments. An experiment sets the rest.
const fn guest(qemu_args: &[OsString]) -> Guest<'_> {
    Guest {
        kernel: KERNEL,
        cpus: 3,
        work: &[],
        repeat: 1,
        input: &[],
        ram: None,
        flash: None,
        qemu_args,
    }
}

const fn plan(log: &[u8], panic_at: Option<Nanos>) -> FloodPlan<'_> {
    FloodPlan {
        log,
        profile: Profile::PC_16550A,
        rate: 115_200,
        cpus: 3,
        panic_at,
    }
}

#[test]
fn the_kernels_own_console_prints_from_timer_interrupts_and_in_a_panic() {
    if let Some(qemu) = qemu("the_kernels_own_console") {
        flood::prints_its_own_log(&qemu, KERNEL);
    }
}

/// Floods of which two must be the same. On an idle host, the first two are.
///
/// QEMU's main loop moves the clock of a machine whose CPUs all halt. It may do so before the
/// instructions of the last CPU's turn are counted, if the host runs it just then. From there on,
/// that flood differs. No two floods that depend on the host's time in another way are the same: an
/// outcome has some hundred times in nanoseconds.
const FLOODS: usize = 10;

#[test]
fn by_a_clock_that_counts_instructions_a_flood_is_repeated_to_the_nanosecond() {
    let Some(qemu) = qemu("by_a_clock_that_counts_instructions") else {
        return;
    };
    let args = ["-icount", "shift=5,sleep=off"].map(OsString::from);
    let log = log(40);
    let panic_at = Some(Nanos::from_millis(150));
    for (strategy, panic_at) in [
        (PrintStrategy::Bounded, None),
        (PrintStrategy::Bounded, panic_at),
        (PrintStrategy::PrintInline, panic_at),
    ] {
        let flood = || {
            let plan = plan(log.as_bytes(), panic_at);
            let outcome = in_qemu::run(&qemu, &guest(&args), &plan, 1, strategy);
            format!("{:#?}", outcome.unwrap())
        };
        let mut seen = HashSet::new();
        let is_repeated = (0..FLOODS).any(|_| !seen.insert(flood()));
        assert!(is_repeated, "{strategy}: {FLOODS} floods, all different");
    }
}

#[test]
fn by_a_clock_that_counts_instructions_a_flood_delays_no_caller_and_keeps_the_line_busy() {
    let Some(qemu) = qemu("by_a_clock_that_counts_instructions_a_flood_delays") else {
        return;
    };
    let args = ["-icount", "shift=5,sleep=off"].map(OsString::from);
    let log = log(40);
    let flood = |cpus| {
        let plan = FloodPlan {
            cpus,
            ..plan(log.as_bytes(), None)
        };
        in_qemu::run(&qemu, &guest(&args), &plan, 1, PrintStrategy::Bounded).unwrap()
    };
    let alone = flood(1);
    assert!(alone.delay(1000) <= COUNTED_DELAY, "{:?}", alone.delays);
    assert!(alone.line_use() >= COUNTED_LINE_USE, "{}", alone.line_use());
    // QEMU runs one CPU after the other, so a slice may have their turns in it. The line makes up
    // for it: the driver does not take the pause for the port's time.
    let together = flood(3);
    assert!(together.line_use() >= 0.95, "{}", together.line_use());
}

#[test]
fn a_machine_that_dies_in_mid_flood_is_an_error_and_not_waited_for() {
    let Some(qemu) = qemu("a_machine_that_dies_in_mid_flood") else {
        return;
    };
    // The line needs 13 s for this log.
    let log = log(2_000);
    let (tell, result) = mpsc::channel();
    thread::scope(|scope| {
        let flood = scope.spawn(|| {
            tell.send(fs::read_link("/proc/thread-self").unwrap())
                .unwrap();
            let plan = plan(log.as_bytes(), None);
            in_qemu::run(&qemu, &guest(&[]), &plan, 1, PrintStrategy::Bounded)
        });
        let children = Path::new("/proc")
            .join(result.recv().unwrap())
            .join("children");
        let child = || fs::read_to_string(&children).unwrap();
        assert!(pause_until(|| !child().is_empty()), "no QEMU");
        // If the flood has not begun by then, the kill still ends the machine.
        sleep(Duration::from_secs(2));
        let child = Pid::from_raw(child().trim().parse().unwrap()).unwrap();
        kill_process(child, Signal::KILL).unwrap();
        let error = flood.join().unwrap();
        assert!(matches!(error, Err(Error::Qemu { .. })), "{error:?}");
    });
}

#[test]
fn whichever_way_a_kernel_dies_its_log_is_in_persistent_ram() {
    if let Some(qemu) = qemu("whichever_way_a_kernel_dies") {
        flood::dies_in_every_way(&qemu, KERNEL);
    }
}

#[test]
fn a_panic_on_a_port_that_is_stuck_ends_and_leaves_its_record() {
    if qemu("a_panic_on_a_port_that_is_stuck").is_none() {
        return;
    }
    /// The capacity of a pipe, and the part of it that stays free.
    const HOLDS: usize = 64 << 10;
    const LEFT: usize = 4 << 10;
    let dir = TempDir::new().unwrap();
    let pipe = dir.path().join("serial");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    // Opened for reading and writing, so that opening does not wait for the other end. The pipe
    // is never read.
    let mut pipe = File::options().read(true).write(true).open(&pipe).unwrap();
    pipe.write_all(&[b'.'; HOLDS - LEFT]).unwrap();
    let words = "repeat=1 console:bounded:115200:1:panic-at:900";
    // A panic's flush gives up after 10 s.
    let status = Machine::start(dir.path(), words, log(400).as_bytes()).wait();
    assert_eq!(status.code(), Some(35), "by the kernel's word");
    let reports = fs::read_to_string(dir.path().join("reports")).unwrap();
    let arrived = reports.matches(r#"{"arrived":["#).count();
    assert!(
        arrived * 48 < 2 * LEFT,
        "the port was stuck: {arrived} reports"
    );
    let log = decoded(dir.path(), "ram");
    assert!(log.contains(LAST_WORDS), "{log}");
}

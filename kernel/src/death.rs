//! End of a kernel that crashes: its log, its last report, and the machine's end.

use core::sync::atomic::{AtomicUsize, Ordering};

use nostall_io::{Clock, Nanos, Processor};
use nostall_work::Event;

use crate::arch::{self, Cpu};
use crate::experiments::pstore;
use crate::{cpu, report};

/// Number of the CPU that crashed first, plus 1; 0 before a crash.
static DYING: AtomicUsize = AtomicUsize::new(0);

/// Saves the log in persistent RAM when the kernel crashes. The console's output comes before this,
/// and every report after it.
///
/// A CPU that crashes again while it saves keeps the partial log. Any other CPU waits until the
/// first one ends the machine. The wait is bounded, because the first CPU may be stuck here.
pub fn leave_record() {
    let me = Cpu.id() + 1;
    // A handler in between could print for seconds, or crash.
    Cpu.without_interrupts(|| {
        match DYING.compare_exchange(0, me, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => pstore::last_words(),
            Err(first) if first == me => {}
            Err(_) => wait_for_the_end(),
        }
    });
}

/// Waits until the first CPU ends the machine. The bound is a time: a poll is short on a CPU
/// without a relax instruction, and the host may delay the first CPU.
fn wait_for_the_end() {
    /// More than the duration of the record and the reports, even on a busy host.
    const TIMEOUT: Nanos = Nanos::from_secs(10);
    /// Bound for a stopped clock: more polls than fit into that time.
    const POLLS: u32 = u32::MAX;

    // Without a clock, no record is written that this CPU could wait for.
    let Some(clock) = cpu::clock() else { return };
    let deadline = clock.now() + TIMEOUT;
    for _ in 0..POLLS {
        if clock.now() >= deadline {
            return;
        }
        Cpu.relax();
    }
}

/// Ends the machine after a crash. The reason is already in the log.
pub fn die(report: &Event) -> ! {
    leave_record();
    report::last_words(report);
    arch::end(arch::Ending::Failure)
}

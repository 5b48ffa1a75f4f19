//! End of a kernel that crashes: its log, its last report, and the machine's end.

use core::sync::atomic::{AtomicUsize, Ordering};

use nostall_io::{Clock, Nanos, Processor};
use nostall_work::Event;

use crate::arch::{self, Cpu};
use crate::experiments::pstore;
use crate::{cpu, report};

/// The CPU that crashes first, plus 1.
static DYING: AtomicUsize = AtomicUsize::new(0);

/// Saves the log in persistent RAM, because the kernel crashes. The console comes before
/// this, every report after it.
///
/// A CPU that crashes while saving keeps the partial log. Another CPU waits for the first
/// one to end the machine, in bounded time, because that CPU may have crashed here.
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
    /// Longer than the record and the reports take, on a busy host too.
    const TIMEOUT: Nanos = Nanos::from_secs(10);
    /// Bound for a clock that has stopped: more polls than fit into that time.
    const POLLS: u32 = u32::MAX;

    // Without a clock there is no record to wait for either.
    let Some(clock) = cpu::clock() else { return };
    let deadline = clock.now() + TIMEOUT;
    for _ in 0..POLLS {
        if clock.now() >= deadline {
            return;
        }
        Cpu.relax();
    }
}

/// Ends the machine after a crash whose reason is in the log.
pub fn die(report: &Event) -> ! {
    leave_record();
    report::last_words(report);
    arch::end(arch::Ending::Failure)
}

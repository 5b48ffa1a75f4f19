//! Critical sections of all CPUs, for crates that need them (`critical-section`).

use core::sync::atomic::{AtomicUsize, Ordering};

use critical_section::{Impl, RawRestoreState, set_impl};
use nostall_io::Processor;
use riscv::interrupt::supervisor as interrupt;
use riscv::register::sstatus;

use super::Cpu;

/// The number of the CPU that is in a critical section, plus 1; or 0.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// Sections that it is in. Changed by that CPU alone.
static DEPTH: AtomicUsize = AtomicUsize::new(0);

struct AllCpus;
set_impl!(AllCpus);

// SAFETY: between `acquire` and `release` the CPU takes no interrupts, and has set `OWNER`,
// for which every other CPU waits.
unsafe impl Impl for AllCpus {
    unsafe fn acquire() -> RawRestoreState {
        let enabled = sstatus::read().sie();
        interrupt::disable();
        let own = Cpu.id() + 1;
        if OWNER.load(Ordering::Relaxed) != own {
            while OWNER
                .compare_exchange_weak(0, own, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
            {
                Cpu.relax();
            }
        }
        DEPTH.fetch_add(1, Ordering::Relaxed);
        enabled
    }

    unsafe fn release(enabled: RawRestoreState) {
        if DEPTH.fetch_sub(1, Ordering::Relaxed) == 1 {
            OWNER.store(0, Ordering::Release);
        }
        if enabled {
            // SAFETY: they were enabled before the section.
            unsafe { interrupt::enable() };
        }
    }
}

//! Critical sections across all CPUs, for crates that use `critical-section`.

use core::sync::atomic::{AtomicUsize, Ordering};

use critical_section::{Impl, RawRestoreState, set_impl};
use nostall_io::Processor;
use riscv::interrupt::supervisor as interrupt;
use riscv::register::sstatus;

use super::Cpu;

/// Number of the CPU in a critical section, plus 1; 0 without one.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// Nesting depth of the section. Only the owner changes it.
static DEPTH: AtomicUsize = AtomicUsize::new(0);

struct AllCpus;
set_impl!(AllCpus);

// SAFETY: between `acquire` and `release` the CPU takes no interrupts, and `OWNER` keeps all other
// CPUs out.
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
            // SAFETY: interrupts were enabled before the section.
            unsafe { interrupt::enable() };
        }
    }
}

//! Atomics that count operations, and stop or interrupt the caller after a given number.

use std::cell::{Cell, RefCell};

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::Ordering;

use nostall_io::Nanos;

pub(crate) const STILL: Nanos = Nanos::from_micros(1);

thread_local! {
    /// Number of operations until death.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    /// The interrupt that runs instead of a death.
    static INTERRUPT: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// Runs `act` for at most `steps` atomic operations. Returns whether it completed.
pub(crate) fn only(steps: usize, act: impl FnOnce()) -> bool {
    LEFT.set(steps);
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_ok();
    LEFT.set(usize::MAX);
    ended
}

/// Runs `act`, and `interrupt` after `steps` of its atomic operations. Returns whether `act` had
/// more operations.
pub(crate) fn interrupted(steps: usize, interrupt: impl FnOnce(), act: impl FnOnce()) -> bool {
    let interrupt: Box<dyn FnOnce() + '_> = Box::new(interrupt);
    // SAFETY: the closure is run or dropped below, while its borrows are alive. If `act` panics,
    // the test has failed, and the closure never runs.
    let interrupt =
        unsafe { std::mem::transmute::<Box<dyn FnOnce() + '_>, Box<dyn FnOnce()>>(interrupt) };
    INTERRUPT.set(Some(interrupt));
    LEFT.set(steps);
    act();
    LEFT.set(usize::MAX);
    INTERRUPT.take().is_none()
}

/// Counts an operation. After death it returns `false`, even during unwinding.
fn step() -> bool {
    if LEFT.get() == 0
        && let Some(interrupt) = INTERRUPT.take()
    {
        LEFT.set(usize::MAX);
        interrupt();
        return true;
    }
    match LEFT.get() {
        0 if std::thread::panicking() => false,
        0 => std::panic::resume_unwind(Box::new(())),
        left => {
            LEFT.set(left - 1);
            true
        }
    }
}

pub(crate) fn fence(order: Ordering) {
    std::sync::atomic::fence(order);
}

#[derive(Debug)]
#[repr(transparent)]
pub struct AtomicUsize(std::sync::atomic::AtomicUsize);

impl AtomicUsize {
    pub(crate) const fn new(value: usize) -> Self {
        Self(std::sync::atomic::AtomicUsize::new(value))
    }
    pub(crate) fn load(&self, order: Ordering) -> usize {
        step();
        self.0.load(order)
    }
    pub(crate) fn store(&self, value: usize, order: Ordering) {
        if step() {
            self.0.store(value, order);
        }
    }
    pub(crate) fn swap(&self, value: usize, order: Ordering) -> usize {
        if step() { self.0.swap(value, order) } else { 0 }
    }
    pub(crate) fn fetch_add(&self, value: usize, order: Ordering) -> usize {
        if step() {
            self.0.fetch_add(value, order)
        } else {
            0
        }
    }
    pub(crate) fn compare_exchange(
        &self,
        old: usize,
        new: usize,
        success: Ordering,
        failure: Ordering,
    ) -> Result<usize, usize> {
        if step() {
            self.0.compare_exchange(old, new, success, failure)
        } else {
            Err(0)
        }
    }
}

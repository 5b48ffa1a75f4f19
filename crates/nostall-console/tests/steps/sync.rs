//! Atomics that count, and stop or interrupt a context after so many operations.

use std::cell::{Cell, RefCell};

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::atomic::Ordering;

use nostall_io::Nanos;

pub(crate) const STILL: Nanos = Nanos::from_micros(1);

thread_local! {
    /// Operations until death.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    /// What happens then instead.
    static INTERRUPT: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// Does so many atomic operations of `act`, and then no more; whether it came to
/// its end.
pub(crate) fn only(steps: usize, act: impl FnOnce()) -> bool {
    LEFT.set(steps);
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).is_ok();
    LEFT.set(usize::MAX);
    ended
}

/// Does `act`, and `interrupt` before its atomic operation after so many; whether it had
/// as many.
pub(crate) fn interrupted(steps: usize, interrupt: impl FnOnce(), act: impl FnOnce()) -> bool {
    let interrupt: Box<dyn FnOnce() + '_> = Box::new(interrupt);
    // SAFETY: it is run or dropped below, before what it borrows is gone; if `act`
    // panics, the test has failed, and never runs it.
    let interrupt =
        unsafe { std::mem::transmute::<Box<dyn FnOnce() + '_>, Box<dyn FnOnce()>>(interrupt) };
    INTERRUPT.set(Some(interrupt));
    LEFT.set(steps);
    act();
    LEFT.set(usize::MAX);
    INTERRUPT.take().is_none()
}

/// The dead do nothing, not even while they unwind.
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

//! Interface of a driver to the CPU that it runs on.

/// The CPU that runs this code.
///
/// The kernel implements it, because only the kernel defines CPU numbers and the masking of
/// interrupts.
pub trait Processor {
    /// Returns this CPU's number, counted from 0 without gaps.
    fn id(&self) -> usize;

    /// Runs `critical` with interrupts masked on this CPU, and restores the previous mask. Calls
    /// may be nested.
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T;

    /// Informs the CPU of a wait loop.
    fn relax(&self) {
        core::hint::spin_loop();
    }
}

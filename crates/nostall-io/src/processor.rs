//! A driver's interface to the CPU that it runs on.

/// The CPU that runs this code.
///
/// Implemented by the kernel, which alone knows how its CPUs are numbered and
/// what else must happen when interrupts are masked.
pub trait Processor {
    /// This CPU's number, counted from 0 without gaps.
    fn id(&self) -> usize;

    /// Runs `critical` with interrupts masked on this CPU, and puts the mask
    /// back as it was. Nests.
    fn without_interrupts<T>(&self, critical: impl FnOnce() -> T) -> T;

    /// Tells the CPU that it is in a wait loop.
    fn relax(&self) {
        core::hint::spin_loop();
    }
}

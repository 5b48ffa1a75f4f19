//! A 64-bit word that several CPUs read and write. A load acquires what the store released.

#[cfg(target_has_atomic = "64")]
#[derive(Debug)]
pub(crate) struct Wide(core::sync::atomic::AtomicU64);

#[cfg(target_has_atomic = "64")]
impl Wide {
    pub(crate) const fn new(value: u64) -> Self {
        Self(core::sync::atomic::AtomicU64::new(value))
    }
    #[inline]
    pub(crate) fn load(&self) -> u64 {
        self.0.load(core::sync::atomic::Ordering::Acquire)
    }
    #[inline]
    pub(crate) fn store(&self, value: u64) {
        self.0.store(value, core::sync::atomic::Ordering::Release);
    }
    /// Adds a value and returns the sum.
    #[cfg(feature = "stall-hook")]
    pub(crate) fn add(&self, more: u64) -> u64 {
        let before = self
            .0
            .fetch_add(more, core::sync::atomic::Ordering::Relaxed);
        before.wrapping_add(more)
    }
}

/// Stored in halves: two CPUs must not write concurrently.
#[cfg(not(target_has_atomic = "64"))]
#[derive(Debug)]
pub(crate) struct Wide([core::sync::atomic::AtomicU32; 2]);

#[cfg(not(target_has_atomic = "64"))]
impl Wide {
    pub(crate) const fn new(value: u64) -> Self {
        use core::sync::atomic::AtomicU32;
        Self([
            AtomicU32::new(value as u32),
            AtomicU32::new((value >> 32) as u32),
        ])
    }
    pub(crate) fn load(&self) -> u64 {
        use core::sync::atomic::Ordering;
        let high = self.0[1].load(Ordering::Acquire);
        u64::from(high) << 32 | u64::from(self.0[0].load(Ordering::Relaxed))
    }
    pub(crate) fn store(&self, value: u64) {
        use core::sync::atomic::Ordering;
        self.0[0].store(value as u32, Ordering::Relaxed);
        self.0[1].store((value >> 32) as u32, Ordering::Release);
    }
    /// Adds a value and returns the sum. A handler's addition between the two accesses is lost.
    #[cfg(feature = "stall-hook")]
    pub(crate) fn add(&self, more: u64) -> u64 {
        let sum = self.load().wrapping_add(more);
        self.store(sum);
        sum
    }
}

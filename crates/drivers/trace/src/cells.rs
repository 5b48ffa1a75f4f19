//! Words of a zone, as accessed by its writer.

use core::marker::PhantomData;
use core::ptr::NonNull;

/// Words of 64 bits of one zone. The zone's CPU writes them; every CPU may read them.
///
/// Tests replace this with words that a handler interrupts, that another thread reads, or whose
/// stores are cut.
pub(crate) trait Cells {
    /// Reads a word. Other words may be read or written before it.
    fn get(&self, word: usize) -> u64;

    /// Writes a word that only this CPU reads while it records.
    fn set(&self, word: usize, value: u64);

    /// Writes a word after every write before it.
    fn publish(&self, word: usize, value: u64);

    /// Replaces the value `from` of a word with `to`, after every write before it, and atomically for
    /// handlers on this CPU. Returns whether the value was `from`.
    fn replace(&self, word: usize, from: u64, to: u64) -> bool;

    /// Adds to a word, atomically for handlers on this CPU.
    fn add(&self, word: usize, more: u64) {
        loop {
            let now = self.get(word);
            if self.replace(word, now, now.wrapping_add(more)) {
                return;
            }
        }
    }
}

/// Words in memory, aligned to 64 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryCells<'m> {
    base: NonNull<u8>,
    lifetime: PhantomData<&'m [u8]>,
}

impl MemoryCells<'_> {
    /// Creates access to the words from `base` on.
    ///
    /// # Safety
    ///
    /// Every accessed word must lie in memory that is valid, and only accessed atomically, for the
    /// type's lifetime. `base` must be aligned to 8 bytes.
    #[inline]
    pub(crate) const unsafe fn new(base: NonNull<u8>) -> Self {
        Self {
            base,
            lifetime: PhantomData,
        }
    }
}

#[cfg(target_has_atomic = "64")]
mod wide {
    use super::{Cells, MemoryCells};
    use core::sync::atomic::{AtomicU64, Ordering};

    impl MemoryCells<'_> {
        #[inline]
        fn word(&self, word: usize) -> &AtomicU64 {
            // SAFETY: `new` requires valid, aligned memory that is only accessed atomically.
            unsafe { AtomicU64::from_ptr(self.base.as_ptr().cast::<u64>().wrapping_add(word)) }
        }

        /// Reads a word before every read after it.
        #[inline]
        pub(crate) fn observe(&self, word: usize) -> u64 {
            self.word(word).load(Ordering::Acquire)
        }

        /// Replaces a word that several CPUs write.
        pub(crate) fn replace_shared(&self, word: usize, from: u64, to: u64) -> bool {
            self.word(word)
                .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        }
    }

    impl Cells for MemoryCells<'_> {
        #[inline]
        fn get(&self, word: usize) -> u64 {
            self.word(word).load(Ordering::Relaxed)
        }

        #[inline]
        fn set(&self, word: usize, value: u64) {
            self.word(word).store(value, Ordering::Relaxed);
        }

        #[inline]
        fn publish(&self, word: usize, value: u64) {
            self.word(word).store(value, Ordering::Release);
        }

        /// Needs no lock prefix: handlers on this CPU, NMIs included, cannot interrupt an
        /// instruction, and no other CPU writes the word.
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        #[inline]
        fn replace(&self, word: usize, from: u64, to: u64) -> bool {
            let found: u64;
            // SAFETY: the word is valid and aligned. The instruction writes the value that it
            // read, or `to`.
            unsafe {
                core::arch::asm!(
                    "cmpxchg qword ptr [{at}], {to}",
                    at = in(reg) self.word(word).as_ptr(),
                    to = in(reg) to,
                    inout("rax") from => found,
                    options(nostack),
                );
            }
            found == from
        }

        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        #[inline]
        fn replace(&self, word: usize, from: u64, to: u64) -> bool {
            self.word(word)
                .compare_exchange(from, to, Ordering::Release, Ordering::Relaxed)
                .is_ok()
        }
    }
}

/// On machines without atomic words of 64 bits, interrupts are masked while a record is written or
/// a name's words are reserved.
#[cfg(not(target_has_atomic = "64"))]
mod narrow {
    use super::{Cells, MemoryCells};
    use core::sync::atomic::{AtomicU32, Ordering};

    /// Index of the half with the high bits, which has a slot's lap.
    const HIGH: usize = if cfg!(target_endian = "big") { 0 } else { 1 };

    impl MemoryCells<'_> {
        #[inline]
        fn half(&self, word: usize, half: usize) -> &AtomicU32 {
            let at = self
                .base
                .as_ptr()
                .cast::<u32>()
                .wrapping_add(2 * word + half);
            // SAFETY: `new` requires valid, aligned memory that is only accessed atomically.
            unsafe { AtomicU32::from_ptr(at) }
        }

        /// Reads a word before every read after it.
        pub(crate) fn observe(&self, word: usize) -> u64 {
            let high = self.half(word, HIGH).load(Ordering::Acquire);
            let low = self.half(word, 1 - HIGH).load(Ordering::Acquire);
            u64::from(high) << 32 | u64::from(low)
        }

        /// Replaces a word that several CPUs write. It is not atomic on this machine: callers mask
        /// interrupts, and two CPUs must not add names at the same time.
        pub(crate) fn replace_shared(&self, word: usize, from: u64, to: u64) -> bool {
            self.replace(word, from, to)
        }
    }

    impl Cells for MemoryCells<'_> {
        fn get(&self, word: usize) -> u64 {
            self.observe(word)
        }

        fn set(&self, word: usize, value: u64) {
            self.publish(word, value);
        }

        fn publish(&self, word: usize, value: u64) {
            self.half(word, 1 - HIGH)
                .store(value as u32, Ordering::Release);
            self.half(word, HIGH)
                .store((value >> 32) as u32, Ordering::Release);
        }

        fn replace(&self, word: usize, from: u64, to: u64) -> bool {
            let same = self.get(word) == from;
            if same {
                self.set(word, to);
            }
            same
        }
    }
}

//! The memory that outlives the kernel: what may be asked of it.

use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{Ordering, compiler_fence};

/// Readable bytes.
pub trait Load {
    /// Returns the number of bytes.
    fn len(&self) -> usize;

    /// Returns whether there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `at` on to `into`. Where there are none, `into` is
    /// left as it was.
    fn load(&self, at: usize, into: &mut [u8]);
}

/// Readable and writable bytes that survive a crash.
///
/// Shared (`&self`), because an interrupt handler may write what the code under
/// it was just writing. [`Zone`](crate::Zone) and the recorders decide which code writes
/// where.
pub trait Memory: Load {
    /// Stores `bytes` from `at` on, lowest address first, in pieces as wide as
    /// this memory takes. Stores of one thread are not reordered. Bytes beyond the end
    /// are not stored.
    fn store(&self, at: usize, bytes: &[u8]);

    /// Stores `words` side by side from `at` on, which need not be aligned, as
    /// [`store`](Self::store) would. Bytes beyond the end are not stored.
    #[inline]
    fn store_words(&self, at: usize, words: &[u64]) {
        for (i, word) in words.iter().enumerate() {
            self.store(at.saturating_add(8 * i), &word.to_ne_bytes());
        }
    }

    /// Makes what was stored in this range survive (flush, fence), and keeps later
    /// stores behind it. Memory that is coherent needs to do nothing: guest RAM
    /// that outlives the guest, a mapped file, RAM over a warm reset that flushes.
    fn persist(&self, at: usize, len: usize) {
        let _ = (at, len);
    }
}

impl Load for [u8] {
    fn len(&self) -> usize {
        self.len()
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        if let Some(from) = self.get(at..).and_then(|rest| rest.get(..into.len())) {
            into.copy_from_slice(from);
        }
    }
}

impl<T: Load + ?Sized> Load for &T {
    fn len(&self) -> usize {
        (**self).len()
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        (**self).load(at, into);
    }
}

impl<T: Memory + ?Sized> Memory for &T {
    fn store(&self, at: usize, bytes: &[u8]) {
        (**self).store(at, bytes);
    }

    #[inline]
    fn store_words(&self, at: usize, words: &[u64]) {
        (**self).store_words(at, words);
    }

    fn persist(&self, at: usize, len: usize) {
        (**self).persist(at, len);
    }
}

/// Ordinary memory: cached or write-combining, where a store of any width may
/// have any alignment that the CPU takes.
#[derive(Debug)]
pub struct Ram<'a> {
    start: NonNull<u8>,
    len: usize,
    lifetime: PhantomData<&'a mut [u8]>,
}

// SAFETY: a `Ram` is the only one for its bytes (`new` demands it), so it may be
// used on another CPU than the one that made it, by one at a time.
unsafe impl Send for Ram<'_> {}

impl<'a> Ram<'a> {
    /// The `len` bytes at `start`.
    ///
    /// # Safety
    ///
    /// They are one mapping of at most `isize::MAX` bytes, readable and writable, for
    /// all of `'a`, and nothing in this program but this `Ram` accesses them meanwhile.
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self {
            start,
            len,
            lifetime: PhantomData,
        }
    }

    /// These bytes.
    pub const fn of(bytes: &'a mut [u8]) -> Self {
        let len = bytes.len();
        // SAFETY: an exclusive borrow for all of 'a; its pointer is not null.
        unsafe { Self::new(NonNull::new_unchecked(bytes.as_mut_ptr()), len) }
    }

    /// The first `at` bytes (all, if there are fewer), and the rest.
    pub fn split_at(self, at: usize) -> (Self, Self) {
        let at = at.min(self.len);
        // SAFETY: two parts that do not overlap, of bytes that were `self`'s alone.
        unsafe {
            (
                Self::new(self.start, at),
                Self::new(self.start.add(at), self.len - at),
            )
        }
    }

    /// Returns the address of `count` bytes from `at` on, if they are all inside.
    #[inline]
    fn place(&self, at: usize, count: usize) -> Option<*mut u8> {
        let end = at.checked_add(count)?;
        (end <= self.len).then(|| self.start.as_ptr().wrapping_add(at))
    }
}

impl Load for Ram<'_> {
    fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn load(&self, at: usize, into: &mut [u8]) {
        if let Some(from) = self.place(at, into.len()) {
            // SAFETY: within (`place`), no other code writes there (`new`), and
            // `into` is other memory: it was borrowed exclusively.
            unsafe { into.as_mut_ptr().copy_from_nonoverlapping(from, into.len()) };
        }
    }
}

impl Memory for Ram<'_> {
    #[inline]
    fn store(&self, at: usize, bytes: &[u8]) {
        if let Some(to) = self.place(at, bytes.len()) {
            // SAFETY: within (`place`), and exclusive (`new`), so `bytes` is other
            // memory.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            // The next kernel reads it: the compiler may neither leave it out nor
            // let it change places with what comes after.
            compiler_fence(Ordering::SeqCst);
        }
    }

    #[inline]
    fn store_words(&self, at: usize, words: &[u64]) {
        if let Some(mut to) = self.place(at, size_of_val(words)) {
            for word in words {
                // SAFETY: as above.
                unsafe { to.cast::<u64>().write_unaligned(*word) };
                to = to.wrapping_add(8);
            }
            compiler_fence(Ordering::SeqCst);
        }
    }
}

/// Memory that takes only aligned stores, of at most 32 bits: uncached on ARM, or
/// behind a bus. Zones lie at any even offset, so a word may become two halves.
#[derive(Debug)]
pub struct Uncached<'a>(Ram<'a>);

impl<'a> Uncached<'a> {
    /// The same bytes, with care.
    pub const fn new(memory: Ram<'a>) -> Self {
        Self(memory)
    }
}

/// The widest aligned piece that fits: 4, 2 or 1 bytes.
fn piece(address: usize, left: usize) -> usize {
    match (address % 4, left) {
        (0, 4..) => 4,
        (0 | 2, 2..) => 2,
        _ => 1,
    }
}

impl Load for Uncached<'_> {
    fn len(&self) -> usize {
        self.0.len
    }

    fn load(&self, at: usize, mut into: &mut [u8]) {
        let Some(from) = self.0.place(at, into.len()) else {
            return;
        };
        let mut from = from.cast_const();
        while !into.is_empty() {
            let count = piece(from.addr(), into.len());
            let (now, later) = into.split_at_mut(count);
            // SAFETY: within (`place`), no other code writes there (`Ram::new`), and
            // aligned (`piece`).
            unsafe {
                match count {
                    4 => now.copy_from_slice(&from.cast::<u32>().read_volatile().to_ne_bytes()),
                    2 => now.copy_from_slice(&from.cast::<u16>().read_volatile().to_ne_bytes()),
                    _ => now.copy_from_slice(&[from.read_volatile()]),
                }
            }
            from = from.wrapping_add(count);
            into = later;
        }
    }
}

impl Memory for Uncached<'_> {
    fn store(&self, at: usize, mut bytes: &[u8]) {
        let Some(mut to) = self.0.place(at, bytes.len()) else {
            return;
        };
        while let Some(&first) = bytes.first() {
            let count = piece(to.addr(), bytes.len());
            // SAFETY: within (`place`), exclusive (`Ram::new`), and aligned
            // (`piece`).
            unsafe {
                match (count, bytes) {
                    (4, &[a, b, c, d, ..]) => {
                        to.cast::<u32>()
                            .write_volatile(u32::from_ne_bytes([a, b, c, d]));
                    }
                    (2, &[a, b, ..]) => {
                        to.cast::<u16>().write_volatile(u16::from_ne_bytes([a, b]));
                    }
                    _ => to.write_volatile(first),
                }
            }
            to = to.wrapping_add(count);
            bytes = &bytes[count..];
        }
    }
}

/// Memory behind a cache that a cut empties: `flush` is called with the place and
/// length of what must reach the memory, and returns when it has.
///
/// ```
/// use nostall_pstore::{Flushed, Memory, Ram};
/// use std::cell::Cell;
///
/// let mut bytes = [0; 64];
/// let flushed = Cell::new(0);
/// // In a kernel: `clwb` for each cache line, then `sfence`; or `dc cvap`, `dsb`.
/// let memory = Flushed::new(Ram::of(&mut bytes), |_at, len| flushed.set(flushed.get() + len));
/// memory.store(0, b"last words");
/// memory.persist(0, 10);
/// assert_eq!(flushed.get(), 10);
/// ```
#[derive(Debug)]
pub struct Flushed<M, F> {
    memory: M,
    flush: F,
}

impl<M: Memory, F: Fn(usize, usize)> Flushed<M, F> {
    /// `memory`, with `flush` for whatever must survive.
    pub const fn new(memory: M, flush: F) -> Self {
        Self { memory, flush }
    }
}

impl<M: Load, F> Load for Flushed<M, F> {
    fn len(&self) -> usize {
        self.memory.len()
    }

    fn load(&self, at: usize, into: &mut [u8]) {
        self.memory.load(at, into);
    }
}

impl<M: Memory, F: Fn(usize, usize)> Memory for Flushed<M, F> {
    fn store(&self, at: usize, bytes: &[u8]) {
        self.memory.store(at, bytes);
    }

    #[inline]
    fn store_words(&self, at: usize, words: &[u64]) {
        self.memory.store_words(at, words);
    }

    fn persist(&self, at: usize, len: usize) {
        (self.flush)(at, len);
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_stored_is_loaded_and_nothing_else_is_touched(
            at in 0usize..80,
            bytes in prop::collection::vec(any::<u8>(), 0..70),
            careful in any::<bool>(),
        ) {
            let mut backing = [0xaa; 96];
            let mut back = std::vec![0; bytes.len()];
            let fits = at + bytes.len() <= 64;
            {
                let ram = Ram::of(&mut backing[16..80]);
                let memory: &dyn Memory = if careful { &Uncached::new(ram) } else { &{ ram } };
                memory.store(at, &bytes);
                memory.load(at, &mut back);
            }
            if fits {
                prop_assert_eq!(&back, &bytes);
                prop_assert_eq!(&backing[16 + at..16 + at + bytes.len()], &bytes[..]);
                prop_assert!(backing[..16 + at].iter().all(|&b| b == 0xaa));
                prop_assert!(backing[16 + at + bytes.len()..].iter().all(|&b| b == 0xaa));
            } else {
                prop_assert!(backing.iter().all(|&b| b == 0xaa));
            }
        }
    }
}

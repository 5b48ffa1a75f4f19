//! Memory that survives the kernel.

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

    /// Copies the bytes from `at` to `into`. Leaves `into` unchanged if some of them do not exist.
    fn load(&self, at: usize, into: &mut [u8]);
}

/// Readable and writable bytes that survive a crash.
///
/// It is shared (`&self`), because an interrupt handler may write to the bytes that the interrupted
/// code is writing. [`Zone`](crate::Zone) and the recorders decide which code writes where.
pub trait Memory: Load {
    /// Stores `bytes` from `at`, lowest address first, in the widest pieces that this memory takes.
    /// Stores of one thread are not reordered. Bytes beyond the end are not stored; an
    /// implementation may then store none of `bytes`.
    fn store(&self, at: usize, bytes: &[u8]);

    /// Stores `words` next to each other from `at`, possibly unaligned, as [`store`](Self::store)
    /// does. Bytes beyond the end are not stored.
    #[inline]
    fn store_words(&self, at: usize, words: &[u64]) {
        for (i, word) in words.iter().enumerate() {
            self.store(at.saturating_add(8 * i), &word.to_ne_bytes());
        }
    }

    /// Makes the stores to this range survive a cut (flush, fence), before any later store.
    /// Coherent memory needs to do nothing: guest RAM that survives the guest, a mapped file, RAM
    /// over a warm reset that flushes.
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

/// Ordinary memory, cached or write-combining. A store of any width may have any alignment that the
/// CPU supports.
///
/// On AArch64, the memory is mapped as Normal Write-Back, or as Normal Non-Cacheable, never as Device
/// memory. Behind a reset that discards the caches, the first needs [`Flushed`]. The second needs it
/// for the order of its stores, which the CPU may merge and reorder: `dsb st` suffices.
#[derive(Debug)]
pub struct Ram<'a> {
    start: NonNull<u8>,
    len: usize,
    lifetime: PhantomData<&'a mut [u8]>,
}

// SAFETY: a `Ram` is unique for its bytes (required by `new`), so another CPU may use it, one at a
// time.
unsafe impl Send for Ram<'_> {}

impl<'a> Ram<'a> {
    /// Creates the memory of `len` bytes at `start`.
    ///
    /// # Safety
    ///
    /// The bytes are one mapping of at most `isize::MAX` bytes, readable and writable, for all of
    /// `'a`. Nothing in this program except this `Ram` accesses them meanwhile.
    pub const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self {
            start,
            len,
            lifetime: PhantomData,
        }
    }

    /// Creates the memory of these bytes.
    pub const fn of(bytes: &'a mut [u8]) -> Self {
        let len = bytes.len();
        // SAFETY: the borrow is exclusive for all of 'a, and its pointer is not null.
        unsafe { Self::new(NonNull::new_unchecked(bytes.as_mut_ptr()), len) }
    }

    /// Splits the memory into the first `at` bytes (all, if there are fewer) and the rest.
    pub fn split_at(self, at: usize) -> (Self, Self) {
        let at = at.min(self.len);
        // SAFETY: the parts do not overlap, and `self` was the only owner of the bytes.
        unsafe {
            (
                Self::new(self.start, at),
                Self::new(self.start.add(at), self.len - at),
            )
        }
    }

    /// Returns the address of `count` bytes from `at`, if all of them are inside.
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
            // SAFETY: the bytes are inside (`place`), and no other code writes them (`new`). `into`
            // is other memory, because it is borrowed exclusively.
            unsafe { into.as_mut_ptr().copy_from_nonoverlapping(from, into.len()) };
        }
    }
}

impl Memory for Ram<'_> {
    #[inline]
    fn store(&self, at: usize, bytes: &[u8]) {
        if let Some(to) = self.place(at, bytes.len()) {
            // SAFETY: the bytes are inside (`place`) and exclusive (`new`), so `bytes` is other
            // memory.
            unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
            // The next kernel reads these bytes: the compiler must not omit the store or move it
            // behind later ones.
            compiler_fence(Ordering::SeqCst);
        }
    }

    #[inline]
    fn store_words(&self, at: usize, words: &[u64]) {
        if let Some(mut to) = self.place(at, size_of_val(words)) {
            for word in words {
                // SAFETY: as in `store`.
                unsafe { to.cast::<u64>().write_unaligned(*word) };
                to = to.wrapping_add(8);
            }
            compiler_fence(Ordering::SeqCst);
        }
    }
}

/// Memory that takes only aligned stores of at most 32 bits: uncached on ARM, or behind a bus.
/// Zones start at any even offset, so a word may be stored as two halves.
///
/// On AArch64, the memory is mapped as Device-nGnRE or Device-nGnRnE, whose stores stay in order, or
/// as Normal Non-Cacheable with the [`Flushed`] of [`Ram`]. Nothing here is an atomic
/// read-modify-write, which the architecture guarantees for Normal Write-Back memory only.
#[derive(Debug)]
pub struct Uncached<'a>(Ram<'a>);

impl<'a> Uncached<'a> {
    /// Creates the memory with aligned accesses to the same bytes.
    pub const fn new(memory: Ram<'a>) -> Self {
        Self(memory)
    }
}

/// Returns the size of the widest aligned piece that fits: 4, 2 or 1 bytes.
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
            // SAFETY: the bytes are inside (`place`), no other code writes them (`Ram::new`), and
            // the access is aligned (`piece`).
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
            // SAFETY: the bytes are inside (`place`), exclusive (`Ram::new`), and the access is
            // aligned (`piece`).
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

/// Memory behind a cache that a cut empties. `flush` is called with the offset and length of bytes
/// that must reach the memory, and returns when they have.
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
///
/// On AArch64, Normal Write-Back memory over a reset that discards the caches:
///
/// ```
/// # #[cfg(target_arch = "aarch64")]
/// # {
/// use core::ptr::NonNull;
/// use nostall_io::clean_to_poc;
/// use nostall_pstore::{Flushed, Memory, Ram};
///
/// /// # Safety
/// ///
/// /// As for [`Ram::new`].
/// unsafe fn crash_memory(start: NonNull<u8>, len: usize) -> impl Memory {
///     // SAFETY: the caller's promise. The zones persist only bytes inside.
///     let ram = unsafe { Ram::new(start, len) };
///     Flushed::new(ram, move |at, len| unsafe { _ = clean_to_poc(start.add(at), len) })
/// }
/// # }
/// ```
///
/// The offsets are those of `M`. Memory that is split into zones has a `Flushed` for each zone.
#[derive(Debug)]
pub struct Flushed<M, F> {
    memory: M,
    flush: F,
}

impl<M: Memory, F: Fn(usize, usize)> Flushed<M, F> {
    /// Creates the memory with `flush` for bytes that must survive.
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
        fn stored_bytes_are_loaded_and_no_others_change(
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

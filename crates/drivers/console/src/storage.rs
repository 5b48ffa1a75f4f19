//! Memory of rings and drains: a `static`, or the caller's.

use core::mem;
use core::ops::Deref;
use core::ptr;

use crate::drain::Drain;
use crate::feed::Feed;
use crate::kept::Kept;
use crate::lane::Lane;
use crate::layout::{CONSTANT_BYTES, HEADER_BYTES, SLOT_BYTES};
use crate::next_offer::NextOffer;
use crate::owner::Owner;
use crate::ring::Head;
use crate::slot::Slot;
use crate::sync::AtomicUsize;
use crate::{Ring, Sink, SinkOptions};

impl<const N: usize> Ring<[Slot; N]> {
    /// Creates a ring with `N` slots, at least 2. It is all zeros, so a `static` takes no space in
    /// a kernel's image.
    #[allow(clippy::new_without_default)] // A ring is a `static`.
    pub const fn new() -> Self {
        const { assert!(N >= 2) };
        Self {
            head: Head {
                constant: [const { AtomicUsize::new(0) }; _],
                newest: AtomicUsize::new(0),
                urgent: [const { AtomicUsize::new(0) }; _],
                cut: AtomicUsize::new(0),
                sent: [const { AtomicUsize::new(0) }; _],
                holes: [const { AtomicUsize::new(0) }; _],
            },
            slots: [const { slot() }; N],
        }
    }
}

impl<const N: usize> Deref for Ring<[Slot; N]> {
    type Target = Ring;

    fn deref(&self) -> &Ring {
        self
    }
}

const fn slot() -> Slot {
    Slot {
        state: AtomicUsize::new(0),
        body: [const { AtomicUsize::new(0) }; _],
    }
}

impl<'r, S: Sink> Drain<'r, S> {
    /// Creates a drain from `ring` to `sink`, starting at the oldest record.
    pub const fn new(ring: &'r Ring, sink: S, options: SinkOptions) -> Self {
        Self {
            feed: Feed {
                ring,
                level: AtomicUsize::new(options.level as usize),
                lanes: [const {
                    Lane {
                        next: AtomicUsize::new(0),
                        line: AtomicUsize::new(0),
                        gap: AtomicUsize::new(0),
                        gap_at: AtomicUsize::new(0),
                        given_up: AtomicUsize::new(0),
                        kept: Kept {
                            state: AtomicUsize::new(0),
                            shape: AtomicUsize::new(0),
                            words: [const { AtomicUsize::new(0) }; _],
                        },
                    }
                }; 3],
                pending: [const { AtomicUsize::new(0) }; 2],
                lost: AtomicUsize::new(0),
            },
            options,
            owner: Owner {
                word: AtomicUsize::new(0),
                panic: AtomicUsize::new(0),
                beats: AtomicUsize::new(0),
            },
            next_offer: NextOffer {
                since: AtomicUsize::new(0),
                wait: AtomicUsize::new(0),
                responsible_cpu: AtomicUsize::new(0),
                backoff: AtomicUsize::new(0),
            },
            offering: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            renders: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            has_left_out: AtomicUsize::new(0),
            at_once: AtomicUsize::new(0),
            sink,
        }
    }
}

impl Ring {
    /// Creates a ring in `memory`, with as many slots as fit. Previous contents are erased. Returns
    /// `None` without room for two slots: 512 bytes, and 63 more if `memory` is not aligned to 64.
    pub fn in_memory(memory: &mut [u8]) -> Option<&Self> {
        let skip = memory.as_ptr().align_offset(mem::align_of::<Head>());
        let memory = memory.get_mut(skip..)?;
        // The size of a ring is a multiple of its alignment.
        let (memory, _) = memory.as_chunks_mut::<CONSTANT_BYTES>();
        let memory = memory.as_flattened_mut();
        let slots = memory.len().checked_sub(HEADER_BYTES)? / SLOT_BYTES;
        if slots < 2 {
            return None;
        }
        memory.fill(0);
        let ring = ptr::slice_from_raw_parts(memory.as_mut_ptr(), slots) as *const Self;
        // SAFETY: the memory has the alignment of a ring, and at least the size of one with that
        // many slots (checked below). It is all zeros, a valid value of every atomic word. It was
        // borrowed mutably for the lifetime of the ring.
        Some(unsafe { &*ring })
    }
}

const _: () = assert!(size_of::<Slot>() == SLOT_BYTES && size_of::<Head>() == HEADER_BYTES);
const _: () = assert!(
    size_of::<Ring<[Slot; 2]>>()
        == (HEADER_BYTES + 2 * SLOT_BYTES).next_multiple_of(CONSTANT_BYTES)
);
const _: () = assert!(align_of::<Head>() == CONSTANT_BYTES);
const _: () = assert!(align_of::<Ring<[Slot; 2]>>() == align_of::<Head>());

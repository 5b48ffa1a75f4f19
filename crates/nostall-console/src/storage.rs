//! Memory of a ring or a drain: a `static`, or the caller's.

use core::mem;
use core::ops::Deref;
use core::ptr;

use crate::drain::Drain;
use crate::feed::Feed;
use crate::kept::Kept;
use crate::lane::Lane;
use crate::layout::{CONSTANT_BYTES, HEADER_BYTES, SLOT_BYTES};
use crate::owner::Owner;
use crate::promise::Promise;
use crate::ring::Head;
use crate::slot::Slot;
use crate::sync::AtomicUsize;
use crate::{Ring, Sink, SinkOptions};

impl<const N: usize> Ring<[Slot; N]> {
    /// Room for `N` records, and not less than 2. All zeros, so that a `static` takes no
    /// room in a kernel's file.
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
    /// Takes `ring`'s records to `sink`, from the oldest there is.
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
            promise: Promise {
                since: AtomicUsize::new(0),
                wait: AtomicUsize::new(0),
                keeper: AtomicUsize::new(0),
                in_vain: AtomicUsize::new(0),
            },
            offering: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            sink,
        }
    }
}

impl Ring {
    /// A ring in `memory`, with as many slots as fit; whatever was there is gone.
    /// `None` if there is not room for two (512 bytes, and 63 if it is not aligned).
    pub fn in_memory(memory: &mut [u8]) -> Option<&Self> {
        let skip = memory.as_ptr().align_offset(mem::align_of::<Head>());
        let memory = memory.get_mut(skip..)?;
        // A ring is as long as a whole number of its alignment.
        let (memory, _) = memory.as_chunks_mut::<CONSTANT_BYTES>();
        let memory = memory.as_flattened_mut();
        let slots = memory.len().checked_sub(HEADER_BYTES)? / SLOT_BYTES;
        if slots < 2 {
            return None;
        }
        memory.fill(0);
        let ring = ptr::slice_from_raw_parts(memory.as_mut_ptr(), slots) as *const Self;
        // SAFETY: it is aligned as a ring is, at least as long as one of so many slots
        // (checked below), and all zeros, which every atomic word may be. It was borrowed
        // mutably for as long as the ring lives.
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

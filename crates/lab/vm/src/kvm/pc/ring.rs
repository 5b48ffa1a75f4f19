//! The ring in which KVM collects writes (Linux: `struct kvm_coalesced_mmio_ring`).
//!
//! KVM writes an entry and then `last`. The owner reads entries and then writes `first`. One ring
//! serves ports and memory, in the order of the guest's writes.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::Ordering;

use kvm_bindings::{KVM_COALESCED_MMIO_PAGE_OFFSET, kvm_coalesced_mmio};

use super::mapping::{PAGE, SharedMemory};

const FIRST: usize = 0;
const LAST: usize = 4;
const ENTRIES: usize = 8;

// Offsets in an entry: address, length, whether it is a port, and the bytes.
const ENTRY: usize = size_of::<kvm_coalesced_mmio>();
const LENGTH: usize = 8;
const PORT: usize = 12;
const BYTES: usize = 16;

/// Capacity of the ring in entries.
pub const SIZE: usize = (PAGE - ENTRIES) / ENTRY;

/// Address of a guest's write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Port(u16),
    Memory(u64),
}

/// A collected write.
pub struct CoalescedWrite {
    pub place: Place,
    bytes: [u8; 8],
    len: usize,
}

impl CoalescedWrite {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The ring of a machine.
pub struct CoalescedRing(SharedMemory);

impl CoalescedRing {
    /// Maps the ring of the machine of this virtual CPU.
    pub fn of(cpu: &impl AsRawFd) -> io::Result<Self> {
        // SAFETY: the descriptor is open as long as `cpu`, which is borrowed.
        let cpu = unsafe { BorrowedFd::borrow_raw(cpu.as_raw_fd()) };
        SharedMemory::of(&cpu, KVM_COALESCED_MMIO_PAGE_OFFSET.into()).map(Self)
    }

    /// Removes all current writes, oldest first. Writes that arrive meanwhile stay for the next
    /// call.
    pub fn drain(&mut self) -> impl Iterator<Item = CoalescedWrite> {
        let last = self.index(LAST);
        (0..SIZE).map_while(move |_| {
            let first = self.index(FIRST);
            let write = (first != last).then(|| self.entry(first))??;
            let next = ((first + 1) % SIZE) as u32;
            self.0.word(FIRST)?.store(next, Ordering::Release);
            Some(write)
        })
    }

    /// Returns the ring index at `at`, reduced to below [`SIZE`] for any contents of the page.
    fn index(&self, at: usize) -> usize {
        let index = self
            .0
            .word(at)
            .map_or(0, |word| word.load(Ordering::Acquire));
        index as usize % SIZE
    }

    fn entry(&self, index: usize) -> Option<CoalescedWrite> {
        let start = ENTRIES + index * ENTRY;
        let word = |at| Some(self.0.word(start + at)?.load(Ordering::Relaxed));
        let address = u64::from(word(0)?) | u64::from(word(4)?) << 32;
        let mut bytes = [0; 8];
        for (i, byte) in bytes.iter_mut().enumerate() {
            *byte = self.0.byte(start + BYTES + i)?.load(Ordering::Relaxed);
        }
        Some(CoalescedWrite {
            place: match word(PORT)? {
                0 => Place::Memory(address),
                _ => Place::Port(address as u16),
            },
            bytes,
            len: (word(LENGTH)? as usize).min(bytes.len()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(ring: &CoalescedRing, index: usize, value: u8) {
        let start = ENTRIES + index * ENTRY;
        let set = |at, value| ring.0.word(at).unwrap().store(value, Ordering::Relaxed);
        set(start, 0x3f8);
        set(start + LENGTH, 1);
        set(start + PORT, 1);
        set(start + BYTES, value.into());
        set(LAST, ((index + 1) % SIZE) as u32);
    }

    #[test]
    fn entries_are_drained_once_and_in_order_across_the_rings_end() {
        let mut ring = CoalescedRing(SharedMemory::filled(PAGE, 0).unwrap());
        for n in 0..3 * SIZE {
            put(&ring, n % SIZE, n as u8);
            if n % 2 == 1 {
                let writes: Vec<_> = ring.drain().collect();
                let bytes: Vec<_> = writes.iter().map(|w| w.bytes().to_vec()).collect();
                assert_eq!(bytes, [[(n - 1) as u8], [n as u8]]);
                assert!(writes.iter().all(|w| w.place == Place::Port(0x3f8)));
                assert_eq!(ring.drain().count(), 0);
            }
        }
    }

    #[test]
    fn draining_ends_for_arbitrary_contents_of_the_page() {
        let mut ring = CoalescedRing(SharedMemory::filled(PAGE, 0xff).unwrap());
        assert!(ring.drain().all(|write| write.bytes().len() <= 8));
        assert_eq!(ring.drain().count(), 0);
    }
}

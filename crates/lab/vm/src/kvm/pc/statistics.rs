//! KVM's own counters (Linux: Documentation/virt/kvm/api.rst, 4.133, `KVM_GET_STATS_FD`).

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

use kvm_bindings::{KVMIO, kvm_stats_desc, kvm_stats_header};
use vmm_sys_util::ioctl::ioctl;

vmm_sys_util::ioctl_io_nr!(KVM_GET_STATS_FD, KVMIO, 0xce);

/// Limit for the number of statistics.
const MOST: u32 = 1_000;

/// Limit for the length of a name in bytes.
const LONGEST: u32 = 1_000;

/// The statistics of one virtual CPU.
pub struct KvmStatistics {
    file: File,
    // Offset of each statistic.
    exits: u64,
    interrupts: u64,
    ports: u64,
}

impl KvmStatistics {
    /// Opens the statistics of a virtual CPU. Returns `None` if a required one is missing.
    pub fn of(cpu: &impl AsRawFd) -> Option<Self> {
        // SAFETY: a request without an argument, to a virtual CPU.
        let fd = unsafe { ioctl(cpu, KVM_GET_STATS_FD()) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the descriptor is new, and has no other owner.
        let file = unsafe { File::from_raw_fd(fd) };
        let header = Header::read(&file)?;
        Some(Self {
            exits: header.find(&file, b"exits")?,
            interrupts: header.find(&file, b"irq_exits")?,
            ports: header.find(&file, b"io_exits")?,
            file,
        })
    }

    /// Returns the number of hardware exits so far, without those for the host's own interrupts; at
    /// least `ports` of them are port accesses.
    ///
    /// `None` if KVM did not count port accesses. A KVM that interprets guest code has no exits,
    /// and its statistic of that name has another meaning.
    pub fn exits(&self, ports: u64) -> Option<u64> {
        if ports > 0 && word(&self.file, self.ports)? == 0 {
            return None;
        }
        let all = word(&self.file, self.exits)?;
        Some(all.saturating_sub(word(&self.file, self.interrupts)?))
    }
}

/// Fields of `struct kvm_stats_header`.
struct Header {
    name_size: u32,
    count: u32,
    descriptors: u32,
    data: u32,
}

impl Header {
    fn read(file: &File) -> Option<Self> {
        let mut bytes = [0; size_of::<kvm_stats_header>()];
        file.read_exact_at(&mut bytes, 0).ok()?;
        let [_flags, name_size, count, _id, descriptors, data] = words(&bytes);
        let sane = count <= MOST && name_size <= LONGEST;
        sane.then_some(Self {
            name_size,
            count,
            descriptors,
            data,
        })
    }

    /// Returns the offset in `file` of the first value of the statistic `name`.
    fn find(&self, file: &File, name: &[u8]) -> Option<u64> {
        const FIXED: usize = size_of::<kvm_stats_desc>();
        let size = FIXED + self.name_size as usize;
        let mut descriptor = vec![0; size];
        for n in 0..self.count {
            let at = u64::from(self.descriptors) + u64::from(n) * size as u64;
            file.read_exact_at(&mut descriptor, at).ok()?;
            let (fixed, this) = descriptor.split_at(FIXED);
            if this.split(|&byte| byte == 0).next() == Some(name) {
                // Words: flags, exponent and size, offset, bucket size.
                let [_, _, offset, _] = words(fixed);
                return Some(u64::from(self.data) + u64::from(offset));
            }
        }
        None
    }
}

/// Returns the first `N` native-endian words; missing words are 0.
fn words<const N: usize>(bytes: &[u8]) -> [u32; N] {
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
        *word = u32::from_ne_bytes(*bytes);
    }
    words
}

fn word(file: &File, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

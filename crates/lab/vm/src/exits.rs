//! Counts of VM exits, by reason.

use std::ops::{Add, Sub};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use std::time::Duration;

use nostall_io::Nanos;

/// Exits to user space by reason, and accesses that need none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exits {
    /// Port reads.
    pub port_reads: u64,
    /// Port writes.
    pub port_writes: u64,
    /// Reads of memory-mapped registers.
    pub mmio_reads: u64,
    /// Writes to memory-mapped registers, and to memory that is read-only.
    pub mmio_writes: u64,
    /// Exits of a halted CPU.
    pub halts: u64,
    /// Exits that the guest did not cause, such as signals.
    pub others: u64,
    /// Number of the exits above that were accesses to the serial port.
    pub uart: u64,
    /// Number of the exits above that were accesses to PCI configuration space.
    pub pci: u64,
    /// Writes that the host's kernel collected without an exit.
    pub collected: u64,
    /// Changes of memory mapped into the guest, which saves exits for reads.
    pub maps: MapChanges,
    /// Hardware exits counted by the host's kernel, without those for the host's own interrupts.
    /// `None` if the kernel does not count them.
    pub hardware: Option<u64>,
}

impl Exits {
    /// Returns the number of exits that reached user space.
    pub const fn to_user_space(&self) -> u64 {
        self.port_reads
            + self.port_writes
            + self.mmio_reads
            + self.mmio_writes
            + self.halts
            + self.others
    }

    /// Returns the number of exits that the host's kernel handled alone (light exits), if known. A
    /// string instruction with an exit to user space for each byte has no light exit.
    pub fn light(&self) -> Option<u64> {
        // A signal arrives with a host interrupt, which `hardware` excludes.
        let accesses = self.to_user_space() - self.others;
        Some(self.hardware?.saturating_sub(accesses))
    }
}

/// Changes of memory mapped into the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapChanges {
    /// Memory slots created or removed.
    pub count: u64,
    /// The host's time for the changes: filling the memory, and the system calls. The guest's later
    /// page faults, which rebuild its page tables, are not included.
    pub took: Nanos,
}

impl MapChanges {
    /// Adds `count` changes that took `time`.
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    pub(crate) fn record(&mut self, count: u64, time: Duration) {
        let took = Nanos(time.as_nanos().try_into().unwrap_or(u64::MAX));
        *self = *self + Self { count, took };
    }
}

impl Add for MapChanges {
    type Output = Self;

    /// Adds both fields.
    fn add(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            took: self.took + other.took,
        }
    }
}

impl Sub for MapChanges {
    type Output = Self;

    /// Returns the changes since `before`.
    fn sub(self, before: Self) -> Self {
        Self {
            count: self.count.saturating_sub(before.count),
            took: self.took - before.took,
        }
    }
}

/// VM exits of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitLog {
    /// All exits while the guest ran.
    pub total: Exits,
    /// Mapping changes before the guest started; no other field includes them.
    pub maps_at_start: MapChanges,
    /// Exits before each of the first 65,536 reports, since the previous report or the start. They
    /// belong to the reported work and exclude the reporting itself.
    pub before_report: Vec<Exits>,
}

impl Sub for Exits {
    type Output = Self;

    /// Returns the exits since `before`.
    fn sub(self, before: Self) -> Self {
        let since = |now: u64, before| now.saturating_sub(before);
        Self {
            port_reads: since(self.port_reads, before.port_reads),
            port_writes: since(self.port_writes, before.port_writes),
            mmio_reads: since(self.mmio_reads, before.mmio_reads),
            mmio_writes: since(self.mmio_writes, before.mmio_writes),
            halts: since(self.halts, before.halts),
            others: since(self.others, before.others),
            uart: since(self.uart, before.uart),
            pci: since(self.pci, before.pci),
            collected: since(self.collected, before.collected),
            maps: self.maps - before.maps,
            hardware: self
                .hardware
                .zip(before.hardware)
                .map(|(now, before)| since(now, before)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn light_exits_are_the_hardware_exits_without_those_to_user_space() {
        let before = Exits {
            port_reads: 10,
            hardware: Some(100),
            ..Exits::default()
        };
        let after = Exits {
            port_reads: 14,
            hardware: Some(107),
            ..before
        };
        assert_eq!((after - before).light(), Some(3));
        let signalled = Exits { others: 2, ..after };
        assert_eq!((signalled - before).light(), Some(3));
        // A string instruction is one hardware exit and many exits to user space.
        let string = Exits {
            port_writes: 16,
            hardware: Some(108),
            ..after
        };
        assert_eq!((string - after).light(), Some(0));
        assert_eq!(Exits::default().light(), None);
    }
}

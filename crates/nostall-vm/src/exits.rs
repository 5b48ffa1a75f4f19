//! How often a virtual CPU left the guest, and why.

use std::ops::{Add, Sub};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use std::time::Duration;

use nostall_io::Nanos;

/// Exits to user space by reason, and events that need none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exits {
    /// Reads of ports.
    pub port_reads: u64,
    /// Writes to ports.
    pub port_writes: u64,
    /// Reads of memory-mapped registers.
    pub mmio_reads: u64,
    /// Writes to memory-mapped registers, and to memory that is read-only.
    pub mmio_writes: u64,
    /// The CPU was halted.
    pub halts: u64,
    /// A signal came, or something else that is not the guest's doing.
    pub others: u64,
    /// Of all of these, those that were accesses to the serial port.
    pub uart: u64,
    /// And those that were accesses to PCI configuration space.
    pub pci: u64,
    /// Writes that the host's kernel collected: without an exit.
    pub collected: u64,
    /// Changes of the memory that is mapped into the guest, so that reads need no exit.
    pub maps: MapChanges,
    /// All exits of the hardware but those for the host's own interrupts, as the
    /// host's kernel counts them; `None` if it does not.
    pub hardware: Option<u64>,
}

impl Exits {
    /// All that reached user space.
    pub const fn to_user_space(&self) -> u64 {
        self.port_reads
            + self.port_writes
            + self.mmio_reads
            + self.mmio_writes
            + self.halts
            + self.others
    }

    /// Exits that the host's kernel dealt with by itself, if that is known. Of a
    /// string instruction whose every byte went to user space there is none.
    pub fn light(&self) -> Option<u64> {
        // A signal comes by an interrupt of the host, which is not counted.
        let accesses = self.to_user_space() - self.others;
        Some(self.hardware?.saturating_sub(accesses))
    }
}

/// Changes of the memory that is mapped into the guest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapChanges {
    /// Memory slots made or taken away.
    pub count: u64,
    /// The host's time for them: to fill the memory, and in the host's kernel. The page faults
    /// that a guest then takes to get its page tables back are not in it.
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

    /// Returns the sum of both.
    fn add(self, other: Self) -> Self {
        Self {
            count: self.count.saturating_add(other.count),
            took: self.took + other.took,
        }
    }
}

impl Sub for MapChanges {
    type Output = Self;

    /// Those since `before`.
    fn sub(self, before: Self) -> Self {
        Self {
            count: self.count.saturating_sub(before.count),
            took: self.took - before.took,
        }
    }
}

/// The exits of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExitLog {
    /// All of them.
    pub total: Exits,
    /// Changes of mapped memory before the guest started; in no other number.
    pub maps_at_start: MapChanges,
    /// For each of the first 65,536 reports, the exits since the report before it, or since the
    /// start. They are the exits of the reported work, without those of the reporting itself.
    pub before_report: Vec<Exits>,
}

impl Sub for Exits {
    type Output = Self;

    /// Those since `before`.
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
    fn light_exits_are_what_user_space_did_not_see() {
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
        // A string instruction: one exit of the hardware, many to user space.
        let string = Exits {
            port_writes: 16,
            hardware: Some(108),
            ..after
        };
        assert_eq!((string - after).light(), Some(0));
        assert_eq!(Exits::default().light(), None);
    }
}

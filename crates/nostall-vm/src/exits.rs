//! How often a virtual CPU left the guest, and why.

use std::ops::Sub;

/// Exits to user space by reason, and what needed none.
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
    /// Writes to the serial port that the host's kernel collected: without an exit.
    pub collected: u64,
    /// Exits that the host's kernel dealt with by itself, its own interrupts not
    /// counted. `None` if it keeps no such statistics.
    pub light: Option<u64>,
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
            collected: since(self.collected, before.collected),
            light: self.light.zip(before.light).map(|(a, b)| since(a, b)),
        }
    }
}

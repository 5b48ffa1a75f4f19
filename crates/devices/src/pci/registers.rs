//! Registers of configuration space, named as in their specifications.

// The header's common part (PCI Local Bus 3.0, 6.1).
pub(super) const VENDOR: usize = 0x00;
pub(super) const DEVICE: usize = 0x02;
pub(super) const COMMAND: usize = 0x04;
pub(super) const STATUS: usize = 0x06;
pub(super) const REVISION: usize = 0x08;
pub(super) const PROG_IF: usize = 0x09;
pub(super) const SUBCLASS: usize = 0x0a;
pub(super) const CLASS: usize = 0x0b;
pub(super) const CACHE_LINE_SIZE: usize = 0x0c;
pub(super) const LATENCY_TIMER: usize = 0x0d;
pub(super) const HEADER_TYPE: usize = 0x0e;
pub(super) const BARS: usize = 0x10;
pub(super) const CAPABILITIES: usize = 0x34;
pub(super) const INTERRUPT_LINE: usize = 0x3c;
pub(super) const INTERRUPT_PIN: usize = 0x3d;

// Type 0 (PCI Local Bus 3.0, 6.1).
pub(super) const SUBSYSTEM_VENDOR: usize = 0x2c;
pub(super) const SUBSYSTEM: usize = 0x2e;
pub(super) const ROM_TYPE_0: usize = 0x30;

// Type 1 (PCI-to-PCI Bridge Architecture 1.2, 3.2).
pub(super) const PRIMARY_BUS: usize = 0x18;
pub(super) const SECONDARY_BUS: usize = 0x19;
pub(super) const SUBORDINATE_BUS: usize = 0x1a;
pub(super) const SECONDARY_LATENCY: usize = 0x1b;
pub(super) const IO_BASE: usize = 0x1c;
pub(super) const IO_LIMIT: usize = 0x1d;
pub(super) const SECONDARY_STATUS: usize = 0x1e;
pub(super) const MEMORY_BASE: usize = 0x20;
pub(super) const MEMORY_LIMIT: usize = 0x22;
pub(super) const PREFETCHABLE_BASE: usize = 0x24;
pub(super) const PREFETCHABLE_LIMIT: usize = 0x26;
pub(super) const PREFETCHABLE_BASE_UPPER: usize = 0x28;
pub(super) const PREFETCHABLE_LIMIT_UPPER: usize = 0x2c;
pub(super) const IO_BASE_UPPER: usize = 0x30;
pub(super) const IO_LIMIT_UPPER: usize = 0x32;
pub(super) const ROM_TYPE_1: usize = 0x38;
pub(super) const BRIDGE_CONTROL: usize = 0x3e;

/// Lowest offset of a capability (PCI Local Bus 3.0, 6.7).
pub(super) const FIRST_CAPABILITY: usize = 0x40;
/// First register that only ECAM reaches (PCI Express Base 4.0, 7.6).
pub(super) const EXTENDED: usize = 0x100;
/// Size of a function's configuration space in bytes.
pub(super) const SIZE: usize = 0x1000;

/// Bits of the command register (PCI Local Bus 3.0, 6.2.2).
pub(super) mod command {
    pub(in super::super) const IO: u16 = 1 << 0;
    pub(in super::super) const MEMORY: u16 = 1 << 1;
    pub(in super::super) const BUS_MASTER: u16 = 1 << 2;
    pub(in super::super) const PARITY: u16 = 1 << 6;
    pub(in super::super) const SERR: u16 = 1 << 8;
    pub(in super::super) const INTX_DISABLE: u16 = 1 << 10;
}

/// Bits of the status register, and of a bridge's secondary status register (PCI Local Bus 3.0,
/// 6.2.3).
pub(super) mod status {
    pub(in super::super) const CAPABILITIES: u16 = 1 << 4;
    /// Error bits: the device sets them, and writing 1 clears them.
    pub(in super::super) const ERRORS: u16 = 0xf900;
}

/// The header type register (PCI Local Bus 3.0, 6.2.1).
pub(super) mod header_type {
    pub(in super::super) const BRIDGE: u8 = 1;
    pub(in super::super) const MULTI_FUNCTION: u8 = 1 << 7;
}

/// Bits of the bridge control register (PCI-to-PCI Bridge Architecture 1.2,
/// 3.2.5.18; PCI Express Base 4.0, 7.5.1.3.10).
pub(super) mod bridge_control {
    pub(in super::super) const SECONDARY_RESET: u16 = 1 << 6;
    /// Parity, SERR, ISA, VGA, VGA 16-bit decode, reset.
    pub(in super::super) const WRITABLE: u16 = 0x005f;
    /// Bits of conventional bridges only: master abort mode, both discard timers and their SERR
    /// enable.
    pub(in super::super) const CONVENTIONAL: u16 = 0x0b20;
    /// Discard timer status.
    pub(in super::super) const CLEARS: u16 = 1 << 10;
}

/// Offsets into the PCI Express capability (PCI Express Base 4.0, 7.5.3).
pub(super) mod express {
    pub(in super::super) const DEVICE_CONTROL_2: usize = 0x28;
    pub(in super::super) const ARI_FORWARDING: u16 = 1 << 5;
}

/// Capability numbers (PCI Code and ID Assignment 1.11, 2 and 3).
pub(super) mod id {
    pub(in super::super) const POWER_MANAGEMENT: u8 = 0x01;
    pub(in super::super) const MSI: u8 = 0x05;
    pub(in super::super) const VENDOR: u8 = 0x09;
    pub(in super::super) const SUBSYSTEM: u8 = 0x0d;
    pub(in super::super) const EXPRESS: u8 = 0x10;
    pub(in super::super) const MSIX: u8 = 0x11;
    pub(in super::super) const SERIAL_NUMBER: u16 = 0x0003;
    pub(in super::super) const ARI: u16 = 0x000e;
}

//! Registers of configuration space, named as in the specifications.
//!
//! Sections are from these specifications:
//!
//! - "PCI": PCI Local Bus Specification 3.0
//! - "Bridge": PCI-to-PCI Bridge Architecture Specification 1.2
//! - "PC Card": PC Card Standard 8.0
//! - "PCIe": PCI Express Base Specification 5.0

/// Vendor ID, 16 bits (PCI 6.2.1). The whole word also holds the Device ID.
pub const VENDOR_ID: u16 = 0x00;
/// Device ID, 16 bits (PCI 6.2.1).
pub const DEVICE_ID: u16 = 0x02;
/// Command, 16 bits (PCI 6.2.2).
pub const COMMAND: u16 = 0x04;
/// Status, 16 bits (PCI 6.2.3).
pub const STATUS: u16 = 0x06;
/// Revision ID, 8 bits, and above it the Class Code, 24 bits (PCI 6.2.1).
pub const REVISION_ID: u16 = 0x08;
/// Cache Line Size, 8 bits (PCI 6.2.4), and with it Latency Timer, Header Type and BIST.
pub const CACHE_LINE_SIZE: u16 = 0x0c;
/// Header Type, 8 bits (PCI 6.2.1).
pub const HEADER_TYPE: u16 = 0x0e;
/// First Base Address Register (PCI 6.2.5). An endpoint has six, a bridge two.
pub const BASE_ADDRESS: u16 = 0x10;
/// Subsystem Vendor ID, 16 bits, and above it the Subsystem ID (PCI 6.2.4).
pub const SUBSYSTEM_VENDOR_ID: u16 = 0x2c;
/// Expansion ROM Base Address of an endpoint (PCI 6.2.5.2).
pub const EXPANSION_ROM: u16 = 0x30;
/// Capabilities Pointer, 8 bits, of an endpoint or bridge (PCI 6.7).
pub const CAPABILITIES_POINTER: u16 = 0x34;
/// Interrupt Line, 8 bits, and above it the Interrupt Pin (PCI 6.2.4).
pub const INTERRUPT_LINE: u16 = 0x3c;

/// Bridge: Primary, Secondary and Subordinate Bus Number and Secondary Latency Timer, 8 bits each
/// (Bridge 3.2.5.2 to 3.2.5.5). Same offset in a CardBus bridge (PC Card, volume 7, 4.5.2).
pub const PRIMARY_BUS: u16 = 0x18;
/// Bridge: I/O Base, 8 bits, and above it the I/O Limit (Bridge 3.2.5.6).
pub const IO_BASE: u16 = 0x1c;
/// Bridge: Secondary Status, 16 bits, above base and limit of I/O (Bridge 3.2.5.7).
pub const SECONDARY_STATUS: u16 = 0x1e;
/// Bridge: Memory Base, 16 bits, and above it the Memory Limit (Bridge 3.2.5.8).
pub const MEMORY_BASE: u16 = 0x20;
/// Bridge: Prefetchable Memory Base, 16 bits, and above it its Limit (Bridge 3.2.5.9).
pub const PREFETCHABLE_BASE: u16 = 0x24;
/// Bridge: the upper 32 bits of the prefetchable base (Bridge 3.2.5.10).
pub const PREFETCHABLE_BASE_UPPER: u16 = 0x28;
/// Bridge: the upper 32 bits of the prefetchable limit (Bridge 3.2.5.10).
pub const PREFETCHABLE_LIMIT_UPPER: u16 = 0x2c;
/// Bridge: the upper 16 bits of I/O Base, and above them of I/O Limit (Bridge 3.2.5.11).
pub const IO_BASE_UPPER: u16 = 0x30;
/// Bridge: Expansion ROM Base Address (Bridge 3.2.5.14).
pub const BRIDGE_EXPANSION_ROM: u16 = 0x38;
/// Bridge: Bridge Control, 16 bits (Bridge 3.2.5.18).
pub const BRIDGE_CONTROL: u16 = 0x3e;

/// CardBus bridge: Capabilities Pointer, 8 bits (PC Card, volume 7, 4.5.2).
pub const CARDBUS_CAPABILITIES_POINTER: u16 = 0x14;
/// CardBus bridge: Subsystem Vendor ID, 16 bits, and above it the Subsystem ID (PC Card, volume 7,
/// 4.5.2).
pub const CARDBUS_SUBSYSTEM_VENDOR_ID: u16 = 0x40;

/// First register after the header. Capabilities are from here to 0xff (PCI 6.7).
pub const FIRST_CAPABILITY: u16 = 0x40;
/// First extended capability (PCIe 7.6.3).
pub const FIRST_EXTENDED_CAPABILITY: u16 = 0x100;

/// [`COMMAND`]: enables decoding of I/O space (PCI 6.2.2).
pub const COMMAND_IO: u16 = 1 << 0;
/// [`COMMAND`]: enables decoding of memory space (PCI 6.2.2).
pub const COMMAND_MEMORY: u16 = 1 << 1;
/// [`COMMAND`]: enables bus mastering; in a bridge, forwards accesses from below it (PCI 6.2.2,
/// Bridge 3.2.4.3).
pub const COMMAND_BUS_MASTER: u16 = 1 << 2;

/// [`BRIDGE_CONTROL`], ISA Enable: in the I/O window's first 64 KiB, the upper 768 bytes of
/// each KiB are not forwarded (Bridge 3.2.5.18).
pub const BRIDGE_CONTROL_ISA: u16 = 1 << 2;

/// [`STATUS`]: the function has a capability list (PCI 6.2.3).
pub const STATUS_CAPABILITIES: u16 = 1 << 4;

/// [`HEADER_TYPE`]: the device has more functions (PCI 6.2.1).
pub const HEADER_MULTI_FUNCTION: u8 = 1 << 7;

/// Base Address Register: set for I/O space (PCI 6.2.5.1).
pub const BAR_IO: u32 = 1 << 0;
/// BAR of I/O space: bits that are not part of the address (PCI 6.2.5.1).
pub const BAR_IO_FLAGS: u32 = 0x3;
/// BAR of memory space: bits that are not part of the address (PCI 6.2.5.1).
pub const BAR_MEMORY_FLAGS: u32 = 0xf;
/// BAR of memory space: number of address bits (PCI 6.2.5.1, table 6-4).
pub const BAR_MEMORY_TYPE: u32 = 0x6;
/// BAR of memory space: prefetchable (PCI 6.2.5.1).
pub const BAR_PREFETCHABLE: u32 = 1 << 3;
/// Expansion ROM register: enables decoding (PCI 6.2.5.2).
pub const ROM_ENABLE: u32 = 1 << 0;
/// Expansion ROM register: address bits (PCI 6.2.5.2).
pub const ROM_ADDRESS: u32 = 0xffff_f800;

/// PCI Express capability: Device Capabilities 2, 32 bits (PCIe 7.5.3.15).
pub const EXPRESS_DEVICE_CAPABILITIES_2: u16 = 0x24;
/// PCI Express capability: Device Control 2, 16 bits (PCIe 7.5.3.16).
pub const EXPRESS_DEVICE_CONTROL_2: u16 = 0x28;
/// Device Capabilities 2: ARI Forwarding Supported (PCIe 7.5.3.15).
pub const EXPRESS_ARI_SUPPORTED: u32 = 1 << 5;
/// Device Control 2: ARI Forwarding Enable (PCIe 7.5.3.16).
pub const EXPRESS_ARI_ENABLE: u16 = 1 << 5;

/// ARI extended capability: ARI Capability Register, 16 bits, whose upper half is the
/// Next Function Number (PCIe 7.8.8.2).
pub const ARI_CAPABILITY: u16 = 0x04;

/// SR-IOV extended capability: NumVFs, 16 bits (PCIe 9.3.3.7).
pub const SR_IOV_VFS: u16 = 0x10;
/// SR-IOV extended capability: First VF Offset, 16 bits (PCIe 9.3.3.9).
pub const SR_IOV_FIRST_VF: u16 = 0x14;
/// SR-IOV extended capability: VF Stride, 16 bits (PCIe 9.3.3.10).
pub const SR_IOV_VF_STRIDE: u16 = 0x16;
/// SR-IOV extended capability: VF Device ID, 16 bits (PCIe 9.3.3.11).
pub const SR_IOV_VF_DEVICE: u16 = 0x1a;

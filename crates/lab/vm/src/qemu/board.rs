//! The boards that QEMU emulates, and their properties.

use strum::{Display, EnumString, IntoStaticStr};

use super::architecture::Architecture;
use crate::Error;
use crate::machine::offers;
use crate::need::{Device, Need};

/// A board that QEMU emulates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum QemuBoard {
    /// A PC of 2009 with Intel's Q35 chipset and PCI Express.
    #[default]
    Q35,
    /// QEMU's generic RISC-V board with a memory-mapped 16550 and PCI Express.
    Virt,
    /// SiFive's HiFive Unleashed of 2018, with an SPI flash, without 16550 or PCI.
    SifiveU,
    /// QEMU's generic Arm board, with a 16550 on PCI Express.
    #[strum(serialize = "arm-virt")]
    ArmVirt,
    /// The same board with its own serial port, a PL011.
    #[strum(serialize = "arm-virt-pl011")]
    ArmVirtPl011,
}

impl QemuBoard {
    /// All boards.
    pub const ALL: [Self; 5] = [
        Self::Q35,
        Self::Virt,
        Self::SifiveU,
        Self::ArmVirt,
        Self::ArmVirtPl011,
    ];

    /// Returns the board's name. No two boards have the same one.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the name of the board in QEMU's program for its architecture.
    pub(super) fn name_in_qemu(self) -> &'static str {
        match self {
            Self::ArmVirt | Self::ArmVirtPl011 => "virt",
            other => other.name(),
        }
    }

    /// Returns the architecture of its CPUs.
    pub const fn architecture(self) -> Architecture {
        match self {
            Self::Q35 => Architecture::X86_64,
            Self::Virt | Self::SifiveU => Architecture::Riscv64,
            Self::ArmVirt | Self::ArmVirtPl011 => Architecture::Aarch64,
        }
    }

    /// Returns the board's devices, among those that experiments measure.
    pub const fn devices(self) -> &'static [Device] {
        match self {
            Self::Q35 | Self::Virt | Self::ArmVirt => {
                &[Device::Uart, Device::Uart16550, Device::Pci]
            }
            Self::ArmVirtPl011 => &[Device::Uart, Device::Pci],
            Self::SifiveU => &[Device::Spi],
        }
    }

    /// Checks that a guest can have the required devices and CPUs.
    ///
    /// # Errors
    ///
    /// [`Error::Lacks`] or [`Error::Cpus`] for the first missing requirement.
    pub fn offers(self, need: &Need<'_>) -> Result<(), Error> {
        let most = match self {
            Self::Q35 | Self::Virt | Self::ArmVirt | Self::ArmVirtPl011 => 64,
            Self::SifiveU => 4,
        };
        offers(self.name(), self.devices(), most, need)
    }

    /// Returns whether the kernel, not the firmware, assigns PCI bus numbers and addresses.
    pub const fn leaves_pci_unassigned(self) -> bool {
        matches!(self, Self::Virt | Self::ArmVirt | Self::ArmVirtPl011)
    }

    /// Returns the number of CPUs that do not run the guest.
    pub(super) const fn other_cpus(self) -> u16 {
        match self {
            // An E51, which has no supervisor mode (QEMU, docs/system/riscv/sifive_u.rst).
            Self::SifiveU => 1,
            Self::Q35 | Self::Virt | Self::ArmVirt | Self::ArmVirtPl011 => 0,
        }
    }

    /// Returns the maximum number of bytes that the firmware writes to the serial line. OpenSBI's
    /// banner has about 2000.
    pub(super) const fn firmware_bytes(self) -> u64 {
        match self.architecture() {
            Architecture::X86_64 | Architecture::Aarch64 => 0,
            Architecture::Riscv64 => 16 << 10,
        }
    }

    /// Returns the RAM in MiB that a guest needs on this board in addition to the usual amount.
    pub(super) const fn more_mebibytes(self) -> u64 {
        match self.architecture() {
            Architecture::X86_64 | Architecture::Aarch64 => 0,
            // QEMU places the input behind the kernel at half of RAM, or at 128 MiB if that is
            // less. The device tree is at the end of RAM.
            Architecture::Riscv64 => 64,
        }
    }
}

//! The machines that QEMU emulates for us, and their particular properties.

use strum::{Display, EnumString, IntoStaticStr};

use super::architecture::Architecture;
use crate::Error;
use crate::machine::offers;
use crate::need::{Device, Need};

/// A machine that QEMU emulates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum QemuBoard {
    /// A PC of 2009: Intel's Q35 chipset, PCI Express.
    #[default]
    Q35,
    /// QEMU's own RISC-V machine: a 16550 in memory, PCI Express.
    Virt,
    /// SiFive's HiFive Unleashed of 2018: an SPI flash and an SD card; no 16550, no PCI.
    SifiveU,
}

impl QemuBoard {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Q35, Self::Virt, Self::SifiveU];

    /// QEMU's name for it.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the architecture of its CPUs.
    pub const fn architecture(self) -> Architecture {
        match self {
            Self::Q35 => Architecture::X86_64,
            Self::Virt | Self::SifiveU => Architecture::Riscv64,
        }
    }

    /// Devices that it has, of those that experiments are about.
    pub const fn devices(self) -> &'static [Device] {
        match self {
            Self::Q35 | Self::Virt => &[Device::Uart16550, Device::Pci],
            Self::SifiveU => &[Device::Spi],
        }
    }

    /// Checks that a guest on it can have all that is needed.
    ///
    /// # Errors
    ///
    /// [`Error::Lacks`] or [`Error::Cpus`].
    pub fn offers(self, need: &Need<'_>) -> Result<(), Error> {
        let most = match self {
            Self::Q35 | Self::Virt => 64,
            Self::SifiveU => 4,
        };
        offers(self.name(), self.devices(), most, need)
    }

    /// Whether its firmware leaves numbers and addresses on PCI to the kernel.
    pub const fn leaves_pci_unassigned(self) -> bool {
        matches!(self, Self::Virt)
    }

    /// CPUs that it has beside the guest's.
    pub(super) const fn other_cpus(self) -> u16 {
        match self {
            // An E51, which has no supervisor mode (QEMU, docs/system/riscv/sifive_u.rst).
            Self::SifiveU => 1,
            Self::Q35 | Self::Virt => 0,
        }
    }

    /// Bytes that its firmware writes to the serial line, at most: OpenSBI's banner has some
    /// 2000.
    pub(super) const fn firmware_bytes(self) -> u64 {
        match self.architecture() {
            Architecture::X86_64 => 0,
            Architecture::Riscv64 => 16 << 10,
        }
    }

    /// Returns the MiB of RAM that a guest needs here beside the amount that it needs everywhere.
    pub(super) const fn more_mebibytes(self) -> u64 {
        match self.architecture() {
            Architecture::X86_64 => 0,
            // QEMU puts the input behind the kernel by half of RAM, or by 128 MiB where
            // that is less, and the device tree at RAM's end.
            Architecture::Riscv64 => 64,
        }
    }
}

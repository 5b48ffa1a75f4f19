//! The machines that QEMU emulates for us, and what is particular to each.

use std::fmt;

use crate::Error;
use crate::machine::{Device, Need, offers};

/// A machine that QEMU emulates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum QemuBoard {
    /// A PC of 2009: Intel's Q35 chipset, PCI Express.
    #[default]
    Q35,
    /// QEMU's own RISC-V machine: a 16550 in memory, PCI Express.
    Virt,
    /// SiFive's HiFive Unleashed of 2018: an SPI flash and an SD card; no 16550, no PCI.
    SifiveU,
}

/// A kind of processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// Intel's and AMD's, 64 bits.
    X86_64,
    /// RISC-V, 64 bits.
    Riscv64,
}

impl QemuBoard {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Q35, Self::Virt, Self::SifiveU];

    /// QEMU's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Q35 => "q35",
            Self::Virt => "virt",
            Self::SifiveU => "sifive_u",
        }
    }

    /// What its CPUs are.
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

    /// MiB of RAM that a guest needs beside what it needs everywhere.
    pub(super) const fn more_mebibytes(self) -> u64 {
        match self.architecture() {
            Architecture::X86_64 => 0,
            // QEMU puts the input behind the kernel by half of RAM, or by 128 MiB where
            // that is less, and the device tree at RAM's end.
            Architecture::Riscv64 => 64,
        }
    }
}

impl Architecture {
    /// QEMU's program for it.
    pub const fn program(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
            Self::Riscv64 => "qemu-system-riscv64",
        }
    }

    /// The packages of Debian and Ubuntu that have it, and the firmware that it needs.
    pub(crate) const fn packages(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86",
            Self::Riscv64 => "qemu-system-misc and opensbi",
        }
    }

    /// What the command can be told to do without it, in words.
    pub const fn instead(self) -> &'static str {
        match self {
            Self::X86_64 => "`--on model`",
            Self::Riscv64 => "`--machine q35` (for spi `--on model`)",
        }
    }

    /// Rust's target for its kernel.
    pub const fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-none",
            Self::Riscv64 => "riscv64gc-unknown-none-elf",
        }
    }

    /// The architecture of an ELF file for 64 bits, if it is one of these.
    pub fn of_elf(file: &[u8]) -> Option<Self> {
        // System V ABI, "ELF Header": EI_CLASS is ELFCLASS64, EI_DATA is ELFDATA2LSB.
        if !file.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let machine = file.get(18..20)?; // e_machine
        match u16::from_le_bytes(machine.try_into().ok()?) {
            62 => Some(Self::X86_64),
            243 => Some(Self::Riscv64),
            _ => None,
        }
    }
}

impl fmt::Display for QemuBoard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for Architecture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::X86_64 => "x86-64",
            Self::Riscv64 => "riscv64",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_read_from_an_elf_file_alone() {
        let elf = |class, machine| {
            let mut file = vec![0; 64];
            file[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
            file[18] = machine;
            file
        };
        assert_eq!(
            Architecture::of_elf(&elf(2, 62)),
            Some(Architecture::X86_64)
        );
        assert_eq!(
            Architecture::of_elf(&elf(2, 243)),
            Some(Architecture::Riscv64)
        );
        assert_eq!(Architecture::of_elf(&elf(1, 243)), None, "32 bits");
        assert_eq!(Architecture::of_elf(&elf(2, 183)), None, "Arm");
        assert_eq!(Architecture::of_elf(&elf(2, 62)[..19]), None);
        assert_eq!(Architecture::of_elf(b""), None);
    }
}

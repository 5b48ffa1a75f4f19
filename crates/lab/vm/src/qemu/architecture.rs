//! Processor architectures that QEMU emulates.

/// A processor architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum Architecture {
    /// 64-bit x86.
    #[strum(serialize = "x86-64")]
    X86_64,
    /// 64-bit RISC-V.
    Riscv64,
    /// 64-bit Arm.
    Aarch64,
}

impl Architecture {
    /// Returns the name of QEMU's program for the architecture.
    pub const fn program(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
            Self::Riscv64 => "qemu-system-riscv64",
            Self::Aarch64 => "qemu-system-aarch64",
        }
    }

    /// Returns the packages of Debian and Ubuntu with this program and its firmware.
    pub(crate) const fn packages(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86",
            Self::Riscv64 => "qemu-system-misc and opensbi",
            Self::Aarch64 => "qemu-system-arm",
        }
    }

    /// Returns the command's options that work without this program, as text.
    pub const fn instead(self) -> &'static str {
        match self {
            Self::X86_64 => "`--on model`",
            Self::Riscv64 => "`--machine q35` (for spi `--on model`)",
            Self::Aarch64 => "`--machine q35`",
        }
    }

    /// Returns the Rust target of its kernel.
    pub const fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-none",
            Self::Riscv64 => "riscv64gc-unknown-none-elf",
            // Interrupt handlers save no floating-point registers.
            Self::Aarch64 => "aarch64-unknown-none-softfloat",
        }
    }

    /// Returns the architecture of a 64-bit ELF file; `None` for any other file.
    pub fn of_elf(file: &[u8]) -> Option<Self> {
        // System V ABI, "ELF Header": EI_CLASS is ELFCLASS64, EI_DATA is ELFDATA2LSB.
        if !file.starts_with(b"\x7fELF\x02\x01") {
            return None;
        }
        let machine = file.get(18..20)?; // e_machine
        match u16::from_le_bytes(machine.try_into().ok()?) {
            62 => Some(Self::X86_64),
            183 => Some(Self::Aarch64),
            243 => Some(Self::Riscv64),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_architecture_is_read_only_from_an_elf_file() {
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
        assert_eq!(
            Architecture::of_elf(&elf(2, 183)),
            Some(Architecture::Aarch64)
        );
        assert_eq!(Architecture::of_elf(&elf(1, 243)), None, "32 bits");
        assert_eq!(Architecture::of_elf(&elf(2, 40)), None, "32-bit Arm");
        assert_eq!(Architecture::of_elf(&elf(2, 62)[..19]), None);
        assert_eq!(Architecture::of_elf(b""), None);
    }
}

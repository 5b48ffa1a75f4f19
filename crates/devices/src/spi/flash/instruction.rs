//! SPI instructions and their opcodes.

/// SPI instruction of a NOR flash. `address` is its number of address bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instruction {
    /// RDID.
    ReadId,
    /// RDSR.
    ReadStatus,
    /// RDUID, with the number of bytes that precede the ID.
    ReadUniqueId(u8),
    /// WREN.
    WriteEnable,
    /// WRDI.
    WriteDisable,
    /// EN4B.
    EnterFourBytes,
    /// EX4B.
    LeaveFourBytes,
    /// Reads from an address, after `dummy` bytes.
    Read {
        address: u8,
        dummy: u8,
    },
    /// PP.
    Program {
        address: u8,
    },
    /// SER, BER32K, BER64K: erases `bytes` bytes.
    Erase {
        address: u8,
        bytes: usize,
    },
    /// CER.
    EraseChip,
    Unknown,
}

impl Instruction {
    /// Decodes an opcode. `address` is the address length in bytes for instructions whose length
    /// depends on the mode.
    pub(super) const fn of(byte: u8, address: u8) -> Self {
        match byte {
            0x9f => Self::ReadId,
            0x05 => Self::ReadStatus,
            0x4b => Self::ReadUniqueId(4),
            0x06 => Self::WriteEnable,
            0x04 => Self::WriteDisable,
            0xb7 => Self::EnterFourBytes,
            0xe9 => Self::LeaveFourBytes,
            0x03 => Self::Read { address, dummy: 0 },
            0x13 => Self::Read {
                address: 4,
                dummy: 0,
            },
            0x0b => Self::Read { address, dummy: 1 },
            0x0c => Self::Read {
                address: 4,
                dummy: 1,
            },
            0x02 => Self::Program { address },
            0x12 => Self::Program { address: 4 },
            0x20 | 0xd7 => Self::erase(address, 4),
            0x21 => Self::erase(4, 4),
            0x52 => Self::erase(address, 32),
            0x5c => Self::erase(4, 32),
            0xd8 => Self::erase(address, 64),
            0xdc => Self::erase(4, 64),
            0xc7 | 0x60 => Self::EraseChip,
            _ => Self::Unknown,
        }
    }

    const fn erase(address: u8, kib: usize) -> Self {
        Self::Erase {
            address,
            bytes: kib << 10,
        }
    }

    /// Returns the number of address bytes that follow the opcode.
    pub(super) const fn address(self) -> u8 {
        match self {
            Self::Read { address, .. }
            | Self::Program { address }
            | Self::Erase { address, .. } => address,
            _ => 0,
        }
    }
}

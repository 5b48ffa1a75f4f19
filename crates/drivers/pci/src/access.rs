//! Reads and writes of a function's registers, with any access method.

use nostall_io::Registers;
use thiserror::Error;

use crate::Address;

/// Size of a function's configuration space in bytes (PCI Express Base, 7.2). A conventional PCI
/// function has only the first 256.
pub const REGISTERS: u16 = 4096;

/// Width of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessWidth {
    /// 8 bits.
    Byte,
    /// 16 bits, at an even register.
    Word,
    /// 32 bits, at a multiple of 4.
    Dword,
}

impl AccessWidth {
    /// Returns the width in bytes.
    pub const fn bytes(self) -> u16 {
        match self {
            Self::Byte => 1,
            Self::Word => 2,
            Self::Dword => 4,
        }
    }

    /// Returns the value of a read of this width without an answer: all ones.
    pub const fn all_ones(self) -> u32 {
        match self {
            Self::Byte => 0xff,
            Self::Word => 0xffff,
            Self::Dword => 0xffff_ffff,
        }
    }

    /// Makes one read of this width in a register window.
    #[inline]
    pub(crate) fn read_in(self, window: &impl Registers, offset: usize) -> u32 {
        match self {
            Self::Byte => window.read8(offset).into(),
            Self::Word => window.read16(offset).into(),
            Self::Dword => window.read32(offset),
        }
    }

    /// Makes one write of this width in a register window.
    #[inline]
    pub(crate) fn write_in(self, window: &impl Registers, offset: usize, value: u32) {
        match self {
            Self::Byte => window.write8(offset, value as u8),
            Self::Word => window.write16(offset, value as u16),
            Self::Dword => window.write32(offset, value),
        }
    }
}

/// Reason why an access was not made.
///
/// A missing answer is not an error: an absent function reads all ones, as on the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AccessError {
    /// The register is not a multiple of the access's width (PCI 3.0, 3.2.2.3: an access does not
    /// cross its own width).
    #[error("register {register:#x} is not a multiple of {} bytes", .width.bytes())]
    Unaligned {
        /// The register.
        register: u16,
        /// Width of the access.
        width: AccessWidth,
    },
    /// The register number is beyond a function's last register.
    #[error("register {0:#x} is beyond the {REGISTERS} of a function")]
    NoSuchRegister(u16),
    /// This method cannot reach the register: another segment, another bus, or a register above
    /// 255 through ports.
    #[error(
        "register {register:#x} of {address} cannot be reached in this way: ports end at register \
         0xff of segment 0, ECAM at the buses of its windows"
    )]
    OutOfReach {
        /// Address of the function.
        address: Address,
        /// The register.
        register: u16,
    },
    /// The record does not have this register: the recording program did not read it, or had no
    /// permission.
    #[error("register {0:#x} is not in this record")]
    NotRecorded(u16),
    /// The source is read-only, such as a recorded dump.
    #[error("can only be read")]
    ReadOnly,
    /// The operating system refused the access, or could not make it.
    #[error("the system could not make the access")]
    Failed,
}

/// Method of access to configuration space.
///
/// Methods take `&self`; an implementation that needs a lock contains it. Accesses keep their
/// width, and are not split or merged.
pub trait ConfigAccess {
    /// Returns whether this method reaches this register of this function, if the function exists.
    /// If not, reads and writes return [`AccessError::OutOfReach`].
    fn reaches(&self, address: Address, register: u16) -> bool;

    /// Reads one register. An absent function reads all ones.
    ///
    /// # Errors
    ///
    /// [`AccessError`]; nothing was read then.
    fn read(&self, address: Address, register: u16, width: AccessWidth)
    -> Result<u32, AccessError>;

    /// Writes the low bits of `value` to one register.
    ///
    /// # Errors
    ///
    /// [`AccessError`]; nothing was written then.
    fn write(
        &self,
        address: Address,
        register: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), AccessError>;

    /// Reads 8 bits.
    ///
    /// # Errors
    ///
    /// The same as [`read`](Self::read).
    #[inline]
    fn read8(&self, address: Address, register: u16) -> Result<u8, AccessError> {
        Ok(self.read(address, register, AccessWidth::Byte)? as u8)
    }

    /// Reads 16 bits at an even register.
    ///
    /// # Errors
    ///
    /// The same as [`read`](Self::read).
    #[inline]
    fn read16(&self, address: Address, register: u16) -> Result<u16, AccessError> {
        Ok(self.read(address, register, AccessWidth::Word)? as u16)
    }

    /// Reads 32 bits at a multiple of 4.
    ///
    /// # Errors
    ///
    /// The same as [`read`](Self::read).
    #[inline]
    fn read32(&self, address: Address, register: u16) -> Result<u32, AccessError> {
        self.read(address, register, AccessWidth::Dword)
    }

    /// Writes 8 bits.
    ///
    /// # Errors
    ///
    /// The same as [`write`](Self::write).
    #[inline]
    fn write8(&self, address: Address, register: u16, value: u8) -> Result<(), AccessError> {
        self.write(address, register, AccessWidth::Byte, value.into())
    }

    /// Writes 16 bits at an even register.
    ///
    /// # Errors
    ///
    /// The same as [`write`](Self::write).
    #[inline]
    fn write16(&self, address: Address, register: u16, value: u16) -> Result<(), AccessError> {
        self.write(address, register, AccessWidth::Word, value.into())
    }

    /// Writes 32 bits at a multiple of 4.
    ///
    /// # Errors
    ///
    /// The same as [`write`](Self::write).
    #[inline]
    fn write32(&self, address: Address, register: u16, value: u32) -> Result<(), AccessError> {
        self.write(address, register, AccessWidth::Dword, value)
    }
}

impl<A: ConfigAccess + ?Sized> ConfigAccess for &A {
    #[inline]
    fn reaches(&self, address: Address, register: u16) -> bool {
        (**self).reaches(address, register)
    }

    #[inline]
    fn read(
        &self,
        address: Address,
        register: u16,
        width: AccessWidth,
    ) -> Result<u32, AccessError> {
        (**self).read(address, register, width)
    }

    #[inline]
    fn write(
        &self,
        address: Address,
        register: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), AccessError> {
        (**self).write(address, register, width, value)
    }
}

/// Combines several methods, for example the ECAM windows of a machine's segments. The first one
/// that reaches a register is used for it.
impl<A: ConfigAccess> ConfigAccess for [A] {
    #[inline]
    fn reaches(&self, address: Address, register: u16) -> bool {
        self.iter().any(|one| one.reaches(address, register))
    }

    #[inline]
    fn read(
        &self,
        address: Address,
        register: u16,
        width: AccessWidth,
    ) -> Result<u32, AccessError> {
        self.iter()
            .find(|one| one.reaches(address, register))
            .ok_or(AccessError::OutOfReach { address, register })?
            .read(address, register, width)
    }

    #[inline]
    fn write(
        &self,
        address: Address,
        register: u16,
        width: AccessWidth,
        value: u32,
    ) -> Result<(), AccessError> {
        self.iter()
            .find(|one| one.reaches(address, register))
            .ok_or(AccessError::OutOfReach { address, register })?
            .write(address, register, width, value)
    }
}

/// Checks that an access is aligned and within a function's registers.
#[inline]
pub(crate) fn check_register(register: u16, width: AccessWidth) -> Result<(), AccessError> {
    if !register.is_multiple_of(width.bytes()) {
        Err(AccessError::Unaligned { register, width })
    } else if register >= REGISTERS {
        Err(AccessError::NoSuchRegister(register))
    } else {
        Ok(())
    }
}

/// Checks that an access is aligned and within a function's registers, and that `access` reaches
/// the register.
#[inline]
pub(crate) fn check<A: ConfigAccess + ?Sized>(
    access: &A,
    address: Address,
    register: u16,
    width: AccessWidth,
) -> Result<(), AccessError> {
    check_register(register, width)?;
    if access.reaches(address, register) {
        Ok(())
    } else {
        Err(AccessError::OutOfReach { address, register })
    }
}

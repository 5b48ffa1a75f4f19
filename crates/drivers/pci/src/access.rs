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

/// One register of a function, and the width of an access to it. It is within a function's
/// registers, and a multiple of the width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Register {
    number: u16,
    width: AccessWidth,
}

impl Register {
    /// Creates a register from its number, 0 to 4095.
    ///
    /// # Errors
    ///
    /// [`AccessError::Unaligned`] or [`AccessError::NoSuchRegister`].
    #[inline(always)]
    pub const fn new(number: u16, width: AccessWidth) -> Result<Self, AccessError> {
        if !number.is_multiple_of(width.bytes()) {
            Err(AccessError::Unaligned {
                register: number,
                width,
            })
        } else if number >= REGISTERS {
            Err(AccessError::NoSuchRegister(number))
        } else {
            Ok(Self { number, width })
        }
    }

    /// Returns its number.
    pub const fn number(self) -> u16 {
        self.number
    }

    /// Returns the width of the access.
    pub const fn width(self) -> AccessWidth {
        self.width
    }

    /// Returns the error of a method that does not reach the register.
    pub const fn out_of_reach(self, address: Address) -> AccessError {
        AccessError::OutOfReach {
            address,
            register: self.number,
        }
    }
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
    fn read(&self, address: Address, register: Register) -> Result<u32, AccessError>;

    /// Writes the low bits of `value` to one register.
    ///
    /// # Errors
    ///
    /// [`AccessError`]; nothing was written then.
    fn write(&self, address: Address, register: Register, value: u32) -> Result<(), AccessError>;

    /// Returns the registers of the function at `address`. Take `(&access).at(address)` for an
    /// `access: &dyn ConfigAccess`.
    #[inline]
    fn at(&self, address: Address) -> At<'_, Self>
    where
        Self: Sized,
    {
        At {
            access: self,
            address,
        }
    }
}

/// Registers of one function: an access method, and the function's address.
///
/// ```
/// use nostall_devices::pci::{Topology, VirtualBus};
/// use nostall_pci::{Address, ConfigAccess, Ecam, registers};
///
/// let machine = VirtualBus::new(Topology::new(0..=7)?.bridge);
/// let ecam = Ecam::new(machine.ecam(), 0, 0..=7);
/// let bridge = ecam.at(Address::from_devfn(0, 0, 0));
/// assert_eq!(bridge.read16(registers::VENDOR_ID)?, 0x1af4);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct At<'a, A> {
    /// The access method.
    pub access: &'a A,
    /// The function's address.
    pub address: Address,
}

impl<A> Clone for At<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for At<'_, A> {}

impl<A: ConfigAccess> At<'_, A> {
    #[inline(always)]
    fn read(self, register: u16, width: AccessWidth) -> Result<u32, AccessError> {
        self.access
            .read(self.address, Register::new(register, width)?)
    }

    #[inline(always)]
    fn write(self, register: u16, width: AccessWidth, value: u32) -> Result<(), AccessError> {
        self.access
            .write(self.address, Register::new(register, width)?, value)
    }

    /// Returns whether the method reaches this register.
    #[inline]
    pub fn reaches(self, register: u16) -> bool {
        self.access.reaches(self.address, register)
    }

    /// Reads 8 bits.
    ///
    /// # Errors
    ///
    /// [`AccessError`]; nothing was read then.
    #[inline(always)]
    pub fn read8(self, register: u16) -> Result<u8, AccessError> {
        Ok(self.read(register, AccessWidth::Byte)? as u8)
    }

    /// Reads 16 bits at an even register.
    ///
    /// # Errors
    ///
    /// [`AccessError`]; nothing was read then.
    #[inline(always)]
    pub fn read16(self, register: u16) -> Result<u16, AccessError> {
        Ok(self.read(register, AccessWidth::Word)? as u16)
    }

    /// Reads 32 bits at a multiple of 4.
    ///
    /// # Errors
    ///
    /// [`AccessError`]; nothing was read then.
    #[inline(always)]
    pub fn read32(self, register: u16) -> Result<u32, AccessError> {
        self.read(register, AccessWidth::Dword)
    }

    /// Writes 8 bits.
    ///
    /// # Errors
    ///
    /// [`AccessError`]; nothing was written then.
    #[inline(always)]
    pub fn write8(self, register: u16, value: u8) -> Result<(), AccessError> {
        self.write(register, AccessWidth::Byte, value.into())
    }

    /// Writes 16 bits at an even register.
    ///
    /// # Errors
    ///
    /// [`AccessError`]; nothing was written then.
    #[inline(always)]
    pub fn write16(self, register: u16, value: u16) -> Result<(), AccessError> {
        self.write(register, AccessWidth::Word, value.into())
    }

    /// Writes 32 bits at a multiple of 4.
    ///
    /// # Errors
    ///
    /// [`AccessError`]; nothing was written then.
    #[inline(always)]
    pub fn write32(self, register: u16, value: u32) -> Result<(), AccessError> {
        self.write(register, AccessWidth::Dword, value)
    }
}

impl<A: ConfigAccess + ?Sized> ConfigAccess for &A {
    #[inline]
    fn reaches(&self, address: Address, register: u16) -> bool {
        (**self).reaches(address, register)
    }

    #[inline]
    fn read(&self, address: Address, register: Register) -> Result<u32, AccessError> {
        (**self).read(address, register)
    }

    #[inline]
    fn write(&self, address: Address, register: Register, value: u32) -> Result<(), AccessError> {
        (**self).write(address, register, value)
    }
}

/// Combines several methods, for example the ECAM windows of a machine's segments. The first one
/// that reaches a register is used for it. A scan takes them as `&&windows[..]`.
impl<A: ConfigAccess> ConfigAccess for [A] {
    #[inline]
    fn reaches(&self, address: Address, register: u16) -> bool {
        self.iter().any(|one| one.reaches(address, register))
    }

    #[inline]
    fn read(&self, address: Address, register: Register) -> Result<u32, AccessError> {
        self.iter()
            .find(|one| one.reaches(address, register.number))
            .ok_or(register.out_of_reach(address))?
            .read(address, register)
    }

    #[inline]
    fn write(&self, address: Address, register: Register, value: u32) -> Result<(), AccessError> {
        self.iter()
            .find(|one| one.reaches(address, register.number))
            .ok_or(register.out_of_reach(address))?
            .write(address, register, value)
    }
}

/// Checks that `access` reaches the register.
#[inline]
pub(crate) fn check<A: ConfigAccess>(
    access: &A,
    address: Address,
    register: Register,
) -> Result<(), AccessError> {
    if access.reaches(address, register.number) {
        Ok(())
    } else {
        Err(register.out_of_reach(address))
    }
}

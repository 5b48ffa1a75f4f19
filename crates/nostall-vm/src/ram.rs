//! Guest RAM that outlives the guest.

use std::io;
use std::ops::Range;

use crate::process::MemoryFile;

/// Guest RAM in a file that the machine and we share: what one guest leaves in it, the
/// next one finds, and the host reads once the guest is dead. It starts as
/// zeros, takes no room where nobody has written, and is gone when dropped.
pub struct GuestRam {
    pub(crate) file: MemoryFile,
    size: u64,
}

impl GuestRam {
    /// RAM of `mebibytes` MiB.
    ///
    /// # Errors
    ///
    /// The system's, if there is no such room.
    pub fn new(mebibytes: u32) -> io::Result<Self> {
        let size = u64::from(mebibytes) << 20;
        let file = MemoryFile::new(&[])?;
        file.resize(size)?;
        Ok(Self { file, size })
    }

    /// Bytes of it.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// What lies at these addresses, counted from where RAM begins: on a PC the physical
    /// ones for RAM below 2 GiB.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if not all of it is RAM; the system's.
    pub fn read(&self, addresses: Range<u64>) -> io::Result<Vec<u8>> {
        if addresses.is_empty() || addresses.end > self.size {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.file
            .read_from(addresses.start, addresses.end - addresses.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_ram_is_zeros_and_has_an_end() {
        let ram = GuestRam::new(2).unwrap();
        assert_eq!(ram.size(), 2 << 20);
        assert_eq!(ram.read(0xff..0x101).unwrap(), [0, 0]);
        assert!(ram.read((2 << 20) - 1..(2 << 20) + 1).is_err());
        assert!(ram.read(u64::MAX..u64::MAX).is_err());
    }
}

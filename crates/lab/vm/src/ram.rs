//! Guest RAM that outlives the guest.

use std::fs::File;
use std::io;
use std::ops::Range;

use crate::process::MemoryFile;

/// Guest RAM in a file that the machine and this process share. The next guest finds the contents
/// left by the previous one, and the host can read it after the guest has ended. RAM starts as
/// zeros, allocates only written pages, and is freed when dropped.
pub struct GuestRam {
    pub(crate) file: MemoryFile,
    size: u64,
}

impl GuestRam {
    /// Allocates `mebibytes` MiB of RAM.
    ///
    /// # Errors
    ///
    /// The system's error, such as too little memory.
    pub fn new(mebibytes: u32) -> io::Result<Self> {
        let size = u64::from(mebibytes) << 20;
        let file = MemoryFile::new(&[])?;
        file.resize(size)?;
        Ok(Self { file, size })
    }

    /// Returns the size in bytes.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Returns a handle to the file, for a reader while the guest runs. File offsets are addresses
    /// from the start of RAM.
    ///
    /// # Errors
    ///
    /// Returns the operating system's error.
    pub fn share(&self) -> io::Result<File> {
        self.file.share()
    }

    /// Reads these addresses, relative to the start of RAM. On a PC, they are the physical
    /// addresses of RAM below 2 GiB.
    ///
    /// # Errors
    ///
    /// `InvalidInput` if the range is empty or not entirely RAM; otherwise the system's error.
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

//! I/O ports of a Linux host, through `/dev/port`.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::Registers;

/// Window of consecutive I/O ports, accessed through Linux's `/dev/port`.
///
/// It needs root (`CAP_SYS_RAWIO`) and a kernel that is not locked down. Each access is a system
/// call. Linux makes only single-byte port accesses, and writes several bytes to *successive
/// ports*. So a burst is one write for each byte, and a 16- or 32-bit access is two or four byte
/// accesses.
#[derive(Debug)]
pub struct DevPort {
    file: File,
    base: u16,
    len: u16,
}

impl DevPort {
    /// Opens a window of `len` ports from `base`.
    ///
    /// Another driver, including Linux's own, may use the same ports. This is not checked.
    ///
    /// # Errors
    ///
    /// The error of opening `/dev/port`: not found, or no permission.
    pub fn open(base: u16, len: u16) -> io::Result<Self> {
        Self::open_file(Path::new("/dev/port"), base, len)
    }

    fn open_file(path: &Path, base: u16, len: u16) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Self { file, base, len })
    }

    fn position(&self, offset: usize) -> Option<u64> {
        let port = usize::from(self.base).checked_add(offset)?;
        (offset < self.len.into() && port <= 0xffff).then_some(port as u64)
    }
}

impl Registers for DevPort {
    /// Reads one byte. Returns all ones if the read fails.
    fn read8(&self, offset: usize) -> u8 {
        let mut byte = [!0];
        if let Some(position) = self.position(offset)
            && self.file.read_exact_at(&mut byte, position).is_err()
        {
            return !0;
        }
        byte[0]
    }

    /// Writes one byte. A failed write has no effect, as with a missing device.
    fn write8(&self, offset: usize, value: u8) {
        if let Some(position) = self.position(offset) {
            let _ = self.file.write_all_at(&[value], position);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a file in place of `/dev/port`, which also advances by one for each byte.
    fn stand_in() -> (tempfile::NamedTempFile, DevPort) {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(0x10000).unwrap();
        let ports = DevPort::open_file(file.path(), 0x3f8, 8).unwrap();
        (file, ports)
    }

    #[test]
    fn a_burst_never_touches_the_next_port() {
        let (file, ports) = stand_in();
        ports.write_burst(0, b"a whole burst");
        let mut around = [0; 4];
        file.as_file().read_exact_at(&mut around, 0x3f7).unwrap();
        assert_eq!(&around, b"\0t\0\0");
        assert_eq!(ports.burst_instructions(13), 13);
    }

    #[test]
    fn wide_accesses_are_bytes_at_successive_ports() {
        let (_file, ports) = stand_in();
        ports.write32(0, 0x0403_0201);
        assert_eq!(ports.read8(2), 3);
        assert_eq!(ports.read16(1), 0x0302);
        assert_eq!(ports.read32(0), 0x0403_0201);
        ports.write16(6, 0x0605);
        assert_eq!(ports.read32(4), 0x0605_0000);
    }

    #[test]
    fn an_access_outside_the_window_reads_all_ones() {
        let (file, ports) = stand_in();
        ports.write8(8, 7);
        ports.write8(usize::MAX, 7);
        assert_eq!(ports.read8(8), !0);
        assert_eq!(ports.read8(usize::MAX), !0);
        let mut byte = [1];
        file.as_file().read_exact_at(&mut byte, 0x400).unwrap();
        assert_eq!(byte, [0]);
    }

    #[test]
    fn a_read_that_fails_reads_all_ones() {
        let (file, ports) = stand_in();
        file.as_file().set_len(0x3f9).unwrap();
        assert_eq!((ports.read8(0), ports.read8(1)), (0, !0));
    }

    #[test]
    fn no_port_is_above_the_last_one() {
        let (file, _) = stand_in();
        let ports = DevPort::open_file(file.path(), 0xffff, 2).unwrap();
        file.as_file().set_len(0x20000).unwrap();
        assert_eq!((ports.read8(0), ports.read8(1)), (0, !0));
    }

    #[test]
    fn a_missing_device_node_is_an_error() {
        let missing = DevPort::open_file(Path::new("/nonexistent/port"), 0, 1);
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

//! Configuration mechanism #1: an index port and a data port (PCI Local Bus 3.0, 3.2.2.3.2).

use super::address::Address;
use super::host_bridge::{HostBridge, Written};

/// CONFIG_ADDRESS bit 31: enables the data port.
const ENABLE: u32 = 1 << 31;
/// Writable bits of CONFIG_ADDRESS; the others read 0.
pub(super) const KEPT: u32 = 0x80ff_fffc;
const DATA: u16 = 4;

impl HostBridge {
    /// Handles a read from the ports 0xcf8 to 0xcff; `offset` is 0 for 0xcf8.
    ///
    /// The index is only accessible as 4 bytes. Shorter accesses belong to other devices (0xcf9 is
    /// a PC's reset control register) and read all ones here.
    pub fn port_read(&mut self, offset: u16, data: &mut [u8]) {
        if offset == 0 && data.len() == 4 {
            data.copy_from_slice(&self.index.to_le_bytes());
            return;
        }
        match self.selected(offset, data.len()) {
            Some((address, register)) => self.read(address, register, data),
            None => data.fill(0xff),
        }
    }

    /// Handles a write to the ports 0xcf8 to 0xcff; `offset` is 0 for 0xcf8.
    pub fn port_write(&mut self, offset: u16, data: &[u8]) -> Option<Written> {
        if offset == 0 {
            if let Ok(index) = data.try_into() {
                self.index = u32::from_le_bytes(index) & KEPT;
            }
            return None;
        }
        let (address, register) = self.selected(offset, data.len())?;
        self.write(address, register, data)
    }

    /// Returns the function and register that an access to the data port selects.
    fn selected(&self, offset: u16, length: usize) -> Option<(Address, u16)> {
        let byte = offset.checked_sub(DATA)?;
        if self.index & ENABLE == 0 || usize::from(byte) + length > 4 {
            return None;
        }
        let address = Address::from_bits((self.index >> 8) as u16);
        Some((address, self.index as u16 & 0xfc | byte))
    }
}

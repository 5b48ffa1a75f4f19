//! Bytes of a virtual memory in a row.

use super::AddressSpace;

/// Number of bytes that are read at once: a page, because the dump may lack the next one.
const PAGE: u64 = 4096;

/// Bytes from an address on, read page by page.
pub(crate) struct Stream<'a> {
    space: &'a AddressSpace<'a>,
    /// Address behind the bytes.
    end: u64,
    bytes: Vec<u8>,
    taken: usize,
}

impl AddressSpace<'_> {
    /// Returns the bytes from an address on.
    pub fn stream(&self, at: u64) -> Stream<'_> {
        Stream {
            space: self,
            end: at,
            bytes: Vec::new(),
            taken: 0,
        }
    }
}

impl Stream<'_> {
    /// Returns the address of the next byte.
    pub fn at(&self) -> u64 {
        self.end - (self.bytes.len() - self.taken) as u64
    }

    /// Returns the next `len` bytes; `None` if the dump lacks any of them.
    pub fn take(&mut self, len: usize) -> Option<&[u8]> {
        while self.bytes.len() - self.taken < len {
            let page = PAGE - self.end % PAGE;
            let page = self.space.read(self.end, page as usize)?;
            self.end = self.end.checked_add(page.len() as u64)?;
            self.bytes.drain(..self.taken);
            self.taken = 0;
            self.bytes.extend(page);
        }
        let bytes = &self.bytes[self.taken..][..len];
        self.taken += len;
        Some(bytes)
    }
}

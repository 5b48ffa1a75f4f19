//! A CAN frame, and its layout in a buffer.

use super::registers::{DLC_RTR, SIDL_EXIDE, SIDL_SRR};

/// Size of a transmit or receive buffer in bytes: 4 of identifier, 1 of length, 8 of data.
pub(super) const BUFFER: usize = 13;

/// A frame's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identifier {
    /// 11-bit identifier.
    Standard(u16),
    /// 29-bit identifier.
    Extended(u32),
}

/// A frame on the CAN bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    identifier: Identifier,
    /// Number of data bytes, sent or requested; at most 8.
    len: u8,
    /// Set for a remote frame, which requests data and carries none.
    remote: bool,
    data: [u8; 8],
}

impl Frame {
    /// Creates a data frame. It uses the first eight bytes of `data`, and the lower 11 or 29 bits
    /// of the identifier.
    pub fn new(identifier: Identifier, data: &[u8]) -> Self {
        let mut frame = Self {
            identifier: match identifier {
                Identifier::Standard(id) => Identifier::Standard(id & 0x7ff),
                Identifier::Extended(id) => Identifier::Extended(id & 0x1fff_ffff),
            },
            len: data.len().min(8) as u8,
            remote: false,
            data: [0; 8],
        };
        for (to, from) in frame.data.iter_mut().zip(data) {
            *to = *from;
        }
        frame
    }

    /// Creates a remote frame that requests `len` bytes, clamped to 8.
    pub fn remote(identifier: Identifier, len: u8) -> Self {
        Self {
            len: len.min(8),
            remote: true,
            ..Self::new(identifier, &[])
        }
    }

    /// Returns the identifier.
    pub const fn identifier(&self) -> Identifier {
        self.identifier
    }

    /// Returns the data: empty for a remote frame.
    pub fn data(&self) -> &[u8] {
        match self.remote {
            true => &[],
            false => &self.data[..usize::from(self.len)],
        }
    }

    /// Returns the number of bytes that a remote frame requests, or `None` for a data frame.
    pub fn asks_for(&self) -> Option<u8> {
        self.remote.then_some(self.len)
    }

    /// Returns the frame in the layout of a receive buffer, from RXBnSIDH.
    pub fn received(&self) -> [u8; BUFFER] {
        let mut buffer = [0; BUFFER];
        let remote = if self.remote { 1 } else { 0 };
        buffer[..4].copy_from_slice(&identifier_bytes(self.identifier));
        match self.identifier {
            Identifier::Standard(_) => buffer[1] |= remote * SIDL_SRR,
            Identifier::Extended(_) => buffer[4] |= remote * DLC_RTR,
        }
        buffer[4] |= self.len;
        buffer[5..].copy_from_slice(&self.data);
        buffer
    }

    /// Returns the frame in the layout of a transmit buffer, from TXBnSIDH.
    pub fn to_transmit(&self) -> [u8; BUFFER] {
        let mut buffer = self.received();
        buffer[1] &= !SIDL_SRR;
        buffer[4] |= if self.remote { DLC_RTR } else { 0 };
        buffer
    }

    /// Decodes a frame from a transmit buffer. A length above 8 counts as 8.
    pub(super) fn transmitted(buffer: [u8; BUFFER]) -> Self {
        let identifier = identifier_of([buffer[0], buffer[1], buffer[2], buffer[3]]);
        let len = (buffer[4] & 0xf).min(8);
        if buffer[4] & DLC_RTR != 0 {
            return Self::remote(identifier, len);
        }
        Self::new(identifier, &buffer[5..5 + usize::from(len)])
    }
}

/// Encodes an identifier as SIDH, SIDL, EID8 and EID0.
fn identifier_bytes(identifier: Identifier) -> [u8; 4] {
    match identifier {
        Identifier::Standard(id) => [(id >> 3) as u8, (id as u8) << 5, 0, 0],
        Identifier::Extended(id) => {
            let standard = id >> 18;
            let middle = (id >> 16) as u8 & 3;
            [
                (standard >> 3) as u8,
                (standard as u8) << 5 | SIDL_EXIDE | middle,
                (id >> 8) as u8,
                id as u8,
            ]
        }
    }
}

/// Decodes an identifier from SIDH, SIDL, EID8 and EID0. Filters and masks have the same layout.
pub(super) fn identifier_of([sidh, sidl, eid8, eid0]: [u8; 4]) -> Identifier {
    let standard = u16::from(sidh) << 3 | u16::from(sidl >> 5);
    if sidl & SIDL_EXIDE == 0 {
        return Identifier::Standard(standard);
    }
    let middle = u32::from(sidl & 3) << 16;
    let low = u32::from(eid8) << 8 | u32::from(eid0);
    Identifier::Extended(u32::from(standard) << 18 | middle | low)
}

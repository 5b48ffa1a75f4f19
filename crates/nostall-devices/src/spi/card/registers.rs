//! What a card says of itself (chapter 5, "Card Registers").

use super::crc::crc7;

/// Blocks for which CSD version 2 has a number: 512 KiB each.
const UNIT: u64 = 1024;

/// Blocks of a card whose memory has so many: up to the next number that a CSD can say,
/// which has 22 bits.
pub(super) fn capacity(blocks: u32) -> u64 {
    let units = u64::from(blocks).div_ceil(UNIT).clamp(1, 1 << 22);
    units * UNIT
}

/// CSD, version 2.
pub(super) fn csd(blocks: u32) -> [u8; 16] {
    let size = (capacity(blocks) / UNIT - 1) as u32;
    let [_, a, b, c] = size.to_be_bytes();
    sealed([
        // Version 2; TAAC, NSAC: fixed; 25 MHz.
        0x40,
        0x0e,
        0x00,
        0x32,
        // Command classes 0, 2, 4, 5, 7, 8, 10; blocks of 512 bytes.
        0x5b,
        0x59,
        0x00,
        a & 0x3f,
        b,
        c,
        // Erased in any blocks; sectors of 64 KiB; blocks of 512 bytes are written.
        0x7f,
        0x80,
        0x0a,
        0x40,
        0x00,
        0,
    ])
}

/// CID: nobody's card, "MODEL", revision 1.0, of January 2024.
pub(super) fn cid() -> [u8; 16] {
    let mut cid = [0; 16];
    cid[1..8].copy_from_slice(b"NSMODEL");
    cid[8] = 0x10;
    cid[13..15].copy_from_slice(&[0x01, 0x81]);
    sealed(cid)
}

fn sealed(mut register: [u8; 16]) -> [u8; 16] {
    register[15] = crc7(&register[..15]);
    register
}

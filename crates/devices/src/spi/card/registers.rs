//! Card registers (chapter 5, "Card Registers") and both checksums ("Cyclic Redundancy Code
//! (CRC)").

/// Capacity unit of CSD version 2, in blocks: 512 KiB.
const UNIT: u64 = 1024;

/// Rounds `blocks` up to a capacity that the CSD's 22-bit field can express.
pub(super) fn capacity(blocks: u32) -> u64 {
    let units = u64::from(blocks).div_ceil(UNIT).clamp(1, 1 << 22);
    units * UNIT
}

/// Returns the CSD register, version 2.
pub(super) fn csd(blocks: u32) -> [u8; 16] {
    let size = (capacity(blocks) / UNIT - 1) as u32;
    let [_, a, b, c] = size.to_be_bytes();
    sealed([
        // Version 2; TAAC, NSAC: fixed; 25 MHz.
        0x40,
        0x0e,
        0x00,
        0x32,
        // Command classes 0, 2, 4, 5, 7, 8 and 10; blocks of 512 bytes.
        0x5b,
        0x59,
        0x00,
        a & 0x3f,
        b,
        c,
        // Erase in single blocks; sectors of 64 KiB; writes in blocks of 512 bytes.
        0x7f,
        0x80,
        0x0a,
        0x40,
        0x00,
        0,
    ])
}

/// Returns the CID register: no manufacturer, product "MODEL", revision 1.0, January 2024.
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

/// Returns the CRC7 (x^7 + x^3 + 1) of a command or register, in bits 7:1, with the end bit.
pub(super) fn crc7(bytes: &[u8]) -> u8 {
    let crc = bytes.iter().fold(0_u8, |crc, &byte| {
        (0..8).fold(crc ^ byte, |crc, _| {
            if crc & 0x80 == 0 {
                crc << 1
            } else {
                crc << 1 ^ 0x09 << 1
            }
        })
    });
    crc | 1
}

/// Returns the CRC16 of data: x^16 + x^12 + x^5 + 1.
pub(super) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0_u16, |crc, &byte| {
        // Processes eight bits at once.
        let mixed = (crc >> 8) as u8 ^ byte;
        let mixed = u16::from(mixed ^ mixed >> 4);
        crc << 8 ^ mixed << 12 ^ mixed << 5 ^ mixed
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Source: the specification's examples.
    #[test]
    fn checksums_match_the_examples_of_the_specification() {
        assert_eq!(crc7(&[0x40, 0, 0, 0, 0]), 0x95);
        assert_eq!(crc7(&[0x51, 0, 0, 0, 0]), 0b0101010 << 1 | 1);
        assert_eq!(crc7(&[0x11, 0, 0, 0x09, 0]), 0b0110011 << 1 | 1);
        assert_eq!(crc16(&[0xff; 512]), 0x7fa1);
    }
}

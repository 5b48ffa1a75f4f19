//! The two checksums ("Cyclic Redundancy Code (CRC)").

/// Of commands and registers: x^7 + x^3 + 1; in the upper seven bits, and the end bit.
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

/// Of data: x^16 + x^12 + x^5 + 1.
pub(super) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0_u16, |crc, &byte| {
        // Eight steps at once.
        let mixed = (crc >> 8) as u8 ^ byte;
        let mixed = u16::from(mixed ^ mixed >> 4);
        crc << 8 ^ mixed << 12 ^ mixed << 5 ^ mixed
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The specification's own examples.
    #[test]
    fn checksums_are_those_of_the_specification() {
        assert_eq!(crc7(&[0x40, 0, 0, 0, 0]), 0x95);
        assert_eq!(crc7(&[0x51, 0, 0, 0, 0]), 0b0101010 << 1 | 1);
        assert_eq!(crc7(&[0x11, 0, 0, 0x09, 0]), 0b0110011 << 1 | 1);
        assert_eq!(crc16(&[0xff; 512]), 0x7fa1);
    }
}

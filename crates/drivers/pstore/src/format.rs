//! Words of the format: the start and the kind of a zone.
//!
//! Source: Linux 6.1, `fs/pstore/ram_core.c` (`struct persistent_ram_buffer`) and `fs/pstore/ram.c`
//! (the signatures).

use core::fmt;
use core::str::FromStr;

/// Value of a zone's first word: "DBGC" in memory on a little-endian machine.
pub const SIGNATURE: u32 = 0x4347_4244;

/// Size of a zone's header: signature, start, size, each 32 bits in the writer's byte order.
pub const HEADER: usize = 12;

/// Number of data bytes with one group of parity bytes.
pub const BLOCK: usize = 128;

/// Largest number of parity bytes in a group. A block and its parity are one codeword of at most
/// 255 bytes.
pub const MAX_PARITY: usize = 255 - BLOCK;

/// Kind of the contents of a zone.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::IntoStaticStr,
)]
#[strum(serialize_all = "lowercase")]
pub enum ZoneKind {
    /// A kernel log, written when the kernel crashed.
    Dmesg,
    /// The console's last output, a ring.
    Console,
    /// Function trace records, a ring.
    Ftrace,
    /// User space's writes to `/dev/pmsg0`, a ring.
    Pmsg,
}

impl ZoneKind {
    /// Returns Linux's name, the first part of its file names.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the first word of a zone of this kind. A trace zone's word includes the version of
    /// the kernel that wrote it, and Linux accepts only its own version.
    pub const fn signature(self, linux: LinuxVersion) -> u32 {
        match self {
            Self::Ftrace => SIGNATURE ^ linux.0,
            _ => SIGNATURE,
        }
    }
}

/// Linux's `LINUX_VERSION_CODE`: major, minor and patch level (at most 255) in one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinuxVersion(pub u32);

impl LinuxVersion {
    /// Creates the version `major.minor.patch`. A patch level above 255 counts as 255, as in Linux.
    pub const fn new(major: u8, minor: u8, patch: u16) -> Self {
        let patch = if patch > 255 { 255 } else { patch as u32 };
        Self((major as u32) << 16 | (minor as u32) << 8 | patch)
    }
}

impl FromStr for LinuxVersion {
    type Err = NoVersion;

    /// Parses a version in Linux's format, such as `6.12` or `6.1.0-13-amd64`. The third number may
    /// be missing, and text after the numbers is ignored.
    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let mut numbers = text[..end.unwrap_or(text.len())].split('.');
        let mut part = || numbers.next().ok_or(NoVersion);
        let (major, minor) = (part()?, part()?);
        let patch = match part() {
            Err(_) | Ok("") => 0,
            Ok(patch) => patch.parse().map_err(|_| NoVersion)?,
        };
        let byte = |text: &str| text.parse().map_err(|_| NoVersion);
        Ok(Self::new(byte(major)?, byte(minor)?, patch))
    }
}

/// Error: the text is not a version of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoVersion;

impl fmt::Display for NoVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a version such as 6.1.0")
    }
}

impl core::error::Error for NoVersion {}

impl fmt::Display for LinuxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(code) = self;
        write!(f, "{}.{}.{}", code >> 16, code >> 8 & 0xff, code & 0xff)
    }
}

/// Byte order of words in memory. The format uses the writer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub enum ByteOrder {
    /// Lowest byte first, as on x86, and nearly always on ARM and RISC-V.
    Little,
    /// Highest byte first, as on s390x and some MIPS and PowerPC.
    Big,
}

impl ByteOrder {
    /// Byte order of this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "little") {
        Self::Little
    } else {
        Self::Big
    };

    /// Decodes a 32-bit word.
    pub const fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    /// Decodes a 64-bit word.
    pub const fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    /// Encodes a 32-bit word.
    pub const fn bytes32(self, word: u32) -> [u8; 4] {
        match self {
            Self::Little => word.to_le_bytes(),
            Self::Big => word.to_be_bytes(),
        }
    }

    /// Encodes a 64-bit word.
    pub const fn bytes64(self, word: u64) -> [u8; 8] {
        match self {
            Self::Little => word.to_le_bytes(),
            Self::Big => word.to_be_bytes(),
        }
    }
}

/// Header of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneHeader {
    /// [`SIGNATURE`], XORed with the kernel's version in trace zones.
    pub signature: u32,
    /// Offset of the next byte in the data. In a ring that has wrapped, the oldest byte is there.
    pub start: u32,
    /// Number of valid bytes of data.
    pub size: u32,
}

impl ZoneHeader {
    /// Decodes a header.
    pub const fn decode(bytes: [u8; HEADER], order: ByteOrder) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = bytes;
        Self {
            signature: order.u32([a, b, c, d]),
            start: order.u32([e, f, g, h]),
            size: order.u32([i, j, k, l]),
        }
    }

    /// Encodes the header.
    pub fn encode(self, order: ByteOrder) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&order.bytes32(self.signature));
        bytes[4..8].copy_from_slice(&order.bytes32(self.start));
        bytes[8..].copy_from_slice(&order.bytes32(self.size));
        bytes
    }

    /// Returns whether Linux would accept the header for a zone with `data` bytes. The size must be
    /// at most that, and the start at most the size.
    pub const fn is_valid(self, data: usize) -> bool {
        self.size as usize <= data && self.start <= self.size
    }
}

/// Size of the largest zone in bytes: the header's numbers are signed in Linux.
const LARGEST_ZONE: usize = i32::MAX as usize;

/// Division of a zone: header, data, a group of parity bytes for each block, and one group for the
/// header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    zone: usize,
    parity: usize,
    groups: usize,
}

impl Division {
    /// Divides a zone of `zone` bytes with `parity` bytes for each group (0 for no error
    /// correction). Returns `None` if there is no room for data, if `parity` exceeds
    /// [`MAX_PARITY`], or if the zone has 2 GiB or more.
    pub const fn new(zone: usize, parity: usize) -> Option<Self> {
        if parity > MAX_PARITY || zone <= HEADER || zone > LARGEST_ZONE {
            return None;
        }
        if parity == 0 {
            return Some(Self {
                zone,
                parity,
                groups: 0,
            });
        }
        let Some(room) = (zone - HEADER).checked_sub(parity) else {
            return None;
        };
        let groups = room.div_ceil(BLOCK + parity);
        if (groups + 1) * parity >= zone - HEADER {
            return None;
        }
        Some(Self {
            zone,
            parity,
            groups,
        })
    }

    /// Returns the size of the zone in bytes.
    pub const fn zone(self) -> usize {
        self.zone
    }

    /// Returns the number of data bytes.
    pub const fn data(self) -> usize {
        if self.parity == 0 {
            self.zone - HEADER
        } else {
            self.zone - HEADER - (self.groups + 1) * self.parity
        }
    }

    /// Returns the number of parity bytes for each group; 0 without error correction.
    pub const fn parity(self) -> usize {
        self.parity
    }

    /// Returns the number of data blocks, of which the last may be short. It may be one less than
    /// the number of parity groups.
    pub const fn blocks(self) -> usize {
        self.data().div_ceil(BLOCK)
    }

    /// Returns the number of data bytes in block `block`. The last block may be short; blocks after
    /// it have 0.
    pub const fn block_len(self, block: usize) -> usize {
        let rest = self.data().saturating_sub(block.saturating_mul(BLOCK));
        if rest < BLOCK { rest } else { BLOCK }
    }

    /// Returns the offset of block `block`'s parity in the zone.
    pub const fn block_parity(self, block: usize) -> usize {
        HEADER + self.data() + block * self.parity
    }

    /// Returns the offset of the header's parity in the zone.
    pub const fn header_parity(self) -> usize {
        HEADER + self.data() + self.groups * self.parity
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_version_is_one_number() {
        assert_eq!(LinuxVersion::new(6, 1, 192).0, 0x0006_01c0);
        assert_eq!(LinuxVersion::new(4, 9, 337).to_string(), "4.9.255");
    }

    #[test]
    fn versions_are_parsed_as_kernels_write_them() {
        let new = |a, b, c| Ok(LinuxVersion::new(a, b, c));
        for (text, version) in [
            ("6.1.0", new(6, 1, 0)),
            ("6.12", new(6, 12, 0)),
            ("6.1.0-13-amd64\n", new(6, 1, 0)),
            ("6.18.44-fc", new(6, 18, 44)),
            ("6.19-rc1", new(6, 19, 0)),
            ("4.9.337", new(4, 9, 255)),
            ("6", Err(NoVersion)),
            ("", Err(NoVersion)),
            ("6.x", Err(NoVersion)),
            ("600.1.0", Err(NoVersion)),
        ] {
            assert_eq!(text.parse(), version, "{text}");
        }
    }

    #[test]
    fn a_zone_is_divided_as_in_linux() {
        // The fixture `ecc16`: console at 0x2dffa has 0x8000 bytes.
        let console = Division::new(0x8000, 16).unwrap();
        assert_eq!(console.data(), 0x8000 - 12 - 229 * 16);
        assert_eq!(Division::new(0x8000, 0).unwrap().data(), 0x8000 - 12);
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow, and no unsafe code")]
    fn every_part_of_every_small_zone_is_within_it() {
        for zone in 0..2_000 {
            for parity in [0, 1, 2, 8, 16, 33, 127] {
                let Some(division) = Division::new(zone, parity) else {
                    continue;
                };
                assert!(division.data() > 0);
                if parity > 0 {
                    assert_eq!(division.header_parity() + parity, zone);
                    assert!(division.blocks() <= division.groups, "{division:?}");
                    let last = division.blocks() - 1;
                    assert!((1..=BLOCK).contains(&division.block_len(last)));
                }
            }
        }
        assert_eq!(Division::new(1 << 20, 128), None);
        assert_eq!(Division::new(12, 0), None);
    }
}

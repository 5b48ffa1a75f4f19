//! Location and validation of a card's file system.
//!
//! Source: Microsoft, "FAT32 File System Specification" (fatgen103), sections "Boot Sector and BPB"
//! and "FAT Type Determination"; for partition tables, the common practice of PCs.

use core::fmt;

use crate::spi::told::Fat;

type Block = [u8; 512];

/// Location of a file system on a card, in blocks of 512 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) start: u32,
    pub(super) blocks: u32,
    /// Partition number, 1 to 4; `None` without a partition table.
    pub(super) partition: Option<u8>,
}

/// Reason why a file system cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// Neither a partition table nor a file system.
    Nothing,
    /// A GUID partition table.
    Gpt,
    /// An unsupported file system.
    Other(&'static str),
    /// No partition has a FAT; the value is the type of the first partition, if any.
    NoPartition(Option<u8>),
    /// An unsupported sector size in bytes.
    Sectors(u16),
    /// Damaged metadata, with a description.
    Damaged(&'static str),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => {
                f.write_str("no file system on it: neither a partition table nor a FAT16 or FAT32")
            }
            Self::Gpt => f.write_str("a GUID partition table: only an MBR, or none, is supported"),
            Self::Other(kind) => write!(f, "{kind}: only FAT16 and FAT32 are supported"),
            Self::NoPartition(None) => f.write_str("its partition table is empty"),
            Self::NoPartition(Some(kind)) => {
                write!(
                    f,
                    "no partition with a FAT16 or FAT32; the first is of type {kind:#04x}"
                )
            }
            Self::Sectors(bytes) => write!(
                f,
                "a FAT with sectors of {bytes} bytes: only 512 are supported"
            ),
            Self::Damaged(what) => write!(f, "the file system is damaged: {what}"),
        }
    }
}

fn le16(block: &Block, at: usize) -> u16 {
    u16::from_le_bytes([block[at], block[at + 1]])
}

fn le32(block: &Block, at: usize) -> u32 {
    u32::from(le16(block, at)) | u32::from(le16(block, at + 2)) << 16
}

/// Finds the first FAT, from the card's first block.
pub(super) fn find(first: &Block, blocks: u32) -> Result<Place, Unfit> {
    let whole = Place {
        start: 0,
        blocks,
        partition: None,
    };
    match kind(first) {
        Some("FAT") => return Ok(whole),
        Some(other) => return Err(Unfit::Other(other)),
        None if !is_signed(first) => return Err(Unfit::Nothing),
        None => {}
    }
    let mut seen = None;
    for number in 0..4 {
        let at = 446 + 16 * usize::from(number);
        let kind = first[at + 4];
        let (start, len) = (le32(first, at + 8), le32(first, at + 12));
        match kind {
            0 => continue,
            0xee => return Err(Unfit::Gpt),
            // FAT16 up to 32 MiB, FAT16, FAT32, FAT32 with LBA, and FAT16 with LBA.
            0x04 | 0x06 | 0x0b | 0x0c | 0x0e if start > 0 && start < blocks => {
                return Ok(Place {
                    start,
                    blocks: len.min(blocks - start),
                    partition: Some(number + 1),
                });
            }
            0x04 | 0x06 | 0x0b | 0x0c | 0x0e => {
                return Err(Unfit::Damaged("a partition is not on the card"));
            }
            kind => seen = seen.or(Some(kind)),
        }
    }
    Err(Unfit::NoPartition(seen))
}

fn is_signed(block: &Block) -> bool {
    block[510..] == [0x55, 0xaa]
}

/// Returns the kind of file system with this first block, if it is one.
fn kind(block: &Block) -> Option<&'static str> {
    if !is_signed(block) {
        return None;
    }
    match &block[3..11] {
        b"EXFAT   " => return Some("exFAT"),
        b"NTFS    " => return Some("NTFS"),
        _ => {}
    }
    // A partition table may also start with a jump instruction.
    let jumps = matches!((block[0], block[2]), (0xeb, 0x90) | (0xe9, _));
    let sectors = matches!(le16(block, 11), 512 | 1024 | 2048 | 4096);
    let clusters = block[13].is_power_of_two();
    let fats = matches!(block[16], 1 | 2) && le16(block, 14) > 0;
    let media = block[21] == 0xf0 || block[21] >= 0xf8;
    (jumps && sectors && clusters && fats && media).then_some("FAT")
}

/// A FAT16 or FAT32 file system with consistent metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    pub(super) fat: Fat,
    /// Total size in blocks.
    pub(super) blocks: u32,
    /// Cluster size in bytes.
    pub(super) cluster: u32,
    /// Number of data clusters; the first has number 2.
    pub(super) clusters: u32,
    /// Number of blocks before the first FAT.
    reserved: u32,
    /// Size of one FAT in blocks.
    fat_blocks: u32,
    fats: u32,
}

impl Volume {
    /// Parses the first block of a volume that has at most `room` blocks.
    pub(super) fn parse(block: &Block, room: u32) -> Result<Self, Unfit> {
        match kind(block) {
            Some("FAT") => {}
            Some(other) => return Err(Unfit::Other(other)),
            None => return Err(Unfit::Damaged("a partition does not start like a FAT")),
        }
        if le16(block, 11) != 512 {
            return Err(Unfit::Sectors(le16(block, 11)));
        }
        let either = |short: u16, long: usize| match short {
            0 => le32(block, long),
            short => short.into(),
        };
        let per_cluster = u32::from(block[13]);
        let reserved = u32::from(le16(block, 14));
        let fats = u32::from(block[16]);
        let roots = u32::from(le16(block, 17));
        let blocks = either(le16(block, 19), 32);
        let fat_blocks = either(le16(block, 22), 36);
        if blocks > room {
            return Err(Unfit::Damaged(
                "it is larger than its partition or the card",
            ));
        }
        let before_data = u64::from(reserved)
            + u64::from(fats) * u64::from(fat_blocks)
            + u64::from((roots * 32).div_ceil(512));
        let data = u64::from(blocks).checked_sub(before_data);
        let data = data.ok_or(Unfit::Damaged("it has no room for data"))? as u32;
        let clusters = data / per_cluster;
        let fat = match clusters {
            0..4085 => return Err(Unfit::Other("FAT12")),
            4085..65525 => Fat::Fat16,
            // Higher numbers are markers.
            65525..0x0fff_fff5 => Fat::Fat32,
            _ => {
                return Err(Unfit::Damaged("it has more clusters than FAT32 can number"));
            }
        };
        let volume = Self {
            fat,
            blocks,
            cluster: per_cluster * 512,
            clusters,
            reserved,
            fat_blocks,
            fats,
        };
        if u64::from(fat_blocks) * u64::from(volume.entries_per_block()) < u64::from(clusters) + 2 {
            return Err(Unfit::Damaged("its table is too small for its clusters"));
        }
        match fat {
            Fat::Fat16 if roots == 0 || le16(block, 22) == 0 => {
                Err(Unfit::Damaged("it is neither a FAT16 nor a FAT32"))
            }
            Fat::Fat32 if le16(block, 42) != 0 => Err(Unfit::Other("a FAT32 of another version")),
            Fat::Fat32 if !(1..reserved).contains(&u32::from(le16(block, 48))) => {
                Err(Unfit::Damaged("it has no information sector"))
            }
            Fat::Fat32 if !(2..clusters + 2).contains(&le32(block, 44)) => {
                Err(Unfit::Damaged("its root directory has no cluster"))
            }
            _ => Ok(volume),
        }
    }

    /// Returns the size of the data in bytes.
    pub(super) fn bytes(&self) -> u64 {
        u64::from(self.clusters) * u64::from(self.cluster)
    }

    const fn entries_per_block(&self) -> u32 {
        match self.fat {
            Fat::Fat16 => 256,
            Fat::Fat32 => 128,
        }
    }

    /// Returns the invalid cluster number that a chain in this FAT block refers to, if any.
    pub(super) fn leads_outside(&self, number: u32, block: &Block) -> Option<u32> {
        let within = number.checked_sub(self.reserved)?;
        if within / self.fat_blocks >= self.fats {
            return None;
        }
        let first = (within % self.fat_blocks).saturating_mul(self.entries_per_block());
        let used = (self.clusters + 2).saturating_sub(first) as usize;
        let entry = |index: usize| match self.fat {
            Fat::Fat16 => (u32::from(le16(block, 2 * index)), 0xfff7),
            // The upper four bits are reserved.
            Fat::Fat32 => (le32(block, 4 * index) & 0x0fff_ffff, 0x0fff_fff7),
        };
        let entries = (0..self.entries_per_block() as usize).take(used);
        // The first two entries have other meanings.
        let entries = entries.skip(2_usize.saturating_sub(first as usize));
        entries
            .map(entry)
            .find(|&(to, bad)| to >= self.clusters + 2 && to < bad)
            .map(|(to, _)| to)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use proptest::prelude::*;

    use super::*;

    /// Returns a first block that starts as a FAT does.
    fn described(description: [u8; 50]) -> Block {
        let mut block = [0; 512];
        block[11..61].copy_from_slice(&description);
        block[..3].copy_from_slice(&[0xeb, 0x3c, 0x90]);
        block[11..13].copy_from_slice(&512_u16.to_le_bytes());
        block[13] = 1 << (description[2] % 8);
        block[16] = 1 + description[5] % 2;
        block[21] = 0xf8;
        block[510..].copy_from_slice(&[0x55, 0xaa]);
        block
    }

    proptest! {
        #[test]
        fn no_first_block_makes_the_parser_panic(
            description: [u8; 50],
            zeros in 0..50_usize,
            room: u32,
            number: u32,
            content: [u8; 32],
        ) {
            let mut description = description;
            description[zeros..].fill(0);
            let block = described(description);
            let _ = find(&block, room);
            if let Ok(volume) = Volume::parse(&block, room) {
                prop_assert!(volume.blocks <= room);
                prop_assert!(volume.bytes() <= u64::from(room) * 512);
                let mut fat = [0; 512];
                fat[..32].copy_from_slice(&content);
                let to = volume.leads_outside(number, &fat);
                prop_assert!(to.is_none_or(|to| to >= volume.clusters + 2));
            }
        }

        #[test]
        fn a_partition_lies_on_the_card(
            kind in 0..16_u8,
            entry: [u8; 8],
            blocks in 1..u32::MAX,
        ) {
            let mut table = [0; 512];
            table[450] = kind;
            table[454..462].copy_from_slice(&entry);
            table[510..].copy_from_slice(&[0x55, 0xaa]);
            if let Ok(place) = find(&table, blocks) {
                prop_assert_eq!(place.partition, Some(1));
                prop_assert!(place.start > 0 && place.blocks <= blocks - place.start);
            }
        }
    }
}

//! A card as `embedded-sdmmc` expects it: with a partition table whose first partition is the one
//! to read. This module and `volume` validate the data that the crate does not.

use core::cell::Cell;
use core::fmt;

use embedded_sdmmc::{Block, BlockCount, BlockDevice, BlockIdx, SdCardError};

use super::volume::{Place, Unfit, Volume, find};

/// Size of a block in bytes.
const BLOCK: u64 = 512;

/// Blocks of the longest directory (65,536 entries of 32 bytes), with a FAT block for each.
const LONGEST_DIRECTORY: u32 = 2 * 65_536 * 32 / 512;

/// Fault of a card.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wrong {
    /// The card did not return the block of this number.
    Read(SdCardError, u32),
    Unfit(Unfit),
    /// A cluster chain refers to the first number, but the volume has only the second number of
    /// clusters.
    Outside(u32, u32),
    /// A file extends beyond the file system.
    Beyond,
    /// The root directory's cluster chain does not end.
    Endless,
    /// The file of this entry has fewer clusters than its size needs.
    Short(u32),
    /// The files are larger than the file system.
    TooLarge,
    /// The crate requested a write.
    ReadOnly,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error, block) => write!(f, "block {block}: {error}"),
            Self::Unfit(unfit) => write!(f, "{unfit}"),
            Self::Outside(cluster, of) => write!(
                f,
                "the file system is damaged: a chain refers to cluster {cluster} of {of}"
            ),
            Self::Beyond => {
                f.write_str("the file system is damaged: a file extends beyond its end")
            }
            Self::Endless => {
                f.write_str("the file system is damaged: the root directory never ends")
            }
            Self::Short(entry) => {
                write!(f, "the file system is damaged: file {entry} ends too early")
            }
            Self::TooLarge => {
                f.write_str("the file system is damaged: its files are larger than the volume")
            }
            Self::ReadOnly => f.write_str("the card is read-only here"),
        }
    }
}

impl core::error::Error for Wrong {}

/// Presents any card with a FAT as one with a partition table: block 0 is a table with one
/// partition, which starts at block 1.
pub(super) struct Disk<D> {
    card: D,
    place: Place,
    volume: Volume,
    /// First error. The crate does not report some errors as such.
    wrong: Cell<Option<Wrong>>,
    /// Number of blocks that may still be read for the directory.
    left: Cell<Option<u32>>,
}

impl<D: BlockDevice<Error = SdCardError>> Disk<D> {
    /// Finds the file system on a card of `blocks` blocks.
    pub(super) fn new(card: D, blocks: u64) -> Result<Self, Wrong> {
        let read = |number: u32| {
            let mut block = [Block::new()];
            match card.read(&mut block, BlockIdx(number)) {
                Ok(()) => Ok(block[0].contents),
                Err(error) => Err(Wrong::Read(error, number)),
            }
        };
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        let place = find(&read(0)?, blocks).map_err(Wrong::Unfit)?;
        let volume = Volume::parse(&read(place.start)?, place.blocks).map_err(Wrong::Unfit)?;
        Ok(Self {
            card,
            place,
            volume,
            wrong: Cell::new(None),
            left: Cell::new(None),
        })
    }

    pub(super) const fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Returns the partition's number; `None` if the card has no partition table.
    pub(super) const fn partition(&self) -> Option<u8> {
        self.place.partition
    }

    /// Returns the first error.
    pub(super) fn wrong(&mut self) -> Option<Wrong> {
        self.wrong.get()
    }

    /// Limits further reads to the size of a directory.
    pub(super) fn begin_directory(&mut self) {
        self.left.set(Some(LONGEST_DIRECTORY));
    }

    pub(super) fn end_directory(&mut self) {
        self.left.set(None);
    }

    fn read_one(&self, block: &mut Block, number: u32) -> Result<(), Wrong> {
        if let Some(left) = self.left.get() {
            self.left
                .set(Some(left.checked_sub(1).ok_or(Wrong::Endless)?));
        }
        let Some(within) = number.checked_sub(1) else {
            block.contents = table(self.volume.blocks);
            return Ok(());
        };
        if within >= self.volume.blocks {
            return Err(Wrong::Beyond);
        }
        let at = self.place.start + within;
        self.card
            .read(core::slice::from_mut(block), BlockIdx(at))
            .map_err(|error| Wrong::Read(error, at))?;
        match self.volume.leads_outside(within, &block.contents) {
            Some(cluster) => Err(Wrong::Outside(cluster, self.volume.clusters)),
            None => Ok(()),
        }
    }
}

impl<D: BlockDevice<Error = SdCardError>> BlockDevice for Disk<D> {
    type Error = Wrong;

    fn read(&self, blocks: &mut [Block], start: BlockIdx) -> Result<(), Wrong> {
        for (block, number) in blocks.iter_mut().zip(start.0..) {
            self.read_one(block, number).inspect_err(|&wrong| {
                self.wrong.set(self.wrong.get().or(Some(wrong)));
            })?;
        }
        Ok(())
    }

    fn write(&self, _: &[Block], _: BlockIdx) -> Result<(), Wrong> {
        Err(Wrong::ReadOnly)
    }

    fn num_blocks(&self) -> Result<BlockCount, Wrong> {
        Ok(BlockCount(self.volume.blocks.saturating_add(1)))
    }
}

/// Returns a partition table with one partition of `blocks` blocks behind it. A PC's master boot
/// record has four entries of 16 bytes at 446, and 0x55 0xaa at its end.
fn table(blocks: u32) -> [u8; BLOCK as usize] {
    let mut table = [0; BLOCK as usize];
    // FAT32 with LBA. The crate reads everything else from the volume.
    table[446 + 4] = 0x0c;
    table[446 + 8..][..4].copy_from_slice(&1_u32.to_le_bytes());
    table[446 + 12..][..4].copy_from_slice(&blocks.to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    table
}

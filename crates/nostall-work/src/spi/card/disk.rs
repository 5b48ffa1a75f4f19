//! A card as the file system's crate wants it: with a table of partitions, of which the
//! first is the one to read. Every check of data that the crate does not validate is here,
//! and in `volume`.

use core::cell::Cell;
use core::fmt;

use embedded_sdmmc::{Block, BlockCount, BlockDevice, BlockIdx, SdCardError};

use super::volume::{Place, Unfit, Volume, find};

/// Bytes of a block.
const BLOCK: u64 = 512;

/// Blocks of the longest directory (65,536 entries of 32 bytes), with a block of the FAT
/// for each.
const LONGEST_DIRECTORY: u32 = 2 * 65_536 * 32 / 512;

/// Fault of a card.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wrong {
    /// It did not give the block of this number.
    Read(SdCardError, u32),
    Unfit(Unfit),
    /// A chain of clusters leads here, where the volume has no more than so many.
    Outside(u32, u32),
    /// A file is beyond its end.
    Beyond,
    /// The root directory's chain of clusters never ends.
    Endless,
    /// The file of this entry ends before its size.
    Short(u32),
    /// Its files are larger than it is.
    TooLarge,
    /// A block was to be written.
    ReadOnly,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error, block) => write!(f, "block {block}: {error}"),
            Self::Unfit(unfit) => write!(f, "{unfit}"),
            Self::Outside(cluster, of) => write!(
                f,
                "the file system is damaged: a chain leads to cluster {cluster}, of {of}"
            ),
            Self::Beyond => f.write_str("the file system is damaged: a file is beyond its end"),
            Self::Endless => {
                f.write_str("the file system is damaged: the root directory never ends")
            }
            Self::Short(entry) => {
                write!(f, "the file system is damaged: file {entry} ends too early")
            }
            Self::TooLarge => {
                f.write_str("the file system is damaged: its files are larger than it is")
            }
            Self::ReadOnly => f.write_str("nothing is to be written"),
        }
    }
}

impl core::error::Error for Wrong {}

/// Block 0 is a table with one partition, which begins at block 1 and is the one to read, for any
/// place on the card and any table there.
pub(super) struct Disk<D> {
    card: D,
    place: Place,
    volume: Volume,
    /// The first thing that was wrong: the crate takes some of it for an end.
    wrong: Cell<Option<Wrong>>,
    /// Blocks that may yet be read of the directory.
    left: Cell<Option<u32>>,
}

impl<D: BlockDevice<Error = SdCardError>> Disk<D> {
    /// Finds the file system on a card of so many blocks.
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

    /// The number of the partition, if the card has a table.
    pub(super) const fn partition(&self) -> Option<u8> {
        self.place.partition
    }

    /// The first thing that was wrong.
    pub(super) fn wrong(&mut self) -> Option<Wrong> {
        self.wrong.get()
    }

    /// From now on no more is read than a directory can have.
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

/// A table with one partition of so many blocks behind it. Source: "Master boot record"
/// as every PC has it: four entries of 16 bytes at 446, and 0x55 0xaa at the end.
fn table(blocks: u32) -> [u8; BLOCK as usize] {
    let mut table = [0; BLOCK as usize];
    // FAT32 with logical block addresses; the crate goes by the volume for the rest.
    table[446 + 4] = 0x0c;
    table[446 + 8..][..4].copy_from_slice(&1_u32.to_le_bytes());
    table[446 + 12..][..4].copy_from_slice(&blocks.to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    table
}

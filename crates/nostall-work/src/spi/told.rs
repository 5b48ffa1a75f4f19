//! Reports of an SPI job.

use serde::{Deserialize, Serialize};

use super::job::Strategy;
use crate::ReportText;

/// A SHA-256.
pub type Digest = [u8; 32];

/// A name of eight and three characters, of which some take two bytes.
pub type ShortName = heapless::String<24>;

/// Report of an SPI job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Told {
    /// The flash's identification: its manufacturer, and two bytes of the manufacturer's.
    FlashId([u8; 3]),
    /// Result of the test of a sector.
    Sector(Sector),
    /// The card has been initialised.
    Card {
        /// Kind of the card.
        kind: CardKind,
        /// Its size.
        bytes: u64,
    },
    /// A file system was found on it.
    Volume(FoundVolume),
    /// Something in the root directory.
    Entry {
        /// Its number, from 0 in the directory's order.
        entry: u32,
        /// Its short name.
        short: ShortName,
        /// Size in bytes.
        size: u32,
        /// It is a directory; not entered.
        directory: bool,
    },
    /// A piece of the long name of the entry last reported; there may be more to come.
    Name(ReportText),
    /// A file has been read to its end.
    Read {
        /// The entry's number.
        entry: u32,
        /// Of its content.
        sha256: Digest,
    },
    /// So much has been read of files: reported now and then, as a card may be large.
    Progress {
        /// Bytes read so far, of all files.
        bytes: u64,
    },
    /// The whole root directory has been read.
    CardDone(CardRead),
    /// A busy bus was measured.
    Can(SpiMeasured),
    /// The job could not go on, and why.
    Fault(ReportText),
}

/// Result of the test of a flash's sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sector {
    /// Where it begins.
    pub address: u32,
    /// Its content as it was found.
    pub before: Digest,
    /// Bytes that were not all ones after it was erased.
    pub not_erased: u32,
    /// Pattern to be written.
    pub pattern: Digest,
    /// Its content after that.
    pub after: Digest,
    /// Whether the pages just before and just behind it are unchanged.
    pub neighbours_kept: bool,
    /// Nanoseconds to erase it.
    pub erase_ns: u64,
    /// Nanoseconds to write it.
    pub write_ns: u64,
}

/// Kind that a card reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CardKind {
    /// Version 1.
    Sd1,
    /// Version 2, standard capacity.
    Sd2,
    /// High or extended capacity.
    Sdhc,
}

/// A file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fat {
    /// FAT16.
    Fat16,
    /// FAT32.
    Fat32,
}

/// A file system that was found on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundVolume {
    /// The partition that it is in, 1 to 4; `None` if the card has no partition table.
    pub partition: Option<u8>,
    /// The kind of file system.
    pub fat: Fat,
    /// Bytes of its clusters.
    pub cluster: u32,
}

/// Sums of reading a whole card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardRead {
    /// Number of files.
    pub files: u32,
    /// Number of directories, which are not entered.
    pub directories: u32,
    /// Bytes of the files.
    pub bytes: u64,
    /// Nanoseconds, with the card's initialisation.
    pub ns: u64,
    /// Messages on the bus.
    pub messages: u64,
}

/// Result of a busy bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpiMeasured {
    /// The strategy.
    pub strategy: Strategy,
    /// Frames that were received, each as it was sent, and in its order.
    pub received: u32,
    /// Frames that were not.
    pub wrong: u32,
    /// Frames that were lost in the CAN controller.
    pub overflows: u32,
    /// Frames that were submitted to be sent.
    pub submitted: u32,
    /// Of these, those that went out as they were submitted, and in their order.
    pub sent: u32,
    /// Messages on the bus.
    pub messages: u64,
    /// Of these, those by `sync`.
    pub sync: u64,
    /// Of these, those that their callers ran at once.
    pub sync_immediate: u64,
    /// Messages that were submitted.
    pub asynchronous: u64,
    /// Messages that the worker ran.
    pub by_worker: u64,
    /// Messages that failed.
    pub errors: u64,
    /// Times that the worker was woken, until a moment after the last frame was received.
    pub wakeups_meanwhile: u64,
    /// Times that it was woken, until the bus had been idle for long enough.
    pub wakeups: u64,
    /// Times that the hardware was woken.
    pub preparations: u64,
    /// Times that it was put to sleep.
    pub teardowns: u64,
    /// Times that no frame was received for so long that the hardware may have been put
    /// to sleep meanwhile.
    pub pauses: u32,
    /// Nanoseconds until the last frame was received.
    pub ns: u64,
    /// Of these, those that the worker had a CPU.
    pub worker_ns: u64,
    /// Context switches meanwhile, of the two tasks and the worker; `None` if the machine
    /// does not count them.
    pub switches: Option<u64>,
    /// Interrupts from one CPU to another meanwhile.
    pub cross_cpu: Option<u64>,
    /// Interrupts meanwhile, of all kinds.
    pub interrupts: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{longest_text, result_survives};

    #[test]
    fn every_result_of_spi_fits_its_line() {
        let text = longest_text();
        let (large, digest) = (u64::MAX, [u8::MAX; 32]);
        let mut short = ShortName::new();
        (0..12).for_each(|_| short.push('\u{ff}').unwrap());
        let measured = SpiMeasured {
            strategy: Strategy::Caller,
            received: u32::MAX,
            wrong: u32::MAX,
            overflows: u32::MAX,
            submitted: u32::MAX,
            sent: u32::MAX,
            messages: large,
            sync: large,
            sync_immediate: large,
            asynchronous: large,
            by_worker: large,
            errors: large,
            wakeups_meanwhile: large,
            wakeups: large,
            preparations: large,
            teardowns: large,
            pauses: u32::MAX,
            ns: large,
            worker_ns: large,
            switches: Some(large),
            cross_cpu: Some(large),
            interrupts: None,
        };
        for told in [
            Told::FlashId([u8::MAX; 3]),
            Told::Sector(Sector {
                address: u32::MAX,
                before: digest,
                not_erased: u32::MAX,
                pattern: digest,
                after: digest,
                neighbours_kept: false,
                erase_ns: large,
                write_ns: large,
            }),
            Told::Card {
                kind: CardKind::Sdhc,
                bytes: large,
            },
            Told::Volume(FoundVolume {
                partition: Some(u8::MAX),
                fat: Fat::Fat16,
                cluster: u32::MAX,
            }),
            Told::Entry {
                entry: u32::MAX,
                short,
                size: u32::MAX,
                directory: false,
            },
            Told::Name(text.clone()),
            Told::Read {
                entry: u32::MAX,
                sha256: digest,
            },
            Told::Progress { bytes: large },
            Told::CardDone(CardRead {
                files: u32::MAX,
                directories: u32::MAX,
                bytes: large,
                ns: large,
                messages: large,
            }),
            Told::Can(measured),
            Told::Fault(text),
        ] {
            result_survives(told);
        }
    }
}

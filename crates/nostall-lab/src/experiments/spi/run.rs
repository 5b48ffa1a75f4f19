//! SPI: a flash's sector, a card's files, and a busy bus.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use nostall_devices::spi::Blocks;
use nostall_work::LONGEST_REPORT;
use nostall_work::spi::{
    CardKind, CardRead, Digest, FoundVolume, Job, PROGRESS, SECTOR, Sector, SpiMeasured, Strategy,
    Told,
};
use sha2::{Digest as _, Sha256};

use nostall_vm::process::MemoryFile;
use nostall_vm::qemu::Drive;
use nostall_vm::{Ending, Error, Guest, Limits, Machine, Ran, Work};

/// Entries of a root directory that a guest may report, and their long names: more than cards
/// have, and less than would fill our memory.
const ENTRIES: u64 = 16_384;

/// The measurements, beside the test of the flash and of the card.
#[derive(Clone, Copy, Debug)]
pub struct SpiPlan {
    /// CAN frames that are received with each strategy.
    pub frames: u32,
    /// Number of rounds through all strategies.
    pub rounds: u16,
}

impl SpiPlan {
    pub(super) fn busy_buses(&self) -> impl Iterator<Item = (Strategy, u32)> + use<'_> {
        let round = |_| Strategy::ALL.map(|strategy| (strategy, self.frames));
        (0..self.rounds).flat_map(round)
    }

    /// The jobs, in their order.
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs = vec![Job::Flash, Job::Card];
        let busy = self.busy_buses();
        jobs.extend(busy.map(|(strategy, frames)| Job::Can { strategy, frames }));
        jobs
    }

    fn limits(&self, card_bytes: u64) -> Limits {
        let limits = Limits::of(0, 0);
        let lines = 3 * ENTRIES + card_bytes / PROGRESS + 64;
        // An emulated CPU needs some hundred microseconds for a frame, and has to share
        // the host's.
        let can = Duration::from_millis(2) * self.frames;
        // For the card, at least 32 KiB a second: it reads a few hundred kilobytes.
        let card = Duration::from_secs(card_bytes >> 15);
        Limits {
            silence: limits.silence + can,
            total: limits.total + can * 2 * u32::from(self.rounds) + card,
            report_bytes: lines * LONGEST_REPORT as u64,
            ..limits
        }
    }
}

/// The reports of a guest or of the models, put together.
#[derive(Clone, Debug, Default)]
pub struct SpiReports {
    /// The flash's identification.
    pub flash: Option<[u8; 3]>,
    /// The test of a sector, as the driver reports it.
    pub sector: Option<Sector>,
    /// The same sector as found in the flash's memory.
    pub in_flash: Option<InFlash>,
    /// The card's kind, and its number of bytes.
    pub card: Option<(CardKind, u64)>,
    /// The file system on it.
    pub volume: Option<FoundVolume>,
    /// Its root directory, in its order.
    pub entries: Vec<Entry>,
    /// The sums, if the card was read to its end.
    pub read: Option<CardRead>,
    /// The measurements of the busy bus, round after round.
    pub measured: Vec<SpiMeasured>,
    /// Failures, each with its job.
    pub faults: Vec<(Job, String)>,
}

/// A sector and its flash, read from the flash's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlash {
    /// The sector's content before.
    pub before: Digest,
    /// The sector's content after.
    pub after: Digest,
    /// Whether the rest of the flash is as it was.
    pub rest_kept: bool,
}

/// An entry of the root directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its short name.
    pub short: String,
    /// Its long name, if it has one.
    pub long: Option<String>,
    /// Number of bytes.
    pub size: u32,
    /// Whether it is a directory.
    pub directory: bool,
    /// Digest of its content, if it was read.
    pub sha256: Option<Digest>,
}

impl Entry {
    /// Returns the long name, or else the short one.
    pub fn name(&self) -> &str {
        self.long.as_deref().unwrap_or(&self.short)
    }
}

impl SpiReports {
    /// Adds a report of `job`; `None` if it is of another job.
    pub(super) fn add(&mut self, job: Job, told: Told) -> Option<()> {
        match (job, told) {
            (_, Told::Fault(what)) => self.faults.push((job, what.as_str().to_owned())),
            (Job::Flash, Told::FlashId(id)) => self.flash = Some(id),
            (Job::Flash, Told::Sector(sector)) => self.sector = Some(sector),
            (Job::Card, Told::Card { kind, bytes }) => self.card = Some((kind, bytes)),
            (Job::Card, Told::Volume(volume)) => self.volume = Some(volume),
            (
                Job::Card,
                Told::Entry {
                    entry,
                    short,
                    size,
                    directory,
                },
            ) if entry as usize == self.entries.len() => self.entries.push(Entry {
                short: short.as_str().to_owned(),
                long: None,
                size,
                directory,
                sha256: None,
            }),
            (Job::Card, Told::Name(piece)) => {
                let long = &mut self.entries.last_mut()?.long;
                long.get_or_insert_default().push_str(&piece);
            }
            (Job::Card, Told::Read { entry, sha256 }) => {
                self.entries.get_mut(entry as usize)?.sha256 = Some(sha256);
            }
            (Job::Card, Told::Progress { .. }) => {}
            (Job::Card, Told::CardDone(read)) => self.read = Some(read),
            (Job::Can { strategy, .. }, Told::Can(measured)) if measured.strategy == strategy => {
                self.measured.push(measured);
            }
            _ => return None,
        }
        Some(())
    }

    /// Compares the flash's memory before and after the test of a sector.
    pub(super) fn look_into_flash(&mut self, before: &[u8], after: &[u8]) {
        let Some(sector) = &self.sector else { return };
        let start = sector.address as usize;
        let Some(end) = start.checked_add(SECTOR as usize) else {
            return;
        };
        let (Some(was), Some(is)) = (before.get(start..end), after.get(start..end)) else {
            return;
        };
        self.in_flash = Some(InFlash {
            before: Sha256::digest(was).into(),
            after: Sha256::digest(is).into(),
            rest_kept: before[..start] == after[..start] && before[end..] == after[end..],
        });
    }
}

/// Returns the content of a flash before the test: no sector is erased, and no two are the same.
pub(super) fn flash_content() -> Vec<u8> {
    let mut content = vec![0; Drive::FLASH_BYTES as usize];
    for (number, sector) in content.chunks_mut(SECTOR as usize).enumerate() {
        sector.fill(number as u8 & 0x7f);
        sector[..4].copy_from_slice(&(number as u32).to_le_bytes());
    }
    content
}

/// A card's image: a file that is only read. It may be large and have holes.
#[derive(Debug)]
pub struct Image {
    file: File,
    bytes: u64,
}

impl Image {
    /// Returns the image in `file`.
    ///
    /// # Errors
    ///
    /// The system's error, if it does not give the file's length.
    pub fn new(mut file: File) -> io::Result<Self> {
        // A block device has no length in its metadata.
        let bytes = file.seek(SeekFrom::End(0))?;
        Ok(Self { file, bytes })
    }

    /// Its length.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file.
    pub const fn file(&self) -> &File {
        &self.file
    }
}

impl Blocks for Image {
    fn blocks(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(512)).unwrap_or(u32::MAX)
    }

    fn read(&mut self, number: u32, into: &mut [u8; 512]) -> bool {
        into.fill(0);
        let start = u64::from(number) * 512;
        let len = self.bytes.saturating_sub(start).min(512) as usize;
        self.file.read_exact_at(&mut into[..len], start).is_ok()
    }

    fn write(&mut self, _: u32, _: &[u8; 512]) -> bool {
        false
    }
}

/// Runs `plan` on `machine` in `guest`, with `image` as its card. The plan replaces the guest's
/// work and drives.
///
/// # Errors
///
/// Returns the errors of [`Machine::run`].
pub fn run(
    machine: &dyn Machine,
    guest: &Guest<'_>,
    image: &Image,
    plan: &SpiPlan,
) -> Result<(SpiReports, Ran), Error> {
    let jobs = plan.jobs();
    let work: Vec<_> = jobs.iter().copied().map(Work::from).collect();
    let content = flash_content();
    let flash = MemoryFile::new(&content)?;
    let guest = Guest {
        work: &work,
        repeat: 1,
        drives: &[Drive::Flash(&flash), Drive::SdCard(image.file())],
        ..*guest
    };
    let ran = machine.run(
        &guest,
        &plan.limits(image.bytes()),
        Ending::Done,
        &mut |_| {},
    )?;
    let mut reports = SpiReports::default();
    for (item, told) in ran.told()? {
        let job = jobs.get(item);
        let added = job.and_then(|job| reports.add(*job, told));
        added.ok_or_else(|| Error::NotAReport(format!("item {item} tells something else")))?;
    }
    reports.look_into_flash(&content, &flash.read_from(0, Drive::FLASH_BYTES)?);
    Ok((reports, ran))
}

//! SPI: a flash's sector, a card's files, and a busy bus.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use nostall_devices::spi::Blocks;
use nostall_work::LONGEST_REPORT;
use nostall_work::spi::Sector;
use nostall_work::spi::{
    CardKind, Digest, Fat, Job, PROGRESS, SECTOR, SpiMeasured, Strategy, Told,
};
use sha2::{Digest as _, Sha256};

use nostall_vm::process::MemoryFile;
use nostall_vm::qemu::Drive;
use nostall_vm::{Ending, Error, Guest, Limits, Machine, Ran, Work};

/// Entries of a root directory that a guest may tell of, and their long names: more than
/// people have, and less than would fill our memory.
const ENTRIES: u64 = 16_384;

/// What is to be done, besides trying the flash and reading the card.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// CAN frames that are received by each strategy.
    pub frames: u32,
    /// How often to go through all strategies.
    pub rounds: u16,
}

impl Experiment {
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
        // Of the card, a few hundred kilobytes a second; there is no more than is told of.
        let card = Duration::from_secs(card_bytes >> 15);
        Limits {
            silence: limits.silence + can,
            total: limits.total + can * 2 * u32::from(self.rounds) + card,
            report_bytes: lines * LONGEST_REPORT as u64,
            ..limits
        }
    }
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What the flash says that it is.
    pub flash: Option<[u8; 3]>,
    /// What became of its sector, as the driver says.
    pub sector: Option<Sector>,
    /// The same, as is found in the flash itself.
    pub in_flash: Option<InFlash>,
    /// What the card says that it is, and how many bytes it has.
    pub card: Option<(CardKind, u64)>,
    /// The file system on it.
    pub volume: Option<Volume>,
    /// What is in its root directory, in its order.
    pub entries: Vec<Entry>,
    /// The card was read to its end.
    pub read: Option<CardRead>,
    /// What the busy bus came to, round after round.
    pub measured: Vec<SpiMeasured>,
    /// What went wrong, and in which job.
    pub faults: Vec<(Job, String)>,
}

/// A sector and its flash, from behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlash {
    /// The sector's content before.
    pub before: Digest,
    /// And after.
    pub after: Digest,
    /// Whether all the rest is as it was.
    pub rest_kept: bool,
}

/// A file system on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// The partition that it is in, 1 to 4; `None` if the card has no table of them.
    pub partition: Option<u8>,
    /// What it is.
    pub fat: Fat,
    /// Bytes of its clusters.
    pub cluster: u32,
}

/// Something in the root directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its short name.
    pub short: String,
    /// Its long name, if it has one.
    pub long: Option<String>,
    /// Bytes.
    pub size: u32,
    /// It is a directory.
    pub directory: bool,
    /// Of its content, if it was read.
    pub sha256: Option<Digest>,
}

/// Reading a whole card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardRead {
    /// Files.
    pub files: u32,
    /// Directories, not entered.
    pub directories: u32,
    /// Bytes of the files.
    pub bytes: u64,
    /// Nanoseconds.
    pub ns: u64,
    /// Messages on the bus.
    pub messages: u64,
}

impl Outcome {
    /// Adds what `job` tells; `None` if that is not what it tells.
    pub(super) fn add(&mut self, job: Job, told: Told) -> Option<()> {
        match (job, told) {
            (_, Told::Fault(what)) => self.faults.push((job, what.as_str().to_owned())),
            (Job::Flash, Told::FlashId(id)) => self.flash = Some(id),
            (Job::Flash, Told::Sector(sector)) => self.sector = Some(sector),
            (Job::Card, Told::Card { kind, bytes }) => self.card = Some((kind, bytes)),
            (
                Job::Card,
                Told::Volume {
                    partition,
                    fat,
                    cluster,
                },
            ) => {
                self.volume = Some(Volume {
                    partition,
                    fat,
                    cluster,
                });
            }
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
            (
                Job::Card,
                Told::CardDone {
                    files,
                    directories,
                    bytes,
                    ns,
                    messages,
                },
            ) => {
                self.read = Some(CardRead {
                    files,
                    directories,
                    bytes,
                    ns,
                    messages,
                });
            }
            (Job::Can { strategy, .. }, Told::Can(measured)) if measured.strategy == strategy => {
                self.measured.push(measured);
            }
            _ => return None,
        }
        Some(())
    }

    /// Looks for what the driver says in the flash itself, of which it is known what was
    /// in it.
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

/// What is in a flash before it is tried: no sector is erased, and no two are the same.
pub(super) fn flash_content() -> Vec<u8> {
    let mut content = vec![0; Drive::FLASH_BYTES as usize];
    for (number, sector) in content.chunks_mut(SECTOR as usize).enumerate() {
        sector.fill(number as u8 & 0x7f);
        sector[..4].copy_from_slice(&(number as u32).to_le_bytes());
    }
    content
}

/// A card's image: a file, of which nothing is changed. It may be large and have holes.
#[derive(Debug)]
pub struct Image {
    file: File,
    bytes: u64,
}

impl Image {
    /// The image in `file`.
    ///
    /// # Errors
    ///
    /// What the system says when it is asked for its length.
    pub fn new(mut file: File) -> io::Result<Self> {
        // Of a block device too.
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

/// Runs the experiment on `machine` in `guest`, whose work and drives are then those of the
/// experiment, with `image` as its card.
///
/// # Errors
///
/// As [`Machine::run`].
pub fn run(
    machine: &dyn Machine,
    guest: &Guest<'_>,
    image: &Image,
    experiment: &Experiment,
) -> Result<(Outcome, Ran), Error> {
    let jobs = experiment.jobs();
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
        &experiment.limits(image.bytes()),
        Ending::Done,
        &mut |_| {},
    )?;
    let mut outcome = Outcome::default();
    for (item, told) in ran.told()? {
        let job = jobs.get(item);
        let added = job.and_then(|job| outcome.add(*job, told));
        added.ok_or_else(|| Error::NotAReport(format!("item {item} tells something else")))?;
    }
    outcome.look_into_flash(&content, &flash.read_from(0, Drive::FLASH_BYTES)?);
    Ok((outcome, ran))
}
